"""
---
slug: hadamard-blocks
title: Hadamard transform of rows on tensor cores, as two products with small matrices
op: hadamard
language: triton
techniques: [tensor-cores, persistent-kernel]
architectures: [sm_80]
dtypes: [float32, float16, bfloat16]
sizes:
  check: [[5, 256], [3, 1024], [37, 8]]
  bench: [32768, 4096]
check_params: {elements: 1024, programs: 3}
sources:
  - title: "Ashkboos et al.: QuaRot, outlier-free 4-bit inference in rotated LLMs"
    url: https://arxiv.org/abs/2404.00456
    licence: proprietary
  - title: "Agarwal et al.: HadaCore, tensor core accelerated Hadamard transform kernel"
    url: https://arxiv.org/abs/2412.08832
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32768x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 11.85
  measured_ms: 0.1419
  speedup: 83.51
  floor_fraction: 0.8847
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0
  triton: 3.6.0
  date: 2026-11-28
  shape: 32768x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 3.965
  measured_ms: 0.1419
  speedup: 27.94
  floor_fraction: 0.8847
---

y = x H / sqrt(N) for rows of N, a power of two: it spreads outliers over a row before it is
quantized to FP8 or INT4; QuaRot and SpinQuant call it a rotation. H has the entry
(-1)^(ones in i & j). A product with the stored matrix takes 2 N operations for each number; log2(N)
passes of sums and differences read and write the tensor log2(N) times.

H of N = A B is the Kronecker product of those of A and B: a row seen as a matrix X [A, B] becomes
H_A X H_B. Both factors are at most 128, so that a row goes through two tensor-core products
between one read and one write, with 2 (A + B) operations for each number. Rows too short for a
product's 16 rows or columns are put together: the factor is then a matrix with blocks of H on its
diagonal. A program builds both factors once, from the bits of the indices, and goes through many
tiles, whose loads are pipelined.

Between the products values are rounded to the dtype of x, once, after a scaling that keeps them in
the range of float16. From rows of some 8,192 the products take as long as the memory.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {
    "elements": [2048, 4096, 8192],
    "programs": [264, 528, 1056],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}

# What tl.dot takes at least.
MIN_DOT = 16
# Bytes of the longest rows whose tile and factors fit in shared memory.
LARGEST = 32768


@triton.jit
def _hadamard(SIZE: tl.constexpr, BLOCK: tl.constexpr, dtype: tl.constexpr):
    """[SIZE, SIZE] with Hadamard matrices of BLOCK on its diagonal."""
    i = tl.arange(0, SIZE)[:, None]
    j = tl.arange(0, SIZE)[None, :]
    # The parity of the ones in i & j, below 2**8.
    bits = i & j & (BLOCK - 1)
    bits ^= bits >> 4
    bits ^= bits >> 2
    bits ^= bits >> 1
    signs = 1.0 - 2.0 * (bits & 1).to(tl.float32)
    return tl.where(i // BLOCK == j // BLOCK, signs, 0.0).to(dtype)


@triton.jit
def _hadamard_kernel(
    x_ptr, y_ptr, rows, stride_xm, stride_xb, scale_first, scale_last,
    LEFT: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_B: tl.constexpr,
):  # fmt: skip
    """`x` is [rows, BLOCK_B], A rows of it to one that is transformed; blocks of B in each."""
    right = _hadamard(BLOCK_B, B, x_ptr.dtype.element_ty)
    if LEFT:
        left = _hadamard(BLOCK_M, A, x_ptr.dtype.element_ty)
    item = tl.arange(0, BLOCK_M)
    col = tl.arange(0, BLOCK_B)[None, :]
    for tile in tl.range(tl.program_id(0), tl.cdiv(rows, BLOCK_M), tl.num_programs(0)):
        row = (tile * tl.full((), BLOCK_M, tl.int64) + item)[:, None]
        x_at = row // A * stride_xm + (row % A * BLOCK_B + col) * stride_xb
        x = tl.load(x_ptr + x_at, mask=row < rows, other=0.0)
        y = tl.dot(x, right, input_precision="tf32x3")
        if LEFT:
            y = (y * scale_first).to(x.dtype)
            y = tl.dot(left, y, input_precision="tf32x3")
        y = (y * scale_last).to(y_ptr.dtype.element_ty)
        tl.store(y_ptr + row * BLOCK_B + col, y, mask=row < rows)


def _factors(n: int) -> tuple[int, int]:
    """A and B with A B = n, for the left and the right product; A is 1 where one product does."""
    if n <= 128:
        return 1, n
    b = 1 << ((n.bit_length()) // 2)
    return n // b, b


def kernel_function(
    x: torch.Tensor,
    scale: float | None = None,
    elements: int = 4096,
    programs: int = 528,
    num_warps: int = 4,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return the Hadamard transform of `x` [..., N] over its last dimension times `scale`
    (1 / sqrt(N) if None), in its dtype, contiguous, in Sylvester's order.

    N is a power of two, at most 16384 (8192 in float32). A program takes tiles of about
    `elements` numbers.
    """
    n = x.shape[-1] if x.ndim else 0
    largest = LARGEST // x.element_size()
    if not 1 <= n <= largest or n & (n - 1):
        raise ValueError(f"rows of {x.dtype} must be a power of two up to {largest}, not {n}")
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not out.numel():
        return out
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x = x.float()
    scale = n**-0.5 if scale is None else scale
    a, b = _factors(n)
    count = x.numel() // n
    if b < MIN_DOT:
        # Several rows of x side by side: blocks on the factor's diagonal.
        more = -count % (MIN_DOT // b)
        flat = torch.nn.functional.pad(x.reshape(count, n), (0, 0, 0, more)).view(-1, MIN_DOT)
        target = torch.empty_like(flat, dtype=out.dtype)
        rows, stride = flat.shape[0], (MIN_DOT, 1)
    else:
        flat, target = x.reshape(count, n), out
        rows, stride = count * a, flat.stride()
    block_b = max(MIN_DOT, b)
    block_m = max(MIN_DOT, a, min(128, elements // block_b))
    if block_m * block_b * x.element_size() > LARGEST // 2:
        num_stages = 1  # one such tile takes a large part of shared memory
    if x.element_size() > 2:
        num_warps = max(num_warps, 8)  # or registers do not suffice
    # A power of two, so exact: between the products values are about as large as those of x.
    first = 2.0 ** -((b.bit_length() - 1) // 2) if a > 1 else 1.0
    _hadamard_kernel[(min(programs, triton.cdiv(rows, block_m)),)](
        flat, target, rows, *stride, first, scale / first,
        LEFT=a > 1, A=a, B=b, BLOCK_M=block_m, BLOCK_B=block_b,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    if target is not out:
        out.copy_(target.view(-1, n)[:count].view(out.shape))
    return out


def reference(x: torch.Tensor) -> torch.Tensor:
    n = x.shape[-1]
    y = x.to(torch.promote_types(x.dtype, torch.float32))
    width = 1
    while width < n:
        pairs = y.reshape(*x.shape[:-1], n // (2 * width), 2, width)
        left, right = pairs.unbind(-2)
        y = torch.stack([left + right, left - right], -2)
        width *= 2
    return (y.reshape(x.shape) * n**-0.5).to(x.dtype)


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [rows, row length]."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
