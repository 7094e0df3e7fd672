"""
---
slug: matmul-batched-tma
title: Matrix product of two to many dimensions on TMA, either operand transposed, results worked on
op: batched-matmul
language: triton
techniques: [tma-host-descriptor, persistent-kernel, pid-swizzling, kernel-fusion, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-batched-plain
sizes:
  check: [[2, 64, 64, 64, 0], [3, 33, 45, 70, 3], [1, 1, 40, 17, 1], [2, 40, 70, 33, 2]]
  bench: [64, 1024, 1024, 1024, 0]
check_params: {block_m: 32, block_n: 32, block_k: 32, group_m: 2}
sources:
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
  - title: "CUDA driver API: tensor map object management (cuTensorMapEncodeTiled)"
    url: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TENSOR__MEMORY.html
    licence: proprietary
  - title: "PyTorch: torch.matmul"
    url: https://docs.pytorch.org/docs/stable/generated/torch.matmul.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x1024x1024x1024x0
  dtype: bfloat16
  baseline: matmul-batched-plain
  baseline_ms: 0.2373
  measured_ms: 0.209
  speedup: 1.135
  floor_fraction: 0.8327
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x1024x1024x1024x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.2015
  measured_ms: 0.209
  speedup: 0.9641
  floor_fraction: 0.8327
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-26
  shape: 64x1024x1024x1024x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2017
  measured_ms: 0.209
  speedup: 0.9651
  floor_fraction: 0.8327
---

C[i] = f(A[i] @ B[i] + bias): descriptors of three dimensions, so that a tile is one load whatever
batch it lies in, and rows past the end of a matrix read as zeros instead of as the next matrix.

A transposed operand needs no copy: its descriptor is made for the dimension that is contiguous in
memory and the tile is turned round in the kernel, which costs nothing, as wgmma reads 16-bit tiles
of either order from shared memory. Only what TMA cannot address (a row length that is no multiple
of 16 bytes, say) is copied once into padded rows. A matrix that all batches share is described
once, as a batch of one.

Tiles are visited in groups of GROUP_M rows, so that a wave of programs reads few rows of A and few
columns of B. Programs stay and take tile after tile, of all batches, in one flattened loop: the
first loads of a tile are under way while the one before is stored, through TMA and in `parts`
column blocks. `after` is an elementwise function that is run on the float32 results before they
are rounded: an activation, a residual, a scale.
"""

import math

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Programs to start where there is no GPU to ask: few, so that in the CPU interpreter, too, each one
# gets several tiles.
CPU_PROGRAMS = 2

TUNABLES = {
    "block_m": [64, 128],
    "block_n": [64, 128, 256],
    "block_k": [64],
    "group_m": [4, 8, 16],
    "parts": [1, 2, 4],
    "programs_per_sm": [1, 2],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}


@triton.jit
def _unchanged(x, lead, lane, mask, operands):
    """Elementwise functions get float32 values, and where they lie in the contiguous tensor: at
    `lead + lane`, `lane` along neighbours. `operands` is what the caller gave with them."""
    return x


