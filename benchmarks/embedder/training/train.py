"""Trains one model: ``python -m benchmarks.embedder.training.train --data DIR --trials FILE
--trial NAME``.

Needs torch, transformers, tokenizers and a training set (`dataset.py`), no network, and a GPU to
be quick. Every choice is in the trial's record; a seed, a kind of GPU and the versions give the
same model but for the order of floating-point sums. `--judged` scores the development half of
KernelRetrieve at the end.
"""

import argparse
import json
import pickle
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.embedder.training.batches import batches
from benchmarks.embedder.training.device import (
    DeviceTokens,
    TextEncoder,
    Texts,
    encode,
    load_texts,
)
from benchmarks.embedder.training.distillation import Targets, Together, targets_of
from benchmarks.embedder.training.judged import Judged, ndcg
from benchmarks.embedder.training.mining import clusters_of, mine
from benchmarks.embedder.training.model import (
    Arrays,
    Encoder,
    chosen_layers,
    read_start,
    write_change,
)
from benchmarks.embedder.training.mpnet import MpnetEncoder, read_teacher
from benchmarks.embedder.training.records import TrainingSet
from benchmarks.embedder.training.step import batch_backward
from benchmarks.embedder.training.tokens import read_as, tokenized
from benchmarks.embedder.training.trial import Trial

WEIGHT_DECAY = 0.01
CLIP = 1.0
PART_BYTES = 15_000_000
REPORT_EVERY = 100
WARM_STEPS, PACE_STEPS = 10, 40
"""The pace of a run is read from the steps between."""
LONG = 512
"""Tokens of a document with which a model is scored once more."""


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
    parser.add_argument("--teacher", type=Path, help="weights of one (`teacher.py`)")
    parser.add_argument(
        "--earlier", action="append", default=[], metavar="NAME=ONNX",
        help="a model of an earlier release that trials start from or learn from",
    )  # fmt: skip
    parser.add_argument("--tokens", type=Path, help="folder to keep token ids in, shared by trials")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training = read_set(arguments.data, arguments.tokens)
    start = read_start(arguments.start)
    known: dict[str, Arrays] = {"minilm": start}
    if arguments.teacher:
        known["mpnet"] = read_teacher(arguments.teacher)
    for each in arguments.earlier:
        name, _, file = each.partition("=")
        known[name] = read_start(Path(file))
    trained: dict[str, TextEncoder] = {}
    targets: dict[str, Targets] = {}
    judged = arguments.judged and Judged.read(arguments.judged)
    arguments.out.mkdir(parents=True, exist_ok=True)
    texts: dict[str, Texts] = {}
    scoring: dict[str, JudgedTexts] = {}
    for name in arguments.trial:
        trial = Trial.read(arguments.trials, name)
        reads = trial.reads
        if reads not in texts:
            texts.clear()  # those of another reading
            texts |= {
                reads: load_texts(training, arguments.tokenizer, arguments.tokens, device, reads)
            }
        teacher = None
        if trial.teachers:
            parts = [
                (share, trained.get(each) or Encoder(known[each], Trial("").layers).to(device))
                for each, share in trial.teachers.items()
            ]
            teacher = Together(parts)
            said = json.dumps([trial.teachers, trial.document_tokens, trial.query_tokens, reads])
            if said not in targets:
                targets.clear()  # those of other teachers
                targets[said] = targets_of(teacher, texts[reads], training, trial, device)
                print(f"{name}: what its teachers say is known", flush=True)
        began = time.time()
        model, trial = train(
            training,
            texts[reads],
            known[trial.start or trial.encoder],
            trial,
            device,
            targets[said] if teacher else None,
        )
        trained[name] = model
        report: dict[str, Any] = {"trial": trial.to_json(), "seconds": time.time() - began}
        report |= {"device": _device_name(device), "torch": torch.__version__}
        if judged:
            if reads not in scoring:
                scoring[reads] = JudgedTexts(judged, arguments.tokenizer, device, reads)
            report["scores"] = judge(model, scoring[reads], trial, device)
            if isinstance(model, Encoder):
                longer = replace(trial, document_tokens=LONG)
                report["scores_512"] = judge(model, scoring[reads], longer, device)
            if teacher:
                report["teachers_scores"] = judge(teacher, scoring[reads], trial, device)
        if isinstance(model, Encoder):
            write(model, start, trial, report, arguments.out)
        else:
            write_report(trial, report, arguments.out)
        print(name, json.dumps(report.get("scores")), flush=True)


def read_set(folder: Path, keep: Path | None) -> TrainingSet:
    """The training set of a folder, or what `keep` has of it already, which is read quicker."""
    kept = keep and keep / "set.pickle"
    if kept and kept.is_file():
        found: TrainingSet = pickle.loads(kept.read_bytes())
        return found
    training = TrainingSet.read(folder)
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps(training))
    return training


