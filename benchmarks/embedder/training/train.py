"""Trains one model: ``python -m benchmarks.embedder.training.train --data DIR --trials FILE
--trial NAME``.

Needs torch, transformers, tokenizers and a training set (`dataset.py`), no network, and a GPU to
be quick. Every choice is in the trial's record; a seed, a kind of GPU and the versions give the
same model but for the order of floating-point sums. `--judged` scores the development half of
KernelRetrieve at the end.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from benchmarks.embedder.training.batches import batches
from benchmarks.embedder.training.judged import Judged, ndcg
from benchmarks.embedder.training.model import (
    Arrays,
    Encoder,
    chosen_layers,
    read_start,
    write_change,
)
from benchmarks.embedder.training.objective import contrastive_loss, nested_loss
from benchmarks.embedder.training.records import Document, Pair, TrainingSet
from benchmarks.embedder.training.tokens import Tokens, tokenized
from benchmarks.embedder.training.trial import Trial

WEIGHT_DECAY = 0.01
CLIP = 1.0
ENCODE_BATCH = 1_024
MINED = 8
"""Negatives kept for a pair, and the share of its own score from which another document may be an
answer that nobody wrote down, and is none."""
TOO_ALIKE = 0.95
MINE_DEPTH = 40
PART_BYTES = 15_000_000
REPORT_EVERY = 100
WARM_STEPS, PACE_STEPS = 10, 40
"""The pace of a run is read from the steps between."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Documents with and without their header, and queries, on the device."""

    documents: "DeviceTokens"
    bare: "DeviceTokens"
    queries: "DeviceTokens"


