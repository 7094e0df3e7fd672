"""
---
slug: matmul-tma-fused
title: Matrix product on TMA in grouped order, either operand transposed, results worked on
op: matmul
language: triton
techniques: [tma-host-descriptor, persistent-kernel, pid-swizzling, kernel-fusion, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-tma-host
sizes:
  check: [[64, 64, 64, 0], [33, 45, 70, 3], [1, 40, 17, 1], [40, 70, 33, 2]]
  bench: [8192, 4096, 4096, 2]
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
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8192x4096x4096x2
  dtype: bfloat16
  baseline: matmul-tma-host
  baseline_ms: 0.474
  measured_ms: 0.3535
  speedup: 1.341
  floor_fraction: 0.9918
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8192x4096x4096x2
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.3511
  measured_ms: 0.3535
  speedup: 0.9932
  floor_fraction: 0.9918
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 8192x4096x4096x2
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.351
  measured_ms: 0.3535
  speedup: 0.9929
  floor_fraction: 0.9918
---

C = f(A @ B + bias). What each brings: descriptors take the addresses out of the main loop; tiles
in groups of GROUP_M rows let a wave of programs read few rows of A and few columns of B; and what
follows the product is done on the float32 results before they are rounded and written, by `after`,
an elementwise function: an activation, a residual, a scale.

A program stays on its multiprocessor and takes one tile after the other. The loops over tiles and
over K are flattened into one, so that the first loads of a tile are under way while the one before
is stored. That leaves one program a multiprocessor to hide its own stores, and allows tiles of 128
by 256: three quarters of the reading that two of 128 by 128 do. Results go out through TMA in
`parts` column blocks one after the other, which take half the shared memory or less and leave room
for a stage more of operands.

A transposed operand, such as the weight of a linear layer, needs no copy: its descriptor is made
for the dimension that is contiguous in memory and the tile is turned round in the kernel, which
costs nothing, as wgmma reads 16-bit tiles of either order from shared memory. Only what TMA cannot
address (a row length that is no multiple of 16 bytes, say) is copied once into padded rows.
"""

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
    M, N, K,
    A_TURNED: tl.constexpr, B_TURNED: tl.constexpr, HAS_BIAS: tl.constexpr, AFTER: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    HALVINGS: tl.constexpr, C_ON_TMA: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            a = a_desc.load([k, row]).trans() if A_TURNED else a_desc.load([row, k])
            b = b_desc.load([col, k]).trans() if B_TURNED else b_desc.load([k, col])
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
            # operands ignore the setting.
            acc = tl.dot(a, b, acc, input_precision="tf32x3")
        WIDTH: tl.constexpr = BLOCK_N // 2**HALVINGS
        blocks = _columns(acc, HALVINGS)
        rows = row + tl.arange(0, BLOCK_M)[:, None]
        # Counted in int64: results of a few GB have more than 2**31 elements.
        lead = rows.to(tl.int64) * N
        for part in tl.static_range(2**HALVINGS):
            first = col + part * WIDTH
            cols = first + tl.arange(0, WIDTH)[None, :]
            mask = (rows < M) & (cols < N)
            y = blocks[part]
            if HAS_BIAS:
                y += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
            y = AFTER(y, lead, cols, mask, after_operands).to(c_ptr.dtype.element_ty)
            if C_ON_TMA:
                c_desc.store([row, first], y)
            else:
                tl.store(c_ptr + lead + cols, y, mask=mask)


def _for_tma(x: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """`x` [R, C] with its contiguous dimension last, and whether that turned it round.

    What TMA cannot address is copied, its rows padded to whole 16-byte units.
    """
    unit = 16 // x.element_size()
    padded = triton.cdiv(x.shape[1], unit) * unit
    for turned, each in ((False, x), (True, x.T)):
        # One row alone may have any stride: it is never used.
        rows = each.stride(0) if each.shape[0] > 1 else triton.cdiv(each.shape[1], unit) * unit
        fits = each.stride(1) == 1 and rows >= each.shape[1]
        if fits and each.data_ptr() % 16 == 0 and rows % unit == 0:
            return each.as_strided(each.shape, (rows, 1)), turned
    copy = torch.empty((x.shape[0], padded), dtype=x.dtype, device=x.device)
    return copy[:, : x.shape[1]].copy_(x), False


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
    """Return `after(a @ b + bias)`: `a` [M, K], `b` [K, N] of one dtype, any strides, `bias` [N].

    The result is contiguous, [M, N] of `out_dtype` (`a`'s if None). `after` is a Triton function
    `(values, lead, lane, mask, operands)`. `block_k` is cut to 128 bytes a row, the widest swizzle
    that TMA knows.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    if bias is not None and tuple(bias.shape) != (n,):
        raise ValueError(f"bias {list(bias.shape)} does not fit results of {n} columns")
    c = torch.empty((m, n), dtype=out_dtype or a.dtype, device=a.device)
    if c.numel() == 0:
        return c
    if k == 0:  # nothing to describe: one column of zeros stands for none
        a, b, k = a.new_zeros((m, 1)), b.new_zeros((1, n)), 1
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    block_k = min(block_k, 128 // a.element_size())
    if a.element_size() > 2:  # three products of each: registers for half the columns
        block_n = min(block_n, 128)
    (a, a_turned), (b, b_turned) = _for_tma(a), _for_tma(b)
    # A result whose rows TMA cannot address is stored without it.
    on_tma = n * c.element_size() % 16 == 0
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    # Always the same constant on one GPU, also for few tiles: a kernel is compiled for each value.
    programs = programs_per_sm * _programs(c.device)
    _matmul_kernel[(min(programs, tiles),)](
        TensorDescriptor.from_tensor(a, [block_k, block_m] if a_turned else [block_m, block_k]),
        TensorDescriptor.from_tensor(b, [block_n, block_k] if b_turned else [block_k, block_n]),
        TensorDescriptor.from_tensor(c, [block_m, block_n // parts]) if on_tma else c,
        c, c if bias is None else bias.contiguous(), after_operands,
        m, n, k,
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
    """`size` is [M, N, K, order]; order: 1 for a transposed `a`, 2 for `b`, 3 for both."""
    m, n, k, order = size
    generator = torch.Generator(device=device).manual_seed(seed)
    shapes = ((k, m) if order & 1 else (m, k), (n, k) if order & 2 else (k, n))
    a, b = (torch.randn(shape, dtype=dtype, device=device, generator=generator) for shape in shapes)
    return [a.T if order & 1 else a, b.T if order & 2 else b]
