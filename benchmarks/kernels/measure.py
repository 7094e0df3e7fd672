"""Measure the corpus's kernels on this machine's GPU.

    python -m benchmarks.kernels.measure --out DIR [--gpus N|all] [--only SLUG ...] [--dry-run]

Writes DIR/<gpu>.json. Every kernel is checked against its reference on wider inputs, tuned, and
timed against the kernel it is derived from (tuned as well), its reference in eager PyTorch and
under `torch.compile`: with CUDA events, cold, interleaved. A failing kernel is recorded with its
error. `--gpus` spreads the kernels over several cards of one model, a process for each, and each
record holds the floors of its own card. `--dry-run` goes through all of it in Triton's interpreter
at check sizes, with times that mean nothing. `benchmarks.kernels.records` writes the results into
the entries.
"""

import argparse
import datetime
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.kernels import cards, store
from kb import nvcc
from kb.corpus.loader import Corpus, KernelFile, load_corpus
from kb.errors import KbError

ROOT = Path(__file__).resolve().parents[2]
# Of the whole run's limit, what compiling ahead may take.
_AHEAD_SHARE = 0.3


def main() -> int:
    """Parse the command line and run; 1 if any kernel failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for <gpu>.json")
    parser.add_argument("--corpus", type=Path, default=ROOT / "corpus")
    parser.add_argument("--only", nargs="+", default=[], metavar="SLUG")
    parser.add_argument("--limit-seconds", type=float, default=480, help="for the whole run")
    parser.add_argument("--tune-seconds", type=float, default=5, help="for each kernel")
    parser.add_argument("--gpus", default="1", metavar="N|all", help="cards to spread over")
    parser.add_argument("--dry-run", action="store_true")
    options = parser.parse_args()
    try:
        return run(options)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def run(options: argparse.Namespace) -> int:
    """Compile ahead, measure in child processes, report."""
    deadline = time.time() + options.limit_seconds
    corpus = load_corpus(options.corpus)
    kernels = _selected(corpus, options)
    names = cards.chosen(options.gpus, options.dry_run)
    environment = _environment(options.dry_run, len(names))
    path = options.out / f"{environment['gpu'].lower().replace(' ', '-')}.json"
    results = store.load(path)
    results.update(environment=environment, floors={})
    store.save(path, results)
    if not options.dry_run:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(names)
        limit = _AHEAD_SHARE * options.limit_seconds
        results["ahead"] = _compile_ahead(corpus, kernels, limit, len(names))
        print(f"compiled ahead: {results['ahead']}", flush=True)
        store.save(path, results)
    wanted = [kernel.entry.slug for kernel in kernels]
    arguments = [
        "--corpus", str(options.corpus), "--tune-seconds", str(options.tune_seconds),
        "--deadline", str(deadline), *(["--dry-run"] if options.dry_run else []),
    ]  # fmt: skip
    cards.measure(path, wanted, names, arguments)
    results = store.load(path)
    failed = [slug for slug in wanted if results["kernels"][slug]["error"]]
    print(f"{path}: {len(wanted) - len(failed)} kernels measured, {len(failed)} failed")
    return 1 if failed else 0


def _selected(corpus: Corpus, options: argparse.Namespace) -> list[KernelFile]:
    known = {kernel.entry.slug for kernel in corpus.kernels}
    unknown = sorted(set(options.only) - known)
    if unknown:
        raise KbError(f"no kernel '{unknown[0]}': the corpus has {', '.join(sorted(known))}")
    chosen = [k for k in corpus.kernels if not options.only or k.entry.slug in options.only]
    if options.dry_run:
        chosen = [k for k in chosen if k.entry.language == "triton" and k.entry.interpretable]
    # Kernels of one operator follow each other, so that a shared baseline is tuned once.
    return sorted(chosen, key=lambda kernel: (kernel.entry.op, kernel.entry.slug))


def _environment(dry_run: bool, cards_used: int) -> dict[str, Any]:
    import torch

    found = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "triton": _version("triton"),
    }
    if dry_run:
        return {"gpu": "dry run", "driver": None, "toolkit": None, **found}
    if not torch.cuda.is_available():
        raise KbError("PyTorch sees no CUDA device: measure on a machine with a GPU, or --dry-run")
    models = {torch.cuda.get_device_name(index) for index in range(cards_used)}
    if len(models) > 1:
        raise KbError(
            f"the cards are of several models ({', '.join(sorted(models))}): choose those of one "
            "with CUDA_VISIBLE_DEVICES"
        )
    (name,) = models
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    output = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    driver = output.splitlines()[0].strip()
    return {"gpu": name, "driver": driver, "toolkit": nvcc.toolkit_version(), **found}


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _compile_ahead(
    corpus: Corpus, kernels: list[KernelFile], limit_s: float, cards_used: int
) -> dict[str, Any]:
    from benchmarks.kernels.ahead import compile_ahead
    from benchmarks.kernels.session import best_dtype

    files = {kernel.entry.slug: kernel for kernel in corpus.kernels}
    jobs = []
    for kernel in kernels:
        # A baseline runs on the inputs of the kernel that is derived from it.
        for slug in filter(None, (kernel.entry.slug, kernel.entry.derived_from)):
            file = files[slug]
            job = (
                corpus.root / (file.launcher or file.path), file.entry.language,
                list(kernel.entry.sizes.bench), best_dtype(kernel.entry),
            )  # fmt: skip
            if job not in jobs:
                jobs.append(job)
    return compile_ahead(jobs, limit_s, cards_used)


if __name__ == "__main__":
    sys.exit(main())
