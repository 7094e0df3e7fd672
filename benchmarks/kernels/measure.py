"""Measure the corpus's kernels on this machine's GPU.

    python -m benchmarks.kernels.measure --out DIR [--gpus N|all] [--only SLUG ...] [--dry-run]

Writes DIR/<gpu>.json. Every kernel is checked against its reference on wider inputs, tuned, and
timed against the kernel it is derived from (tuned as well), its reference in eager PyTorch and
under `torch.compile`: with CUDA events, cold, interleaved. A failing kernel is recorded with its
error; one that has a record is not measured again. `--gpus` shares the kernels out over several
cards of one model, a process for each, and each record holds the floors of its own card.
`--dry-run` goes through all of it in Triton's interpreter at check sizes, with times that mean
nothing. `benchmarks.kernels.records` writes the results into the entries.
"""

import argparse
import contextlib
import datetime
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from agent.cards.local import local_cards
from agent.cards.pool import CardPool
from benchmarks.kernels.session import Measure, best_dtype
from benchmarks.tasks import Benchmark, Record, add_options, done, load, request_record, run_tasks
from kb import nvcc
from kb.corpus.loader import KernelFile, load_corpus
from kb.errors import KbError

ROOT = Path(__file__).resolve().parents[2]
# Share of the run's time limit that compiling ahead may take.
_AHEAD_SHARE = 0.3
# A kernel takes some 10 s with its tuning; past this it hangs.
_KERNEL_LIMIT_S = 75.0


def main() -> int:
    """Compile ahead, measure in child processes, report; 1 if any kernel failed."""
    options = _options(sys.argv[1:])
    start = time.monotonic()
    try:
        options.kernels = _selected_kernels(options)
        if options.dry_run:
            os.environ["TRITON_INTERPRET"] = "1"
        with local_cards(options.gpus, interpret=options.dry_run, silence=_KERNEL_LIMIT_S) as cards:
            options.environment = _environment(cards)
            if not options.dry_run:
                print(f"compiled ahead: {_compile_ahead(options, len(cards))}", flush=True)
                options.limit -= time.monotonic() - start
            results = run_tasks(BENCHMARK, options, cards)
    except KbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    slugs = [kernel.entry.slug for kernel in options.kernels]
    failed = [slug for slug in slugs if not done(results, slug)]
    print(f"{len(slugs) - len(failed)} kernels measured, {len(failed)} failed")
    return 1 if failed else 0


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for <gpu>.json")
    parser.add_argument("--corpus", type=Path, default=ROOT / "corpus")
    parser.add_argument("--only", nargs="+", default=[], metavar="SLUG")
    parser.add_argument("--tune-seconds", type=float, default=5, help="for each kernel")
    parser.add_argument("--dry-run", action="store_true")
    add_options(parser, turns=False)
    parser.set_defaults(limit=480.0)
    return parser.parse_args(arguments)


def _selected_kernels(options: argparse.Namespace) -> list[KernelFile]:
    corpus = load_corpus(options.corpus)
    known = {kernel.entry.slug for kernel in corpus.kernels}
    unknown = sorted(set(options.only) - known)
    if unknown:
        raise KbError(f"no kernel '{unknown[0]}': the corpus has {', '.join(sorted(known))}")
    kernels = [file for file in corpus.kernels if file.entry.slug in (options.only or known)]
    if options.dry_run:
        kernels = [f for f in kernels if f.entry.language == "triton" and f.entry.interpretable]
    # Kernels of one operator follow each other, so that a shared baseline is tuned once.
    return sorted(kernels, key=lambda kernel: (kernel.entry.op, kernel.entry.slug))


def _environment(cards: CardPool) -> dict[str, Any]:
    environment = {
        "gpu": "dry run", "driver": None, "toolkit": None,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "torch": version("torch"), "python": platform.python_version(), "triton": version("triton"),
    }  # fmt: skip
    if cards.kinds:
        (environment["gpu"],) = cards.kinds
        query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        output = subprocess.run(query, capture_output=True, text=True, check=True).stdout
        environment |= {"driver": output.splitlines()[0].strip(), "toolkit": nvcc.toolkit_version()}
    return environment


def _compile_ahead(options: argparse.Namespace, cards: int) -> dict[str, Any]:
    from benchmarks.kernels.ahead import compile_ahead

    corpus = load_corpus(options.corpus)
    files = {kernel.entry.slug: kernel for kernel in corpus.kernels}
    results = load(_results_path(options))
    jobs = []
    for kernel in options.kernels:
        if done(results, kernel.entry.slug):
            continue
        # A baseline runs on the inputs of the kernel that is derived from it.
        for slug in filter(None, (kernel.entry.slug, kernel.entry.derived_from)):
            file = files[slug]
            job = (
                corpus.root / (file.launcher or file.path), file.entry.language,
                list(kernel.entry.sizes.bench), best_dtype(kernel.entry),
            )  # fmt: skip
            if job not in jobs:
                jobs.append(job)
    return compile_ahead(jobs, _AHEAD_SHARE * options.limit, cards)


def _results_path(options: argparse.Namespace) -> Path:
    return Path(options.out, f"{options.environment['gpu'].lower().replace(' ', '-')}.json")


def _measure(slug: str, options: argparse.Namespace, cards: CardPool) -> Record:
    settings = {name: getattr(options, name) for name in ("corpus", "tune_seconds", "dry_run")}
    return request_record(cards, Measure(slug=slug, **settings), slug)


def _cells(record: Record) -> list[str]:
    times = ", ".join(f"{name} {t['median_ms']:.4f} ms" for name, t in record["times"].items())
    return [times, f"{record['seconds']} s"]


BENCHMARK = Benchmark(
    options=_options,
    keys=lambda options: [kernel.entry.slug for kernel in options.kernels],
    open_shared=lambda _, cards: contextlib.nullcontext(cards),
    measure=_measure,
    columns=("times", "took"),
    cells=_cells,
    summary=lambda records: {"failed": sum("failed" in record for record in records)},
    settings=("environment",),
    path=_results_path,
)


if __name__ == "__main__":
    sys.exit(main())
