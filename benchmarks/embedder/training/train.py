"""Makes the model that a plan describes: ``python -m benchmarks.embedder.training.train``.

A plan is a trial, which is trained from a start, and a mix: the weighted mean of the trial's
weights and of models of earlier releases. Needs torch, transformers, tokenizers and a training set
(`dataset.py`), no network, and a GPU to be quick. Every choice is in the plan; a seed, a kind of
GPU and the versions give the same model but for the order of floating-point sums.
"""

import argparse
import hashlib
import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from safetensors.numpy import save_file
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmarks.embedder.graph import Weights
from benchmarks.embedder.training.batches import batches
from benchmarks.embedder.training.model import Encoder, mix, read_start
from benchmarks.embedder.training.records import Kind, Pair, TrainingSet
from benchmarks.embedder.training.texts import Texts

PLAN_FILE = Path(__file__).with_name("plan-shipped.json")
WEIGHT_DECAY = 0.01
CLIP = 1.0
REPORT_EVERY = 100


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Trial(_Model):
    """One training run, fully described."""

    name: str
    steps: int
    batch: int
    """Pairs of a step."""
    learning_rate: float
    warmup: float
    """Share of the steps over which the rate rises, to fall in a straight line to 0 after."""
    temperature: float
    document_tokens: int
    query_tokens: int
    pools: dict[str, float]
    """How often a step's pairs come from which pool (`batches.POOL_OF`): all come from one, so that
    negatives of a query are of its own kind."""
    kinds: dict[Kind, float]
    """How often a pair is taken, relative to one that is a docstring's."""
    without_header: float
    """Share of steps whose documents are read without the line that names them."""
    seed: int


class Plan(_Model):
    """How a model is made."""

    name: str
    trial: Trial
    earlier: dict[str, str]
    """Models of earlier releases: name → sha256."""
    mix: dict[str, float]
    """The trial and models of `earlier` → share of each in the mean."""


