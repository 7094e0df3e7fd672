"""Measure the corpus's kernels on this machine's GPU.

    python -m benchmarks.kernels.measure --out DIR [--only SLUG ...] [--dry-run]

Writes DIR/<gpu>.json. Every kernel is checked against its reference on wider inputs, tuned, and
timed against the kernel it is derived from (tuned as well), its reference in eager PyTorch and
under `torch.compile`: with CUDA events, cold, interleaved. A failing kernel is recorded with its
error. `--dry-run` goes through all of it in Triton's interpreter at check sizes, with times that
mean nothing. `benchmarks.kernels.records` writes the results into the entries.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.kernels import store
from kb import nvcc
from kb.corpus.loader import Corpus, KernelFile, load_corpus
from kb.errors import KbError

ROOT = Path(__file__).resolve().parents[2]
# A kernel takes some 10 s with its tuning; past this it hangs.
_KERNEL_LIMIT_S = 75.0
# Of the whole run's limit, what compiling ahead may take.
_AHEAD_SHARE = 0.3
_POLL_S = 0.25


def main() -> int:
    """Parse the command line and run; 1 if any kernel failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for <gpu>.json")
    parser.add_argument("--corpus", type=Path, default=ROOT / "corpus")
    parser.add_argument("--only", nargs="+", default=[], metavar="SLUG")
    parser.add_argument("--limit-seconds", type=float, default=480, help="for the whole run")
    parser.add_argument("--tune-seconds", type=float, default=5, help="for each kernel")
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
    environment = _environment(options.dry_run)
    path = options.out / f"{environment['gpu'].lower().replace(' ', '-')}.json"
    results = store.load(path)
    results.update(environment=environment, floors={})
    store.save(path, results)
    if not options.dry_run:
        results["ahead"] = _compile_ahead(corpus, kernels, _AHEAD_SHARE * options.limit_seconds)
        print(f"compiled ahead: {results['ahead']}", flush=True)
        store.save(path, results)
    slugs = [kernel.entry.slug for kernel in kernels]
    while slugs:
        slugs = _measure(path, slugs, deadline, options)
    results = store.load(path)
    wanted = [kernel.entry.slug for kernel in kernels]
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


def _environment(dry_run: bool) -> dict[str, Any]:
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
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    output = subprocess.run(query, capture_output=True, text=True, check=True).stdout
    name, driver = (part.strip() for part in output.splitlines()[0].split(","))
    return {"gpu": name, "driver": driver, "toolkit": nvcc.toolkit_version(), **found}


def _version(package: str) -> str:
    from importlib.metadata import version

    return version(package)


def _compile_ahead(corpus: Corpus, kernels: list[KernelFile], limit_s: float) -> dict[str, Any]:
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
    return compile_ahead(jobs, limit_s)


def _measure(
    path: Path, slugs: list[str], deadline: float, options: argparse.Namespace
) -> list[str]:
    """Run one measuring process; the kernels that are left if one of them takes it down."""
    command = [
        sys.executable, "-m", "benchmarks.kernels.session", "--corpus", str(options.corpus),
        "--results", str(path), "--tune-seconds", str(options.tune_seconds),
        "--deadline", str(deadline), *(["--dry-run"] if options.dry_run else []), *slugs,
    ]  # fmt: skip
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), environment.get("PYTHONPATH")])
    )
    if options.dry_run:
        environment["TRITON_INTERPRET"] = "1"
    child = subprocess.Popen(command, env=environment)
    problem = _watch(child, path)
    results = store.load(path)
    running = results.pop("running", None)
    if problem is None:
        return []
    if running is None:
        raise KbError(f"the measuring process {problem} before the first kernel")
    slug = running["slug"]
    print(f"{slug}: the measuring process {problem}", flush=True)
    results["kernels"][slug] = {"error": f"the measuring process {problem}"}
    store.save(path, results)
    return slugs[slugs.index(slug) + 1 :]


def _watch(child: "subprocess.Popen[bytes]", path: Path) -> str | None:
    """Wait for the child; what went wrong with it, or None."""
    while child.poll() is None:
        time.sleep(_POLL_S)
        try:
            running = store.load(path).get("running")
        except json.JSONDecodeError:
            continue
        if running and time.time() - running["since"] > _KERNEL_LIMIT_S:
            child.kill()
            child.wait()
            return f"was stopped after {_KERNEL_LIMIT_S:.0f} s"
    return None if child.returncode == 0 else f"ended with status {child.returncode}"


if __name__ == "__main__":
    sys.exit(main())
