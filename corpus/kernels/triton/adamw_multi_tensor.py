"""
---
slug: adamw-multi-tensor
title: AdamW over all parameters of a model in one launch, through a table of pointers
op: optimizer
language: triton
techniques: [load-balancing]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
derived_from: adamw-plain
sizes:
  check: [[1, 16], [2, 7], [3, 5]]
  bench: [32, 512]
check_params: {chunk: 256, block: 64}
sources:
  - title: "Loshchilov, Hutter: Decoupled weight decay regularization"
    url: https://arxiv.org/abs/1711.05101
    licence: proprietary
  - title: "PyTorch: torch.optim.AdamW"
    url: https://docs.pytorch.org/docs/stable/generated/torch.optim.AdamW.html
    licence: BSD-3-Clause
  - title: "Triton tutorial: group GEMM"
    url: https://triton-lang.org/main/getting-started/tutorials/08-grouped-gemm.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x512
  dtype: bfloat16
  baseline: adamw-plain
  baseline_ms: 4.796
  measured_ms: 0.5242
  speedup: 9.149
  floor_fraction: 0.9882
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x512
  dtype: bfloat16
  baseline: eager
  baseline_ms: 3.441
  measured_ms: 0.5242
  speedup: 6.564
  floor_fraction: 0.9882
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32x512
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.5216
  measured_ms: 0.5242
  speedup: 0.995
  floor_fraction: 0.9882
---

The update moves 22 bytes an element with bfloat16 weights (weight, gradient and moments read,
weight and moments written) and computes next to nothing. A model has hundreds of tensors, many of
them vectors: launched one by one, they cost the host more than they cost the GPU.

Here all are updated in one launch, wherever they lie. Their addresses go to the GPU in one table
(`make_table`). Every tensor is cut into chunks of `chunk` elements, numbered through over all
tensors, one program each. The table also lists the tensor of every chunk, so that a program has its
addresses after two loads; a binary search would make it wait for one load after another. Large and
small tensors share the GPU evenly.

The compiler cannot see that such pointers are aligned, nor that a mask ends at a multiple of 16
bytes, and would access element by element. So the host looks whether all addresses are multiples of
16 bytes and says so by `tl.multiple_of`; and whole chunks take no mask, only a tensor's last one.

Tensors of one table share their dtypes, rate and weight decay: make one for each group of
parameters. Making it takes the host some microseconds a tensor; as long as the gradients keep their
addresses (`zero_grad(set_to_none=False)`, or CUDA graphs) it is made once. So `kernel_function`
keeps its tables, and its measured time is that of a step whose table was made before: a step that
has to make one takes the host some 0.2 ms more. With few large tensors, or all parameters in one
buffer already, ordinary launches are as fast.

PyTorch's fused AdamW is in place only, and is not timed as a library here: copies of the weights
and moments for it would cost more than the step.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl

TUNABLES = {
    "chunk": [2048, 4096, 8192, 16384],
    "block": [1024, 2048],
    "num_warps": [4, 8],
}

# What 128-bit accesses need of an address.
VECTOR_BYTES = 16
TRITON_DTYPES = {
    torch.float32: tl.float32,
    torch.float16: tl.float16,
    torch.bfloat16: tl.bfloat16,
}


@triton.jit
def _address(table_ptr, row, tensor, DTYPE: tl.constexpr):
    """The address in the tensor's column of the row that begins at `row`, as a pointer."""
    return tl.load(table_ptr + row + tensor).to(tl.pointer_type(DTYPE))


@triton.jit
def _at(ptr, at, ALIGNED: tl.constexpr):
    return tl.multiple_of(ptr + at, 16) if ALIGNED else ptr + at