@triton.jit
def _columns(acc, HALVINGS: tl.constexpr):
    """[M, N] as a tuple of 2 ** HALVINGS blocks of neighbouring columns."""
    blocks = (acc,)
    for level in tl.static_range(HALVINGS):
        finer = ()
        for i in tl.static_range(2**level):
            wide = blocks[i]
            halves = tl.reshape(wide, (wide.shape[0], 2, wide.shape[1] // 2))
            left, right = tl.split(tl.permute(halves, (0, 2, 1)))
            finer += (left, right)
        blocks = finer
    return blocks


@triton.jit
def _matmul_kernel(
    a_desc, b_desc, c_desc, c_ptr, bias_ptr, after_operands,
    M, N, K, batches, a_batch, b_batch,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr, HAS_BIAS: tl.constexpr, AFTER: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    HALVINGS: tl.constexpr, C_ON_TMA: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tiles_m * tiles_n
    for index in tl.range(tl.program_id(0), batches * tiles, PROGRAMS, flatten=True):
        batch = index // tiles
        tile = index % tiles
        tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        # 0 for an operand that all batches share.
        of_a = batch * a_batch
        of_b = batch * b_batch
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            if A_TURNED:
                a = a_desc.load([of_a, k, row]).reshape(BLOCK_K, BLOCK_M).trans()
            else:
                a = a_desc.load([of_a, row, k]).reshape(BLOCK_M, BLOCK_K)
            if B_TURNED:
                b = b_desc.load([of_b, col, k]).reshape(BLOCK_N, BLOCK_K).trans()
            else:
                b = b_desc.load([of_b, k, col]).reshape(BLOCK_K, BLOCK_N)
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
            # operands ignore the setting.
            acc = tl.dot(a, b, acc, input_precision="tf32x3")
        WIDTH: tl.constexpr = BLOCK_N // 2**HALVINGS
        blocks = _columns(acc, HALVINGS)
        rows = row + tl.arange(0, BLOCK_M)[:, None]
        # Counted in int64: results of a few GB have more than 2**31 elements.
        lead = (batch.to(tl.int64) * M + rows) * N
        for part in tl.static_range(2**HALVINGS):
            first = col + part * WIDTH
            cols = first + tl.arange(0, WIDTH)[None, :]
            mask = (rows < M) & (cols < N)
            y = blocks[part]
            if HAS_BIAS:
                y += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
            y = AFTER(y, lead, cols, mask, after_operands).to(c_ptr.dtype.element_ty)
            if C_ON_TMA:
                c_desc.store([batch, row, first], y.reshape(1, BLOCK_M, WIDTH))
            else:
                tl.store(c_ptr + lead + cols, y, mask=mask)


def _batches(x: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """`x` [..., R, C] as [B, R, C], where B is 1 if its leading dimensions repeat one matrix."""
    if math.prod(x.shape[:-2]) == 1:
        return x.reshape(1, *x.shape[-2:])
    return x.expand(*shape, *x.shape[-2:]).reshape(-1, *x.shape[-2:])


def _for_tma(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """`x` [B, R, C] with its contiguous dimension last, and whether that turned it round.

    What TMA cannot address is copied, its rows padded to whole 16-byte units.
    """
    unit = 16 // x.element_size()
    for turned, each in ((False, x), (True, x.mT)):
        batches, rows, cols = each.stride()
        if each.shape[0] == 1:
            batches = rows * each.shape[1]  # any multiple: it is never used
        if each.shape[1] == 1:
            rows = triton.cdiv(each.shape[2], unit) * unit  # the same
            batches = rows if each.shape[0] == 1 else batches
        aligned = each.data_ptr() % 16 == 0 and rows % unit == 0 and batches % unit == 0
        if cols == 1 and aligned and rows >= each.shape[2] and batches >= rows:
            strided = each.as_strided(each.shape, (batches, rows, 1))
            return strided, turned
    padded = triton.cdiv(x.shape[2], unit) * unit
    copy = torch.empty((*x.shape[:2], padded), dtype=x.dtype, device=x.device)
    return copy[:, :, : x.shape[2]].copy_(x), False


def _programs(device: torch.device) -> int:
    """As many as the GPU has multiprocessors."""
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    after=_unchanged,
    after_operands: tuple = (),
    out_dtype: torch.dtype | None = None,
    block_m: int = 128,
    block_n: int = 256,
    block_k: int = 64,
    group_m: int = 8,
    parts: int = 2,
    programs_per_sm: int = 1,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `after(a @ b + bias)`: `a` [..., M, K], `b` [..., K, N] of one dtype, `bias` [N].

    Leading dimensions are broadcast as `torch.matmul` does; any strides. The result is contiguous,
    [..., M, N] of `out_dtype` (`a`'s if None). `after` is a Triton function
    `(values, lead, lane, mask, operands)`. `block_k` is cut to 128 bytes a row, the widest swizzle
    that TMA knows.
    """
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape[-2:], b.shape[-1]
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"bias {list(bias.shape)} does not fit results of {n} columns")
    dtype = out_dtype or a.dtype
    leading = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    c = torch.empty((*leading, m, n), dtype=dtype, device=a.device)
    if c.numel() == 0:
        return c
    if k == 0:  # nothing to describe: one column of zeros stands for none
        a, b, k = a.new_zeros((*a.shape[:-1], 1)), b.new_zeros((*b.shape[:-2], 1, n)), 1
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    if b.ndim == 2 and a.ndim > 2 and a.is_contiguous():
        a, m = a.reshape(1, -1, k), math.prod(a.shape[:-1])  # one tall matrix
    block_k = min(block_k, 128 // a.element_size())
    if a.element_size() > 2:  # three products of each: registers for half the columns
        block_n = min(block_n, 128)
    (a, a_turned), (b, b_turned) = (_for_tma(_batches(x, leading)) for x in (a, b))
    batches = max(a.shape[0], b.shape[0])
    a_block = [1, block_k, block_m] if a_turned else [1, block_m, block_k]
    b_block = [1, block_n, block_k] if b_turned else [1, block_k, block_n]
    # A result whose rows TMA cannot address is stored without it.
    on_tma = n * c.element_size() % 16 == 0
    c_block = [1, block_m, block_n // parts]
    tiles = batches * triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    # Always the same constant on one GPU, also for few tiles: a kernel is compiled for each value.
    programs = programs_per_sm * _programs(c.device)
    _matmul_kernel[(min(programs, tiles),)](
        TensorDescriptor.from_tensor(a, a_block), TensorDescriptor.from_tensor(b, b_block),
        TensorDescriptor.from_tensor(c.view(batches, m, n), c_block) if on_tma else c,
        c, c if bias is None else bias.contiguous(), after_operands,
        m, n, k, batches, int(a.shape[0] > 1), int(b.shape[0] > 1),
        A_TURNED=a_turned, B_TURNED=b_turned, HAS_BIAS=bias is not None, AFTER=after,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group_m,
        HALVINGS=parts.bit_length() - 1, C_ON_TMA=on_tma, PROGRAMS=programs,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    c = torch.matmul(a, b)
    return c if bias is None else c + bias


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [B, M, N, K, order]; order: 1 for a transposed `a`, 2 for `b`, 3 for both."""
    batches, m, n, k, order = size
    generator = torch.Generator(device=device).manual_seed(seed)
    shapes = ((batches, k, m) if order & 1 else (batches, m, k),
              (batches, n, k) if order & 2 else (batches, k, n))  # fmt: skip
    a, b = (torch.randn(shape, dtype=dtype, device=device, generator=generator) for shape in shapes)
    return [a.mT if order & 1 else a, b.mT if order & 2 else b]
