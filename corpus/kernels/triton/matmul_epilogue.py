"""
---
slug: matmul-epilogue
title: Linear layer with its activation in the epilogue, persistent on TMA
op: matmul
language: triton
techniques: [kernel-fusion, tma-host-descriptor, persistent-kernel, pid-swizzling, tensor-cores]
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64, 0], [33, 45, 72, 0], [40, 30, 50, 1], [1, 77, 40, 0]]
  bench: [4096, 4096, 4096, 0]
check_params: {block_m: 32, block_n: 32, block_k: 32, programs: 2}
sources:
  - title: "Triton tutorial: persistent matrix multiplication"
    url: https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html
    licence: MIT
  - title: "PyTorch: torch.nn.Linear"
    url: https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html
    licence: BSD-3-Clause
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-23
  shape: 4096x4096x4096x0
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.202
  measured_ms: 0.2855
  speedup: 0.7075
  floor_fraction: 0.5972
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-23
  shape: 4096x4096x4096x0
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.2098
  measured_ms: 0.2855
  speedup: 0.7349
  floor_fraction: 0.5972
---

activation(x @ weight.T + bias) with one reading of each operand's tiles and one writing of the
result. A program stays on its multiprocessor and takes one tile of the result after the other; the
loops over tiles and over K are flattened into one, so that the first loads of a tile are under way
while the one before is stored. Tiles are taken in groups of rows, which keeps their operands in L2.

The weight may lie as a layer has it, [N, K], or turned round: its descriptor is made for the
dimension that is contiguous, and the tile is turned in the kernel, which costs nothing.
`matmul-tma-fused` stores through TMA in parts and takes a function to run on the results.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

TUNABLES = {
    "block_m": [32, 64, 128],
    "block_n": [32, 64, 128, 256],
    "block_k": [32, 64],
    "group_m": [4, 8, 16],
    "programs": [0, 2],
    "num_warps": [4, 8],
    "num_stages": [3, 4],
}

# Programs to start where there is no GPU to ask: few, so that each one gets several tiles.
CPU_PROGRAMS = 2
KINDS = ("none", "relu", "gelu", "silu", "sigmoid")


@triton.jit
def _linear_kernel(
    x_desc, weight_desc, bias_ptr, out_ptr, M, N, K, KIND: tl.constexpr, TURNED: tl.constexpr,
    HAS_BIAS: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        tile_m, tile_n = tl.swizzle2d(tile // tiles_n, tile % tiles_n, tiles_m, tiles_n, GROUP_M)
        row = tile_m * BLOCK_M
        col = tile_n * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            a = x_desc.load([row, k])
            b = weight_desc.load([k, col]) if TURNED else weight_desc.load([col, k]).T
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores.
            acc = tl.dot(a, b, acc, input_precision="tf32x3")
        rows = row + tl.arange(0, BLOCK_M)[:, None]
        cols = col + tl.arange(0, BLOCK_N)[None, :]
        if HAS_BIAS:
            acc += tl.load(bias_ptr + cols, mask=cols < N, other=0.0).to(tl.float32)
        # Elementwise work that follows the product belongs here, on the float32 sums.
        if KIND == "relu":
            acc = tl.maximum(acc, 0.0)
        elif KIND == "gelu":
            acc = 0.5 * acc * (1.0 + tl.erf(acc * 0.7071067811865476))
        elif KIND == "silu":
            acc = acc * tl.sigmoid(acc)
        elif KIND == "sigmoid":
            acc = tl.sigmoid(acc)
        # Counted in int64: results of a few GB have more than 2**31 elements.
        to = out_ptr + rows.to(tl.int64) * N + cols
        tl.store(to, acc.to(out_ptr.dtype.element_ty), mask=(rows < M) & (cols < N))


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` as TMA can read it: rows contiguous, their distance whole units of 16 bytes."""
    unit = 16 // x.element_size()
    if x.stride(1) == 1 and x.stride(0) % unit == 0 and x.data_ptr() % 16 == 0:
        return x
    # A fresh tensor: PyTorch calls one row contiguous whatever its stride.
    padded = x.new_zeros(x.shape[0], -(-x.shape[1] // unit) * unit)
    padded[:, : x.shape[1]] = x
    return padded[:, : x.shape[1]]


def _multiprocessors(device: torch.device) -> int:
    if device.type != "cuda":
        return CPU_PROGRAMS
    return torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    kind: str = "none",
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    group_m: int = 8,
    programs: int = 0,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `kind`(`x @ weight.T + bias`): `x` [M, K], `weight` [N, K] of any strides, `bias` [N].

    `programs` is how many are started; 0: one a multiprocessor. `block_k` is cut to 128 bytes.
    """
    bias = None if bias is None else bias.contiguous()
    if kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, not '{kind}'")
    if x.ndim != 2 or weight.ndim != 2 or x.shape[1] != weight.shape[1] or x.dtype != weight.dtype:
        raise ValueError(f"cannot apply {weight.dtype} {list(weight.shape)} to {list(x.shape)}")
    (m, k), n = x.shape, weight.shape[0]
    out = torch.empty((m, n), dtype=x.dtype, device=x.device)
    if x.dtype == torch.bfloat16 and not x.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        x, weight = x.float(), weight.float()
    block_k = min(block_k, 128 // x.element_size())
    turned = weight.stride(0) == 1 and weight.stride(1) != 1
    x, weight = _for_tma(x), _for_tma(weight.T if turned else weight)
    programs = programs or _multiprocessors(x.device)
    _linear_kernel[(min(programs, triton.cdiv(m, block_m) * triton.cdiv(n, block_n)),)](
        TensorDescriptor.from_tensor(x, [block_m, block_k]),
        TensorDescriptor.from_tensor(weight, [block_k, block_n] if turned else [block_n, block_k]),
        bias, out, m, n, k, KIND=kind, TURNED=turned, HAS_BIAS=bias is not None,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP_M=group_m, PROGRAMS=programs,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return out


def reference(
    x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None, kind: str = "none"
) -> torch.Tensor:
    functional = torch.nn.functional
    kinds = {"none": lambda y: y, "relu": functional.relu, "gelu": functional.gelu,
             "silu": functional.silu, "sigmoid": torch.sigmoid}  # fmt: skip
    return kinds[kind](functional.linear(x, weight, bias))


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[object]:
    """`size` is [M, N, K, 1 for a weight that lies turned round]."""
    m, n, k, turned = size
    generator = torch.Generator(device=device).manual_seed(seed)
    x, bias = (
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (n,))
    )
    shape = (k, n) if turned else (n, k)
    # Weights as a layer has them: the sums stay near 1, where activations bend.
    weight = torch.randn(shape, dtype=dtype, device=device, generator=generator) * k**-0.5
    return [x, weight.T if turned else weight, bias, "gelu"]
