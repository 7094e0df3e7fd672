"""
---
slug: embedding-backward-plain
title: Gradient of an embedding's table by atomic additions
op: embedding-backward
language: triton
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[50, 64, 30], [7, 100, 24], [3, 3, 32], [9, 1, 4]]
  bench: [128256, 4096, 32768]
check_params: {block_d: 256}
sources:
  - title: "PyTorch: torch.nn.functional.embedding"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.embedding.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: eager
  baseline_ms: 1.836
  measured_ms: 1.546
  speedup: 1.188
  floor_fraction: 0.1995
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 128256x4096x32768
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 1.545
  measured_ms: 1.546
  speedup: 0.9994
  floor_fraction: 0.1995
---

dweight[v] is the sum of the rows grad[i] with index[i] = v. A program takes a piece of one row of
the gradient and adds it to the table's row by atomic additions. Rounding after each would lose
small ones, so the table is float32: written with zeros first, and converted at the end. Additions
to a row that occurs often wait for each other, and their order, so the last digits, changes from
run to run.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block_d": [256, 512, 1024, 2048], "num_warps": [2, 4, 8]}


@triton.jit
def _add_kernel(
    grad_ptr, index_ptr, dweight_ptr, D, padding, stride_gt, stride_gd, BLOCK_D: tl.constexpr
):  # fmt: skip
    blocks = tl.cdiv(D, BLOCK_D)
    i = (tl.program_id(0) // blocks).to(tl.int64)
    d = (tl.program_id(0) % blocks) * BLOCK_D + tl.arange(0, BLOCK_D).to(tl.int64)
    row = tl.load(index_ptr + i).to(tl.int64)
    mask = d < tl.where(row == padding, 0, D)
    grad = tl.load(grad_ptr + i * stride_gt + d * stride_gd, mask=mask, other=0.0).to(tl.float32)
    tl.atomic_add(dweight_ptr + row * D + d, grad, mask=mask, sem="relaxed")


def kernel_function(
    grad: torch.Tensor,
    index: torch.Tensor,
    rows: int,
    padding_idx: int | None = None,
    block_d: int = 1024,
    num_warps: int = 4,
) -> torch.Tensor:
    """The gradient [rows, D] by an embedding's table: `grad` [..., D], any strides, is that of the
    output and `index` [...] (integers in [0, rows)) what was looked up, in `grad`'s dtype.

    The table's row `padding_idx` gets zeros.
    """
    if grad.shape[:-1] != index.shape or index.is_floating_point():
        raise ValueError(f"grad {list(grad.shape)} and index {list(index.shape)} do not fit")
    width = grad.shape[-1]
    dweight = torch.zeros((rows, width), dtype=torch.float32, device=grad.device)
    if grad.numel():
        flat = grad.reshape(index.numel(), width)  # a view wherever the strides allow one
        padding = -1 if padding_idx is None else padding_idx % rows
        _add_kernel[(index.numel() * triton.cdiv(width, block_d),)](
            flat, index.contiguous(), dweight, width, padding, *flat.stride(),
            BLOCK_D=block_d, num_warps=num_warps,
        )  # fmt: skip
    return dweight.to(grad.dtype)


def reference(
    grad: torch.Tensor, index: torch.Tensor, rows: int, padding_idx: int | None = None
) -> torch.Tensor:
    padding = -1 if padding_idx is None else padding_idx % rows
    # On the CPU the operator would round after each addition.
    wide = grad if grad.is_cuda else grad.to(torch.promote_types(grad.dtype, torch.float32))
    dweight = torch.ops.aten.embedding_dense_backward(wide, index, rows, padding, False)
    return dweight.to(grad.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [rows of the table, row length, indices]; low indices are frequent, as those of
    tokens are: of 32,768 in a table of 128,256 rows every twentieth is 0."""
    rows, width, count = size
    generator = torch.Generator(device=device).manual_seed(seed)
    grad = torch.randn((count, width), dtype=dtype, device=device, generator=generator)
    uniform = torch.rand(count, device=device, generator=generator)
    return [grad, (uniform**4 * rows).long().clamp(max=rows - 1), rows]