class DeviceTokens:
    """A matrix of token ids on a device; rows are taken with their mask."""

    def __init__(self, tokens: Tokens, device: torch.device) -> None:
        self.ids = torch.from_numpy(np.array(tokens.ids).astype(np.int16)).to(device)
        self.lengths = torch.from_numpy(np.array(tokens.lengths)).to(device)

    def take(self, rows: Tensor, most: int) -> tuple[Tensor, Tensor]:
        """Ids (n, longest) int64 and mask, cut to `most` tokens, the last one the separator."""
        lengths = self.lengths[rows]
        cut = lengths > most
        lengths = lengths.clamp(max=most)
        width = min(most, -(-int(lengths.max()) // 16) * 16, self.ids.shape[1])
        ids = self.ids[rows, :width].long() & 0xFFFF
        ends = self.ids[rows, self.lengths[rows].long() - 1].long() & 0xFFFF
        mask = torch.arange(width, device=ids.device)[None] < lengths[:, None]
        if bool(cut.any()):
            last = torch.where(cut, ends, ids[:, width - 1])
            ids = torch.cat([ids[:, :-1], last[:, None]], dim=1)
        return ids, mask


def main() -> None:
    """Train and write what changed, with its scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the training set")
    parser.add_argument("--trials", type=Path, required=True, help="JSON: name → choices")
    parser.add_argument("--trial", required=True, nargs="+", help="names; one after another")
    parser.add_argument("--start", type=Path, required=True, help="safetensors or ONNX")
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--judged", type=Path)
    parser.add_argument("--tokens", type=Path, help="folder to keep token ids in, shared by trials")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training = TrainingSet.read(arguments.data)
    texts = load_texts(training, arguments.tokenizer, arguments.tokens, device)
    start = read_start(arguments.start)
    judged = arguments.judged and JudgedTexts.read(arguments.judged, arguments.tokenizer, device)
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in arguments.trial:
        trial = Trial.read(arguments.trials, name)
        began = time.time()
        model, trial = train(training, texts, start, trial, device)
        report: dict[str, Any] = {"trial": trial.to_json(), "seconds": time.time() - began}
        report |= {"device": _device_name(device), "torch": torch.__version__}
        if judged:
            report["scores"] = judge(model, judged, trial, device)
        write(model, start, trial, report, arguments.out)
        print(name, json.dumps(report.get("scores")), flush=True)


def load_texts(
    training: TrainingSet, tokenizer: Path, keep: Path | None, device: torch.device
) -> Texts:
    """Token ids of everything, from `keep` or made now."""
    texts = {
        "documents": ([each.text for each in training.documents], 512),
        "bare": ([each.text.partition("\n")[2] for each in training.documents], 512),
        "queries": ([each.query for each in training.pairs], 64),
    }
    found = {}
    for name, (lines, most) in texts.items():
        if keep is not None and (keep / f"{name}.done").exists():
            tokens = Tokens.read(keep / name)
        else:
            tokens = tokenized(lines, tokenizer, most)
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                tokens.write(keep / name)
                (keep / f"{name}.done").touch()
        found[name] = DeviceTokens(tokens, device)
    return Texts(**found)


def train(
    training: TrainingSet, texts: Texts, start: Arrays, trial: Trial, device: torch.device
) -> tuple[Encoder, Trial]:
    """Train one model by a trial's choices; the trial comes back with the steps that there were."""
    torch.manual_seed(trial.seed)
    chance = np.random.default_rng(trial.seed + 1)
    documents = training.documents
    pairs = [pair for pair in training.pairs if not documents[pair.document].held_out]
    place = {id(pair): at for at, pair in enumerate(training.pairs)}
    row_of = torch.tensor([place[id(pair)] for pair in pairs], device=device)
    groups = torch.tensor([each.group for each in documents], device=device)
    negatives = [list(pair.negatives) for pair in pairs]
    model = Encoder(start, trial.layers).to(device)
    optimizer = torch.optim.AdamW(
        _parameter_groups(model), lr=trial.learning_rate, fused=device.type == "cuda"
    )
    steps = trial.steps
    mined = False
    began = warm_at = time.time()
    running = 0.0
    for step, chosen in enumerate(batches(pairs, documents, trial)):
        if step == WARM_STEPS:
            warm_at = time.time()
        if trial.seconds and step == PACE_STEPS:
            pace = (time.time() - warm_at) / (PACE_STEPS - WARM_STEPS)
            steps = max(2 * PACE_STEPS, min(steps, round(trial.seconds / pace)))
        if step >= steps:
            break
        if trial.mine_at and not mined and step >= trial.mine_at * steps:
            mined = True
            mine(model, texts, training, pairs, row_of, negatives, trial, device)
            print(f"{trial.name}: mined at {time.time() - began:.0f} s", flush=True)
        warm = max(1.0, trial.warmup * steps)
        for each in optimizer.param_groups:
            share = min((step + 1) / warm, (steps - step) / max(steps - warm, 1))
            each["lr"] = trial.learning_rate * min(1.0, share)
        loss = _loss(model, texts, pairs, row_of, groups, negatives, chosen, trial, chance, device)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        if (step + 1) % 10 == 0:
            running += float(loss.detach())
        if (step + 1) % REPORT_EVERY == 0:
            mean, running = running / (REPORT_EVERY / 10), 0.0
            print(
                f"{trial.name}: step {step + 1} of {steps} loss {mean:.3f} "
                f"{time.time() - began:.0f} s",
                flush=True,
            )
    return model.eval(), replace(trial, steps=steps, seconds=0.0)


def _parameter_groups(model: Encoder) -> list[dict[str, Any]]:
    """Matrices decay; biases, norms and embeddings do not: most words are seldom met."""
    decaying, others = [], []
    for name, value in model.named_parameters():
        decays = value.dim() > 1 and "embeddings" not in name
        (decaying if decays else others).append(value)
    return [
        {"params": decaying, "weight_decay": WEIGHT_DECAY},
        {"params": others, "weight_decay": 0.0},
    ]


def _loss(
    model: Encoder,
    texts: Texts,
    pairs: Sequence[Pair],
    row_of: Tensor,
    groups: Tensor,
    negatives: Sequence[Sequence[int]],
    chosen: NDArray[np.int64],
    trial: Trial,
    chance: np.random.Generator,
    device: torch.device,
) -> Tensor:
    # Pairs that are asked with code come last, so that short queries are encoded together.
    chosen = np.array(sorted(chosen, key=lambda at: pairs[at].asked_with >= 0), dtype=np.int64)
    answers = torch.tensor([pairs[at].document for at in chosen], device=device)
    spoken = [at for at in chosen if pairs[at].asked_with < 0]
    coded = [pairs[at].asked_with for at in chosen if pairs[at].asked_with >= 0]
    hard = [
        int(chance.choice(negatives[at]))
        for at in chosen
        for _ in range(trial.negatives)
        if negatives[at]
    ]
    source = texts.bare if chance.random() < trial.without_header else texts.documents
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        asked = []
        if spoken:
            rows = row_of[torch.tensor(spoken, device=device)]
            asked.append(model(*texts.queries.take(rows, trial.query_tokens)))
        if coded:
            rows = torch.tensor(coded, device=device)
            asked.append(model(*texts.bare.take(rows, trial.document_tokens)))
        every = torch.cat([answers, torch.tensor(hard, device=device, dtype=torch.int64)])
        encoded = model(*source.take(every, trial.document_tokens))
    queries = torch.cat(asked)
    found, held_away = encoded[: len(answers)], encoded[len(answers) :]
    about = (groups[answers], groups[every[len(answers) :]], trial.temperature)
    if trial.dimensions:
        return nested_loss(queries, found, held_away, *about, trial.dimensions)
    return contrastive_loss(queries, found, held_away, *about)


@torch.no_grad()
def encode(
    model: Encoder, tokens: DeviceTokens, rows: Tensor, most: int, device: torch.device
) -> Tensor:
    """Unit vectors of the rows, (n, 384) float32."""
    order = torch.argsort(tokens.lengths[rows])
    out = torch.empty(len(rows), 384, device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for begin in range(0, len(rows), ENCODE_BATCH):
            part = order[begin : begin + ENCODE_BATCH]
            out[part] = model(*tokens.take(rows[part], most))
    return out


@torch.no_grad()
def mine(
    model: Encoder,
    texts: Texts,
    training: TrainingSet,
    pairs: Sequence[Pair],
    row_of: Tensor,
    negatives: list[list[int]],
    trial: Trial,
    device: torch.device,
) -> None:
    """Put the documents that the model itself confuses with a pair's own before those that it
    has."""
    model.eval()
    languages = [each.language for each in training.documents]
    wanted = ("triton", "cuda", "entry", "python")
    pool = [
        at
        for at, each in enumerate(training.documents)
        if each.language in wanted and not each.held_out
    ]
    rows = torch.tensor(pool, device=device)
    vectors = encode(model, texts.documents, rows, trial.document_tokens, device)
    groups = torch.tensor([training.documents[at].group for at in pool], device=device)
    asking = [
        at for at, p in enumerate(pairs) if p.asked_with < 0 and languages[p.document] in wanted
    ]
    place = {at: row for row, at in enumerate(pool)}
    for begin in range(0, len(asking), ENCODE_BATCH):
        part = asking[begin : begin + ENCODE_BATCH]
        queries = encode(
            model,
            texts.queries,
            row_of[torch.tensor(part, device=device)],
            trial.query_tokens,
            device,
        )
        scores = queries @ vectors.T
        own = torch.tensor([place[pairs[at].document] for at in part], device=device)
        mine_ = scores.gather(1, own[:, None])
        scores[groups[own][:, None] == groups[None, :]] = -2
        scores[scores > TOO_ALIKE * mine_] = -2
        best, found = scores.topk(min(MINE_DEPTH, scores.shape[1]), dim=1)
        for at, row, kept in zip(part, found.tolist(), (best > -1).tolist(), strict=True):
            fresh = [pool[each] for each, good in zip(row, kept, strict=True) if good][:MINED]
            negatives[at] = fresh + negatives[at][:2]
    model.train()


class JudgedTexts:
    """Judged parts with their texts as token ids on the device."""

    def __init__(self, judged: Judged, tokenizer: Path, device: torch.device) -> None:
        self.judged = judged
        self.documents = DeviceTokens(tokenized(judged.texts, tokenizer, 512), device)
        self.queries = [
            DeviceTokens(tokenized([each.query for each in part.queries], tokenizer, 512), device)
            for part in judged.parts
        ]

    @classmethod
    def read(cls, path: Path, tokenizer: Path, device: torch.device) -> "JudgedTexts":
        """From the file that `judged.py` writes."""
        return cls(Judged.read(path), tokenizer, device)


@torch.no_grad()
def judge(
    model: Encoder, judged: JudgedTexts, trial: Trial, device: torch.device
) -> dict[str, Any]:
    """nDCG@10 of every part, and of its categories, each with the number of queries."""

    def encoded(tokens: DeviceTokens) -> Tensor:
        rows = torch.arange(len(tokens.lengths), device=device)
        return encode(model, tokens, rows, trial.document_tokens, device)

    vectors = encoded(judged.documents)
    scores: dict[str, Any] = {}
    for part, asked in zip(judged.judged.parts, judged.queries, strict=True):
        queries = encoded(asked)
        found = (queries @ vectors[torch.tensor(part.documents, device=device)].T).cpu().numpy()
        values = [ndcg(row, part, query) for row, query in zip(found, part.queries, strict=True)]
        labels: dict[str, list[float]] = {"": values}
        for query, value in zip(part.queries, values, strict=True):
            if query.label:
                labels.setdefault(query.label, []).append(value)
        scores[part.name] = {k: [round(float(np.mean(v)), 4), len(v)] for k, v in labels.items()}
    return scores


def write(model: Encoder, start: Arrays, trial: Trial, report: dict[str, Any], out: Path) -> None:
    """The change of the weights in files of at most 15 MB, and the report."""
    out.mkdir(parents=True, exist_ok=True)
    whole = out / f"{trial.name}.change"
    write_change(chosen_layers(start, trial.layers), model.arrays(), whole, report["trial"])
    content = whole.read_bytes()
    whole.unlink()
    for at, begin in enumerate(range(0, len(content), PART_BYTES)):
        (out / f"{trial.name}.change.{at}").write_bytes(content[begin : begin + PART_BYTES])
    (out / f"{trial.name}.json").write_text(json.dumps(report, indent=1) + "\n")


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "CPU"


__all__ = ["Document", "main", "train"]

if __name__ == "__main__":
    main()