def main() -> None:
    """Train, mix and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", type=Path, default=PLAN_FILE)
    parser.add_argument("--data", type=Path, required=True, help="folder of the training set")
    parser.add_argument("--start", type=Path, required=True, help="folder of an ONNX model")
    parser.add_argument("--out", type=Path, required=True, help="folder for NAME.safetensors")
    parser.add_argument(
        "--earlier", action="append", default=[], metavar="NAME=ONNX",
        help="a model of an earlier release that the plan names",
    )  # fmt: skip
    arguments = parser.parse_args()
    plan = Plan.model_validate_json(arguments.plan.read_text(encoding="utf-8"))
    models = earlier_models(plan, arguments.earlier)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    training, trial = TrainingSet.read(arguments.data), plan.trial
    tokenizer = arguments.start / "tokenizer.json"
    texts = Texts.tokenize(training, tokenizer, trial.document_tokens, trial.query_tokens, device)
    start = read_start(arguments.start / "model.onnx")
    models[trial.name] = train(training, texts, start, trial, device).arrays()
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / f"{plan.name}.safetensors"
    save_file(mix(*((share, models[name]) for name, share in plan.mix.items())), path)
    print(path)


def earlier_models(plan: Plan, options: list[str]) -> dict[str, Weights]:
    """Return the models of earlier releases that a plan names, from files given as NAME=ONNX.

    Raises
    ------
    SystemExit
        If one is missing, or is another file than the plan says.
    """
    files = {name: Path(path) for name, _, path in (text.partition("=") for text in options)}
    models = {}
    for name, sha256 in plan.earlier.items():
        if name not in files:
            raise SystemExit(f"the plan mixes {name}: give its file with --earlier {name}=ONNX")
        digest = hashlib.sha256(files[name].read_bytes()).hexdigest()
        if digest != sha256:
            raise SystemExit(f"{files[name]} has sha256 {digest}, but {name} is {sha256}")
        models[name] = read_start(files[name])
    return models


def train(
    training: TrainingSet, texts: Texts, start: Weights, trial: Trial, device: torch.device
) -> Encoder:
    """Train one model; pairs of documents that are held out are left alone."""
    generator = np.random.default_rng(trial.seed + 1)
    documents = training.documents
    rows = [row for row, pair in enumerate(training.pairs) if not documents[pair.document].held_out]
    pairs = [training.pairs[row] for row in rows]
    row_of = np.array(rows)
    groups = torch.tensor([document.group for document in documents], device=device)
    model: Encoder = Encoder(start).to(device)
    decayed, undecayed = _parameters(model)
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": undecayed}],
        lr=trial.learning_rate, weight_decay=0.0, fused=device.type == "cuda",
    )  # fmt: skip
    stream = batches(pairs, documents, trial.batch, trial.pools, trial.kinds, trial.seed)
    warm = max(1.0, trial.warmup * trial.steps)
    began_at, loss_sum = time.time(), 0.0
    for step in range(trial.steps):
        share = min((step + 1) / warm, (trial.steps - step) / max(trial.steps - warm, 1))
        for group in optimizer.param_groups:
            group["lr"] = trial.learning_rate * min(1.0, share)
        optimizer.zero_grad(set_to_none=True)
        bare = bool(generator.random() < trial.without_header)
        loss = batch_loss(model, texts, pairs, row_of, groups, next(stream), trial, bare=bare)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        loss_sum += float(loss.detach())
        if (step + 1) % REPORT_EVERY == 0:
            mean, loss_sum = loss_sum / REPORT_EVERY, 0.0
            seconds = time.time() - began_at
            print(f"step {step + 1} of {trial.steps}: loss {mean:.3f}, {seconds:.0f} s", flush=True)
    model.eval()
    return model


def batch_loss(
    model: Encoder,
    texts: Texts,
    pairs: list[Pair],
    row_of: NDArray[np.int64],
    groups: Tensor,
    chosen: NDArray[np.int64],
    trial: Trial,
    *,
    bare: bool,
) -> Tensor:
    """Return the loss of the chosen pairs, whose documents are read without header if `bare`."""
    device = groups.device
    # Pairs that are asked with code come last, so that short queries are encoded together.
    chosen = np.array(sorted(chosen, key=lambda i: pairs[i].asked_with >= 0), dtype=np.int64)
    answers = torch.tensor([pairs[i].document for i in chosen], device=device)
    query_rows = [row_of[i] for i in chosen if pairs[i].asked_with < 0]
    code_documents = [pairs[i].asked_with for i in chosen if pairs[i].asked_with >= 0]
    queries = [
        model(*source.take(torch.tensor(np.array(selected), device=device)))
        for source, selected in ((texts.queries, query_rows), (texts.bare, code_documents))
        if selected
    ]
    vectors = model(*(texts.bare if bare else texts.documents).take(answers))
    return contrastive_loss(torch.cat(queries), vectors, groups[answers], trial.temperature)


def contrastive_loss(
    queries: Tensor, documents: Tensor, groups: Tensor, temperature: float
) -> Tensor:
    """Return the symmetric InfoNCE loss (van den Oord et al. 2018) of a batch.

    Known as MultipleNegativesRankingLoss in sentence-transformers. A document of the group of
    another query's answer (a copy, a section of the same entry) is neither an answer nor a
    negative of it.

    Parameters
    ----------
    queries, documents
        Unit vectors (n, d); row i of one answers row i of the other.
    groups
        Of the documents, (n,).
    """
    scores = queries @ documents.T / temperature
    diagonal = torch.arange(len(queries), device=queries.device)
    same = groups[:, None] == groups[None, :]
    same[diagonal, diagonal] = False
    scores = scores.masked_fill(same, float("-inf"))
    return (cross_entropy(scores, diagonal) + cross_entropy(scores.T, diagonal)) / 2


def _parameters(model: torch.nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """Parameters that decay, and those that do not: biases, norms, embeddings (of rare words)."""
    decayed: list[Tensor] = []
    undecayed: list[Tensor] = []
    for name, value in model.named_parameters():
        (decayed if value.dim() > 1 and "embeddings" not in name else undecayed).append(value)
    return decayed, undecayed


if __name__ == "__main__":
    main()
