"""What the commands over the benchmark's indexes share: options, reports, fitted weights."""

import argparse
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from platformdirs import user_cache_path

import kb
from kb.search.weights import Weights

DATA = Path(kb.__file__).parent / "data"
"""Folder from which the product reads fitted weights."""


def make_parser(about: str | None, write: str | None = None) -> argparse.ArgumentParser:
    """Options of a command.

    Parameters
    ----------
    write
        Help of `--write`; None: there is no such option.
    """
    parser = argparse.ArgumentParser(description=about)
    # Deleting it costs the time to make it again.
    work = user_cache_path("kernel-kb") / "benchmarks" / "retrieval"
    parser.add_argument("--work", type=Path, default=work, help="packages, vectors and indexes")
    if write is not None:
        parser.add_argument("--write", action="store_true", help=write)
    return parser


def report(name: str, scored: Iterable[tuple[str, float]]) -> None:
    """Print the mean nDCG@10 of (label, score) of queries, and that of each label."""
    by_label: dict[str, list[float]] = {}
    for label, score in scored:
        by_label.setdefault(label, []).append(score)
    labels = ", ".join(f"{label} {np.mean(values):.3f}" for label, values in by_label.items())
    mean = np.mean([value for values in by_label.values() for value in values])
    print(f"{name:<26} nDCG@10 {mean:.4f}: {labels}", flush=True)


def write_weights(path: Path, head: str, weights: Weights) -> None:
    """Write weights below the comment `head`, as `kb.search.weights` reads them."""
    lines = "".join(f'  "{name}": {weight:.4f}\n' for name, weight in weights.features.items())
    text = f"{head}embedder: {weights.embedder}\nfeatures:\n{lines}"
    path.write_text(text, encoding="utf-8")