@triton.jit
def _update(
    param_ptr, grad_ptr, avg_ptr, square_ptr, param_out_ptr, avg_out_ptr, square_out_ptr,
    at, length, rate, decay, rest1, beta2, rest2, root, eps,
    ALIGNED: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    mask = at < length if MASKED else None
    param = tl.load(_at(param_ptr, at, ALIGNED), mask=mask).to(tl.float32)
    grad = tl.load(_at(grad_ptr, at, ALIGNED), mask=mask).to(tl.float32)
    avg = tl.load(_at(avg_ptr, at, ALIGNED), mask=mask)
    square = tl.load(_at(square_ptr, at, ALIGNED), mask=mask)
    avg += rest1 * (grad - avg)
    square = beta2 * square + rest2 * grad * grad
    param = param * decay - rate * (avg / (tl.sqrt(square) * root + eps))
    param = param.to(param_out_ptr.dtype.element_ty)
    tl.store(_at(param_out_ptr, at, ALIGNED), param, mask=mask)
    tl.store(_at(avg_out_ptr, at, ALIGNED), avg, mask=mask)
    tl.store(_at(square_out_ptr, at, ALIGNED), square, mask=mask)


@triton.jit
def _adamw_kernel(
    table_ptr, work_list_ptr, tensors,
    rate, decay, rest1, beta2, rest2, root, eps,
    PARAM: tl.constexpr, GRAD: tl.constexpr, ALIGNED: tl.constexpr,
    CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The table [9, tensors] of int64 has a column for each tensor. Rows: the number of its first
    chunk, its length, and its addresses. The work list, int32 [chunks], has their tensors."""
    row = tensors
    chunk = tl.program_id(0)
    tensor = tl.load(work_list_ptr + chunk)
    length = tl.load(table_ptr + row + tensor)
    begin = (chunk - tl.load(table_ptr + tensor)) * CHUNK
    param = _address(table_ptr, 2 * row, tensor, PARAM)
    grad = _address(table_ptr, 3 * row, tensor, GRAD)
    avg = _address(table_ptr, 4 * row, tensor, tl.float32)
    square = _address(table_ptr, 5 * row, tensor, tl.float32)
    param_out = _address(table_ptr, 6 * row, tensor, PARAM)
    avg_out = _address(table_ptr, 7 * row, tensor, tl.float32)
    square_out = _address(table_ptr, 8 * row, tensor, tl.float32)
    # int64, as the table is: one tensor may have more than 2**31 elements.
    lane = begin + tl.arange(0, BLOCK)
    if begin + CHUNK <= length:
        for whole in tl.range(0, CHUNK, BLOCK):
            _update(
                param, grad, avg, square, param_out, avg_out, square_out, lane + whole, length,
                rate, decay, rest1, beta2, rest2, root, eps, ALIGNED, False,
            )  # fmt: skip
    else:
        for last in tl.range(0, length - begin, BLOCK):
            _update(
                param, grad, avg, square, param_out, avg_out, square_out, lane + last, length,
                rate, decay, rest1, beta2, rest2, root, eps, ALIGNED, True,
            )  # fmt: skip


class Table(NamedTuple):
    """Where the tensors lie: for every step in which their addresses are the same."""

    rows: torch.Tensor
    """int64 [9, tensors] on the GPU, see `_adamw_kernel`."""
    work_list: torch.Tensor
    """int32 [chunks] on the GPU, the tensor of each chunk."""
    chunk: int
    """Elements in a chunk."""
    aligned: bool
    param: torch.dtype
    grad: torch.dtype


def make_table(
    params: Sequence[torch.Tensor],
    grads: Sequence[torch.Tensor],
    exp_avgs: Sequence[torch.Tensor],
    exp_avg_sqs: Sequence[torch.Tensor],
    chunk: int = 4096,
) -> Table:
    """The table by which `adamw` updates lists of separate tensors in place.

    The tensors of a parameter have the same shape and are contiguous, on one device. `params` share
    a float dtype, and so do `grads`; moments are float32. The table does not keep them alive.
    """
    lists = (params, grads, exp_avgs, exp_avg_sqs)
    if not params or len({len(each) for each in lists}) > 1:
        raise ValueError(f"four lists of one length, not empty, not {[len(x) for x in lists]}")
    dtypes = [each[0].dtype for each in lists]
    if dtypes[2:] != [torch.float32] * 2:
        raise ValueError(f"moments must be float32, not {dtypes[2:]}")
    for tensors in zip(*lists, strict=True):
        if any(t.shape != tensors[0].shape or not t.is_contiguous() for t in tensors):
            shapes = [list(t.shape) for t in tensors]
            raise ValueError(f"a parameter's tensors are contiguous, of one shape; not {shapes}")
        if [t.dtype for t in tensors] != dtypes:
            raise ValueError(f"a list's tensors share a dtype ({dtypes}): one call for each dtype")
    addresses = [[t.data_ptr() for t in each] for each in lists]
    addresses += [addresses[0], *addresses[2:]]
    lengths = torch.tensor([t.numel() for t in params])
    return _table(lengths, torch.tensor(addresses), chunk, dtypes, params[0].device)


def _table(
    lengths: torch.Tensor,
    addresses: torch.Tensor,
    chunk: int,
    dtypes: Sequence[torch.dtype],
    device: torch.device,
) -> Table:
    """`lengths` [tensors] and `addresses` [7, tensors] are on the CPU, where the table is put
    together to be copied to the GPU at once."""
    chunks = (lengths + chunk - 1) // chunk
    work_list = torch.repeat_interleave(torch.arange(len(lengths), dtype=torch.int32), chunks)
    aligned = not bool((addresses % VECTOR_BYTES).any())
    rows = torch.cat([(chunks.cumsum(0) - chunks)[None], lengths[None], addresses])
    return Table(rows.to(device), work_list.to(device), chunk, aligned, *dtypes[:2])


# A step has few sets of addresses, one for each place where the allocator puts its outputs.
@functools.lru_cache(maxsize=64)
def _flat_table(
    lengths: tuple[int, ...],
    bases: tuple[int, ...],
    dtypes: tuple[torch.dtype, ...],
    chunk: int,
    device: torch.device,
) -> Table:
    """The table of tensors that lie one behind the other, from `bases` on."""
    sizes = torch.tensor(lengths, dtype=torch.int64)
    begins = sizes.cumsum(0) - sizes
    bytes_each = torch.tensor([dtype.itemsize for dtype in dtypes])[:, None]
    return _table(sizes, torch.tensor(bases)[:, None] + bytes_each * begins, chunk, dtypes, device)


def adamw(
    table: Table,
    step: int = 1,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    block: int = 1024,
    num_warps: int = 4,
) -> None:
    """One step of AdamW, number `step` from 1, for all tensors of `table`.

    `block` divides the table's chunk.
    """
    if step < 1 or table.chunk % block:
        raise ValueError(f"steps count from 1 ({step}), and {block} must divide {table.chunk}")
    chunks, tensors = len(table.work_list), table.rows.shape[1]
    if chunks == 0:
        return
    _adamw_kernel[(chunks,)](
        table.rows, table.work_list, tensors,
        lr / (1 - beta1**step), 1 - lr * weight_decay, 1 - beta1, beta2, 1 - beta2,
        1 / math.sqrt(1 - beta2**step), eps,
        PARAM=TRITON_DTYPES[table.param], GRAD=TRITON_DTYPES[table.grad], ALIGNED=table.aligned,
        CHUNK=table.chunk, BLOCK=block, num_warps=num_warps,
    )  # fmt: skip


def kernel_function(
    params: torch.Tensor,
    grads: torch.Tensor,
    exp_avgs: torch.Tensor,
    exp_avg_sqs: torch.Tensor,
    lengths: list[int],
    step: int = 1,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
    chunk: int = 4096,
    block: int = 2048,
    num_warps: int = 4,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """One step of AdamW on tensors that lie one behind the other in flat ones -> new weights, first
    and second moments. For separate tensors, in place: `make_table` and `adamw`.

    `params` [N] and `grads` [N] are in any float dtype, the moments [N] in float32, all contiguous;
    `lengths` are the tensors' lengths. Tables are kept and found again by lengths and addresses.
    """
    given = (params, grads, exp_avgs, exp_avg_sqs)
    total = sum(lengths)
    if any(t.shape != (total,) or not t.is_contiguous() for t in given):
        raise ValueError(f"tensors must be contiguous and of {total} elements, the lengths'")
    if exp_avgs.dtype != torch.float32 or exp_avg_sqs.dtype != torch.float32:
        raise ValueError("moments must be float32")
    outputs = tuple(torch.empty_like(t) for t in (params, exp_avgs, exp_avg_sqs))
    flat = (*given, *outputs)
    bases = tuple(t.data_ptr() for t in flat)
    dtypes = tuple(t.dtype for t in flat)
    table = _flat_table(tuple(lengths), bases, dtypes, chunk, params.device)
    adamw(table, step, lr, beta1, beta2, eps, weight_decay, block, num_warps)
    return outputs


def reference(
    params: torch.Tensor,
    grads: torch.Tensor,
    exp_avgs: torch.Tensor,
    exp_avg_sqs: torch.Tensor,
    lengths: list[int],
    step: int = 1,
    lr: float = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-2,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    grads = grads.to(exp_avgs.dtype)
    avgs = exp_avgs.lerp(grads, 1 - beta1)
    squares = exp_avg_sqs * beta2 + (1 - beta2) * grads * grads
    scale = squares.sqrt() / math.sqrt(1 - beta2**step) + eps
    weights = params.to(exp_avgs.dtype) * (1 - lr * weight_decay)
    weights = weights - lr / (1 - beta1**step) * avgs / scale
    return weights.to(params.dtype), avgs, squares


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [layers, width] of a transformer whose layers have 8 parameters each: two vectors,
    four square matrices, and two of four times the size."""
    layers, width = size
    square = width * width
    lengths = [width, square, square, square, square, width, 4 * square, 4 * square] * layers
    generator = torch.Generator(device=device).manual_seed(seed)
    params, grads, avgs, squares = (
        torch.randn(sum(lengths), device=device, generator=generator) * 0.1 for _ in range(4)
    )
    # A large step, so that weights that were not updated are seen in low precision too.
    return [params.to(dtype), grads.to(dtype), avgs, squares.square(), lengths, 3, 0.05]