def train(
    training: TrainingSet,
    texts: Texts,
    start: Arrays,
    trial: Trial,
    device: torch.device,
    targets: Targets | None = None,
) -> tuple[Encoder | MpnetEncoder, Trial]:
    """Train one model by a trial's choices; the trial comes back with the steps that there were."""
    torch.manual_seed(trial.seed)
    chance = np.random.default_rng(trial.seed + 1)
    documents = training.documents
    pairs = [pair for pair in training.pairs if not documents[pair.document].held_out]
    place = {id(pair): at for at, pair in enumerate(training.pairs)}
    row_of = torch.tensor([place[id(pair)] for pair in pairs], device=device)
    groups = torch.tensor([each.group for each in documents], device=device)
    negatives = [list(pair.negatives) for pair in pairs]
    model = (MpnetEncoder(start) if trial.encoder == "mpnet" else Encoder(start, trial.layers)).to(
        device
    )
    optimizer = torch.optim.AdamW(
        _parameter_groups(model), lr=trial.learning_rate, fused=device.type == "cuda"
    )
    steps = trial.steps
    stream = batches(pairs, documents, trial)
    mined = clustered = False
    began = paced_at = time.time()
    paced_from = 0
    """The step from which the pace is read: it changes when negatives come."""
    running = 0.0
    step = -1
    while (step := step + 1) < steps:
        if step == paced_from + WARM_STEPS:
            paced_at = time.time()
        if trial.seconds and step == paced_from + PACE_STEPS:
            pace = (time.time() - paced_at) / (PACE_STEPS - WARM_STEPS)
            left = round((began + trial.seconds - time.time()) / pace)
            steps = min(trial.steps, step + max(PACE_STEPS, left))
        if trial.mine_at and not mined and step >= trial.mine_at * steps:
            mined, paced_from = True, step
            mine(model, texts, training, pairs, row_of, negatives, trial, device)
            print(f"{trial.name}: mined at {time.time() - began:.0f} s", flush=True)
        if trial.cluster_at and not clustered and step >= trial.cluster_at * steps:
            clustered, paced_from = True, step
            stream = batches(
                pairs, documents, trial, clusters_of(model, texts, pairs, trial, device, targets)
            )
            print(f"{trial.name}: clustered at {time.time() - began:.0f} s", flush=True)
        warm = max(1.0, trial.warmup * steps)
        for each in optimizer.param_groups:
            share = min((step + 1) / warm, (steps - step) / max(steps - warm, 1))
            each["lr"] = trial.learning_rate * min(1.0, share)
        optimizer.zero_grad(set_to_none=True)
        loss = batch_backward(
            model, texts, pairs, row_of, groups, negatives, next(stream), trial, chance, device,
            targets,
        )  # fmt: skip
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        running += loss
        if (step + 1) % REPORT_EVERY == 0:
            mean, running = running / REPORT_EVERY, 0.0
            print(
                f"{trial.name}: step {step + 1} of {steps} loss {mean:.3f} "
                f"{time.time() - began:.0f} s",
                flush=True,
            )
    return model.eval(), replace(trial, steps=steps, seconds=0.0)


def _parameter_groups(model: torch.nn.Module) -> list[dict[str, Any]]:
    """Matrices decay; biases, norms and embeddings do not: most words are seldom met."""
    decaying, others = [], []
    for name, value in model.named_parameters():
        decays = value.dim() > 1 and "embeddings" not in name
        (decaying if decays else others).append(value)
    return [
        {"params": decaying, "weight_decay": WEIGHT_DECAY},
        {"params": others, "weight_decay": 0.0},
    ]


class JudgedTexts:
    """Judged parts with their texts as token ids on the device."""

    def __init__(
        self, judged: Judged, tokenizer: Path, device: torch.device, reads: str = "text"
    ) -> None:
        def tokens(texts: Sequence[str]) -> DeviceTokens:
            return DeviceTokens(tokenized(read_as(texts, reads), tokenizer, LONG), device)

        self.judged = judged
        self.documents = tokens(judged.texts)
        self.queries = [tokens([each.query for each in part.queries]) for part in judged.parts]


@torch.no_grad()
def judge(
    model: TextEncoder, judged: JudgedTexts, trial: Trial, device: torch.device
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
    write_report(trial, report, out)


def write_report(trial: Trial, report: dict[str, Any], out: Path) -> None:
    """The report alone, which is all that is kept of a teacher."""
    (out / f"{trial.name}.json").write_text(json.dumps(report, indent=1) + "\n")


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name() if device.type == "cuda" else "CPU"


if __name__ == "__main__":
    main()
