"""Write docs/kernels.md: every kernel of the corpus with its measurements.

    python -m benchmarks.kernels.table

The NVFP4 problems' results come from `benchmarks.kernels.nvfp4`, in `results` beside this file.
"""

import argparse
import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from benchmarks.results import table
from kb.corpus.entries import Kernel, Verified
from kb.corpus.loader import load_corpus
from kb.corpus.measured import BASELINES, is_slow

ROOT = Path(__file__).resolve().parents[2]
_COLUMNS = (
    "kernel", "shows", "size, dtype", "ms", "over its plain version", "over eager",
    "over torch.compile", "over the vendor's library", "of the floor",
)  # fmt: skip
_NVFP4 = Path(__file__).with_name("results") / "nvfp4-h200.json"


def main() -> None:
    """Write the page."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    kernels = [kernel.entry for kernel in load_corpus(ROOT / "corpus").kernels]
    (ROOT / "docs" / "kernels.md").write_text(page(kernels), encoding="utf-8")


def page(kernels: Sequence[Kernel]) -> str:
    """The document: one table per GPU, the kernels measured on none, and the NVFP4 problems."""
    lines = [
        "# The kernels of the corpus, as measured",
        "",
        "`python -m benchmarks.kernels.table` writes this page from the entries' records. To make",
        "records, run `python -m benchmarks.kernels.measure --out DIR` on a GPU, then",
        "`python -m benchmarks.kernels.records DIR/GPU.json`. A kernel and its plain version are",
        "both tuned. The floor is bytes over the measured copy bandwidth, or operations over the",
        "measured matrix rate for 16-bit inputs, whichever takes longer. Reading alone is faster",
        "than copying, so a kernel that writes little can exceed 1.00 of it. Below 1.00x a",
        "technique was slower there. *Slow*: the plain version is below 0.6 of PyTorch's speed,",
        "so a ratio over it means nothing. The vendor's library is listed only where eager PyTorch",
        "does not call it for the same work; elsewhere eager is cuBLAS, cuDNN or fused attention.",
        "A row's figures are the kernel's. A technique has its own figures only where two kernels",
        "differ in it alone; `kb show TECHNIQUE` prints them.",
    ]
    slow = {kernel.slug for kernel in kernels if is_slow(kernel)}
    for gpu in sorted({record.gpu for kernel in kernels for record in kernel.verified}):
        lines += ["", f"## {gpu}", "", _versions(gpu, kernels), ""]
        rows = []
        for kernel in _by_operator(kernels):
            records = [verified for verified in kernel.verified if verified.gpu == gpu]
            # Of one shape and dtype each, in the entry's order.
            for shape, dtype in dict.fromkeys((record.shape, record.dtype) for record in records):
                same = [
                    record for record in records if (record.shape, record.dtype) == (shape, dtype)
                ]
                rows.append(_row(kernel, same, slow))
        lines.append(table(_COLUMNS, rows))
    if missing := [kernel for kernel in _by_operator(kernels) if not kernel.verified]:
        lines += ["", "## Not measured", ""]
        lines += [f"- `{kernel.slug}` ({', '.join(kernel.architectures)})" for kernel in missing]
    lines += _nvfp4_part(json.loads(_NVFP4.read_text(encoding="utf-8")))
    return "\n".join(lines) + "\n"


def _nvfp4_part(results: dict[str, Any]) -> list[str]:
    """The NVFP4 kernels on their problems: exactness, and times of a launch by graph replay."""
    lines = [
        "",
        f"## NVFP4 problems, {results['gpu']}",
        "",
        "By `python -m benchmarks.kernels.nvfp4`, bfloat16, default parameters. *Right*: codes and",
        "scales equal the problem's quantizer by the judge's rule. Times are per launch in a CUDA",
        f"graph of {results['launches']}; in brackets, in a graph of one, with the graph's start.",
        "`torch.compile` compiles the same quantizer written in vector operations, without tables.",
        "",
    ]
    columns = ("problem", "kernel", "right", "us", "over torch.compile", "of the copy floor")
    rows = [
        [
            f"`{name}`", kind, result["problem"] or "yes",
            f"{result['us']:.2f} ({result['alone_us']:.2f})",
            f"{problem['contenders']['torch.compile']['us'] / result['us']:.2f}x",
            f"{problem['floor_us'] / result['us']:.2f}",
        ]
        for name, problem in results["problems"].items()
        for kind in ("triton", "cuda")
        if (result := problem["contenders"].get(kind)) is not None
    ]  # fmt: skip
    return [*lines, table(columns, rows)]


def _by_operator(kernels: Sequence[Kernel]) -> list[Kernel]:
    return sorted(kernels, key=lambda kernel: (kernel.op, bool(kernel.derived_from), kernel.slug))


def _row(kernel: Kernel, records: Sequence[Verified], slow: Collection[str]) -> list[str]:
    speedups = {
        record.baseline: "slow" if record.baseline in slow else f"{record.speedup:.2f}x"
        for record in records
    }
    first = records[0]
    fraction = "-" if first.floor_fraction is None else f"{first.floor_fraction:.2f}"
    ratios = [speedups.get(name, "-") for name in (kernel.derived_from or "", *BASELINES)]
    return [
        f"`{kernel.slug}`", ", ".join(kernel.techniques) or "plain",
        f"{first.shape}, {first.dtype}", f"{first.measured_ms:.4g}", *ratios, fraction,
    ]  # fmt: skip


def _versions(gpu: str, kernels: Sequence[Kernel]) -> str:
    versions = {
        f"torch {verified.torch}, triton {verified.triton}, CUDA {verified.toolkit}, "
        f"driver {verified.driver}, {verified.date}"
        for kernel in kernels
        for verified in kernel.verified
        if verified.gpu == gpu
    }
    return "; ".join(sorted(versions)) + "."


if __name__ == "__main__":
    main()
