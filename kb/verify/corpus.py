"""Verify a corpus folder: its entries, its Triton kernels in the interpreter, its CUDA kernels.

A kernel file is a program: verifying a corpus runs it, with the rights of whoever verifies. Read a
stranger's corpus before verifying it.
"""

import difflib
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

from kb import nvcc
from kb.architectures import any_runs_on
from kb.corpus.loader import Corpus, KernelFile, load_corpus
from kb.errors import EntryError, KbError, NotFoundError
from kb.patterns import LinearPattern, encoded
from kb.verify.cache import ResultCache, digest_of
from kb.verify.origin import Origin
from kb.verify.result import CheckResult
from kb.verify.worker import COMPILING, Job, run_jobs

# Check sizes are small (32 programs, 4 loop steps at most): the slowest take about 10 s.
CASE_TIMEOUT_S = 60.0
# Kernels that a refusal lists.
_MAX_LISTED = 12


def verify_corpus(
    root: Path,
    *,
    only: Sequence[str] = (),
    on_result: Callable[[CheckResult], None] = lambda _: None,
    case_timeout_s: float = CASE_TIMEOUT_S,
    cache: ResultCache | None = None,
) -> list[CheckResult]:
    """Run every check of a corpus folder. This runs the kernels' code: it is no sandbox.

    Parameters
    ----------
    root
        The corpus folder.
    only
        Kernel slugs to check; all when empty. Entries are validated in any case.
    on_result
        Called with each result as it comes.
    case_timeout_s
        Seconds that one kernel may take on one size and dtype.
    cache
        Gives the results of kernels that are unchanged since they passed, and keeps new ones.

    Returns
    -------
    list[CheckResult]
        In the order in which they came. What is missing on this machine (torch, triton, nvcc) is
        a failed check that says what to install; what needs a GPU is `not_run`.

    Raises
    ------
    NotFoundError
        If `only` names no kernel of the corpus.
    """
    results: list[CheckResult] = []

    def report(result: CheckResult) -> None:
        results.append(result)
        on_result(result)

    start = time.perf_counter()
    try:
        corpus = load_corpus(root)
    except EntryError as error:
        report(CheckResult(root.name, "entries", False, str(error), time.perf_counter() - start))
        return results
    counts = f"{len(corpus.techniques)} techniques, {len(corpus.kernels)} kernels"
    report(CheckResult(root.name, "entries", True, counts, time.perf_counter() - start))

    kernels = _selected_kernels(corpus, only)
    digests: dict[str, str] = {}
    if cache is not None:
        for kernel in kernels:
            files = [root / name for name in (kernel.path, kernel.launcher) if name]
            digests[kernel.entry.slug] = digest_of(files, case_timeout_s)
        kernels = [k for k in kernels if not _report_cached(cache, digests[k.entry.slug], report)]
    jobs = {kernel.entry.slug: _job(root, kernel) for kernel in kernels}
    with Origin() as origin:
        run_jobs(list(jobs.values()), report, case_timeout_s, origin)
        failed = {result.slug for result in results if result.failed}
        sound = [jobs[kernel.entry.slug] for kernel in kernels if _compiles(kernel, failed)]
        # The interpreter accepts what the compiler may not.
        run_jobs(sound, report, case_timeout_s, origin, COMPILING)
    for kernel in kernels:
        if kernel.entry.language == "cuda":
            _check_cuda(root, kernel, report)
    if cache is not None:
        for slug in jobs:
            cache.write(digests[slug], [result for result in results if result.slug == slug])
    return results


def _report_cached(cache: ResultCache, digest: str, report: Callable[[CheckResult], None]) -> bool:
    """Report the results kept under `digest`; say whether there were any."""
    cached = cache.read(digest)
    for result in cached or ():
        report(result)
    return cached is not None


def _selected_kernels(corpus: Corpus, only: Sequence[str]) -> list[KernelFile]:
    slugs = {kernel.entry.slug for kernel in corpus.kernels}
    for slug in only:
        if slug not in slugs:
            near = difflib.get_close_matches(slug, sorted(slugs), n=3)
            hint = f"did you mean {', '.join(near)}?" if near else f"it has {_list(slugs)}"
            raise NotFoundError(f"'{slug}' is not a kernel of this corpus: {hint}")
    return [kernel for kernel in corpus.kernels if not only or kernel.entry.slug in only]


def _list(slugs: set[str]) -> str:
    listed = ", ".join(sorted(slugs)[:_MAX_LISTED]) or "none"
    return listed if len(slugs) <= _MAX_LISTED else f"{listed} and {len(slugs) - _MAX_LISTED} more"


def _job(root: Path, kernel: KernelFile) -> Job:
    facts = {"slug", "language", "dtypes", "check_params", "interpretable"}
    path = (root / (kernel.launcher or kernel.path)).resolve()
    sizes = kernel.entry.sizes.check
    return kernel.entry.model_dump(include=facts) | {"path": str(path), "sizes": sizes}


def _compiles(kernel: KernelFile, failed: Collection[str]) -> bool:
    """Whether a kernel is to be compiled for sm_90."""
    entry = kernel.entry
    on_hopper = entry.language == "triton" and any_runs_on(entry.architectures, "sm_90a")
    return on_hopper and entry.slug not in failed


def _check_cuda(root: Path, kernel: KernelFile, report: Callable[[CheckResult], None]) -> None:
    entry = kernel.entry
    # A pattern for an architecture that is not listed is checked too, never left out.
    for architecture in dict.fromkeys((*entry.architectures, *entry.expect_sass)):
        start = time.perf_counter()
        patterns = entry.expect_sass.get(architecture, ())
        try:
            detail, passed = _compile_cuda(root / kernel.path, architecture, patterns), True
        except KbError as error:
            detail, passed = str(error), False
        seconds = time.perf_counter() - start
        report(CheckResult(entry.slug, f"compile {architecture}", passed, detail, seconds))


def _compile_cuda(source: Path, architecture: str, patterns: tuple[str, ...]) -> str:
    """Compile for one architecture, look for the SASS that the entry promises; what was found."""
    cubin = nvcc.compile_cubin(source, architecture)
    if patterns:
        sass = nvcc.disassemble(cubin)
        for pattern in patterns:
            if not LinearPattern(pattern).search(encoded(sass)):
                raise KbError(f"the SASS for {architecture} has nothing that matches '{pattern}'")
    return "; ".join(_facts(nvcc.resource_usage(cubin), patterns))


def _facts(usage: tuple[nvcc.ResourceUsage, ...], patterns: tuple[str, ...]) -> Iterator[str]:
    if usage:
        registers = [kernel.registers for kernel in usage]
        low, high = min(registers), max(registers)
        yield f"{low}-{high} registers" if low != high else f"{low} registers"
        spilling = sum(kernel.spill_bytes > 0 for kernel in usage)
        yield f"{spilling} of {len(usage)} functions spill" if spilling else "no spills"
    if patterns:
        yield f"SASS has {', '.join(patterns)}"
