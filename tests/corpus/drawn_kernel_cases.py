"""Every interpretable Triton kernel at sizes and layouts drawn around its check sizes, as a script.

Prints a JSON object: kernel → {case: what was wrong, or None}. A case counts where PyTorch takes it
and the kernel does not refuse it. Run by `test_kernels_drawn.py` in Triton's interpreter.
"""

import json
import math
import random
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from kb.corpus.loader import KernelFile, load_corpus
from kb.verify.channel import torch_dtype
from kb.verify.compare import as_tuple, compare
from kb.verify.kernel_module import KernelModule, load_kernel_module

ROOT = Path(__file__).parents[2] / "corpus"
LAYOUTS = ("whole", "gap", "turned")
# Extents beyond the check sizes': nothing, one, and neighbours of what divides.
_CHANGES = (lambda n: 1, lambda n: n + 1, lambda n: max(1, n - 1), lambda n: 3)
# Of what is asked of a kernel; and how often a draw may fall on what it or PyTorch does not take.
_CASES = 4
_DRAWS = 30


def cases(kernel: KernelFile) -> dict[str, str | None]:
    """Outcomes of so many cases, each of another layout."""
    module = load_kernel_module(ROOT / kernel.path)
    draw = random.Random(kernel.entry.slug)
    dtype = "float32" if "float32" in kernel.entry.dtypes else kernel.entry.dtypes[0]
    # The smallest: each program takes the interpreter some milliseconds.
    base = min(kernel.entry.sizes.check, key=lambda size: math.prod(max(1, n) for n in size))
    found: dict[str, str | None] = {}
    for attempt in range(_DRAWS):
        layout = LAYOUTS[len(found) % len(LAYOUTS)]
        size = [_changed(extent, draw, attempt) for extent in base]
        given = _inputs(module, size, dtype, layout, seed=attempt)
        if given is None:
            continue
        inputs, expected = given
        case = f"{size} {dtype} {layout}"
        try:
            actual = module.kernel_function(*inputs, **kernel.entry.check_params)
        except ValueError:  # it says what it does not take
            continue
        except Exception as error:
            found[case] = repr(error)
        else:
            found[case] = compare(actual, expected, agrees=module.agrees).problem
        if len(found) == _CASES:
            break
    return found


def _changed(extent: int, draw: random.Random, attempt: int) -> int:
    # First among draws: rows of no elements, or no rows.
    if attempt < 3 and draw.random() < 0.3:
        return 0
    return draw.choice(_CHANGES)(extent) if draw.random() < 0.5 else extent


def _inputs(
    module: KernelModule, size: list[int], dtype: str, layout: str, seed: int
) -> tuple[list[Any], Any] | None:
    """Inputs laid out so, and the reference's result; None where the size means nothing."""
    try:
        made = module.make_inputs(size, torch_dtype(dtype), "cpu", seed)
        inputs = [_laid_out(value, layout) for value in made]
        expected = as_tuple(module.reference(*inputs))
        if all(output.dtype == torch.float32 for output in expected):
            # Where figures cancel, PyTorch's own rounding would count otherwise.
            exact = as_tuple(module.reference(*map(_widened, inputs)))
            expected = tuple(output.float() for output in exact)
    except Exception:  # of any kind: PyTorch's own for what it does not take
        return None
    return inputs, expected


def _widened(value: Any) -> Any:
    wide = isinstance(value, torch.Tensor) and value.dtype == torch.float32
    return value.double() if wide else value


def _laid_out(value: Any, layout: str) -> Any:
    """The same values with gaps between them, or with the last two dimensions exchanged."""
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return value
    if layout == "turned" and value.dim() > 1:
        return value.mT.contiguous().mT
    if layout == "gap":
        wide = value.new_zeros((*value.shape[:-1], 2 * value.shape[-1] + 3))
        part = wide[..., 1 : 1 + 2 * value.shape[-1] : 2]
        return part.copy_(value)
    return value


def main(slugs: Sequence[str]) -> None:
    """Run all kernels, or those named."""
    warnings.simplefilter("ignore")
    kernels = [
        kernel
        for kernel in load_corpus(ROOT).kernels
        if kernel.entry.language == "triton" and kernel.entry.interpretable
        if not slugs or kernel.entry.slug in slugs
    ]
    print(json.dumps({kernel.entry.slug: cases(kernel) for kernel in kernels}))


if __name__ == "__main__":
    main(sys.argv[1:])
