"""
---
slug: matmul-warp-specialized
title: Persistent matrix product with separate warps for loads, products and results
op: matmul
language: triton
techniques:
  - warp-specialization
  - blackwell-tcgen05
  - register-pressure
  - persistent-kernel
  - tma-host-descriptor
  - tensor-cores
architectures: [sm_90]
dtypes: [float32, float16, bfloat16]
derived_from: matmul-plain
sizes:
  check: [[96, 64, 64], [33, 45, 70], [1, 77, 40]]
  bench: [4096, 4096, 4096]
check_params: {block_m: 32, block_n: 32, block_k: 32}
sources:
  - title: "Triton: triton.language.tensor_descriptor"
    url: https://triton-lang.org/main/python-api/generated/triton.language.tensor_descriptor.html
    licence: MIT
  - title: "Triton tutorial: persistent matmul"
    url: https://triton-lang.org/main/getting-started/tutorials/09-persistent-matmul.html
    licence: MIT
  - title: "Triton pull request 6217: automatic warp specialization for simple matmul loops"
    url: https://github.com/triton-lang/triton/pull/6217
    licence: MIT
  - title: "PyTorch blog: warp specialization in Triton, design and roadmap"
    url: https://pytorch.org/blog/warp-specialization-in-triton-design-and-roadmap
    licence: proprietary
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: matmul-plain
  baseline_ms: 0.2247
  measured_ms: 0.2645
  speedup: 0.8495
  floor_fraction: 0.6492
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: eager
  baseline_ms: 0.1796
  measured_ms: 0.2645
  speedup: 0.679
  floor_fraction: 0.6492
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 4096x4096x4096
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.18
  measured_ms: 0.2645
  speedup: 0.6805
  floor_fraction: 0.6492
---

C = A @ B with one program for each multiprocessor, which loops over tiles. `warp_specialize` asks
the compiler to give loads, products and results to different warps: on sm_100 a warp issues TMA
loads, another one `tcgen05.mma` with the accumulator in tensor memory, and the others convert and
store, so that all three overlap. Compiled with Triton 3.9, the option works on sm_100 and changes
nothing on sm_90 for this flattened loop; other forms of the loop fail to compile there. So it is
set by the capability of the GPU, and elsewhere this is a persistent matmul on descriptors.

With `epilogue_subtile` the tile is converted and stored in two halves: fewer 16-bit values are
live at once, and the buffer of the store is half as large, which can leave room for one more
stage.
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# Programs to start where there is no GPU to ask: few, so that each one gets several tiles.
CPU_PROGRAMS = 2

TUNABLES = {
    "block_m": [64, 128, 256],
    "block_n": [64, 128, 256],
    "block_k": [32, 64],
    "epilogue_subtile": [False, True],
    "num_warps": [4, 8],
    "num_stages": [2, 3, 4],
}


@triton.jit
def _matmul_kernel(
    a_desc, b_desc, c_desc,
    M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EPILOGUE_SUBTILE: tl.constexpr, NUM_PROGRAMS: tl.constexpr, SPECIALIZE: tl.constexpr,
):  # fmt: skip
    tiles_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * tiles_n
    for tile in tl.range(
        tl.program_id(0), tiles, NUM_PROGRAMS, flatten=True, warp_specialize=SPECIALIZE
    ):
        row = (tile // tiles_n) * BLOCK_M
        col = (tile % tiles_n) * BLOCK_N
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.range(0, K, BLOCK_K):
            a = a_desc.load([row, k])
            b = b_desc.load([k, col])
            # float32 operands: three TF32 products keep float32 accuracy on tensor cores. 16-bit
            # operands ignore the setting.
            acc = tl.dot(a, b, acc, input_precision="tf32x3")
        if EPILOGUE_SUBTILE:
            halves = tl.reshape(acc, (BLOCK_M, 2, BLOCK_N // 2))
            left, right = tl.split(tl.permute(halves, (0, 2, 1)))
            c_desc.store([row, col], left.to(c_desc.dtype))
            c_desc.store([row, col + BLOCK_N // 2], right.to(c_desc.dtype))
        else:
            c_desc.store([row, col], acc.to(c_desc.dtype))


def _target(device: torch.device) -> tuple[int, bool]:
    """Programs to start, and whether the compiler can specialize warps for the GPU."""
    if device.type != "cuda":
        return CPU_PROGRAMS, False
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.major == 10


def _empty_for_tma(rows: int, cols: int, like: torch.Tensor) -> torch.Tensor:
    """[rows, cols] with the rows padded to whole 16-byte units, as TMA requires of strides."""
    unit = 16 // like.element_size()
    padded = triton.cdiv(cols, unit) * unit
    return torch.empty((rows, padded), dtype=like.dtype, device=like.device)[:, :cols]


def _for_tma(x: torch.Tensor) -> torch.Tensor:
    """`x` itself where TMA can address it, else a copy that it can (one more pass over `x`)."""
    addressable = (
        x.stride(1) == 1
        and x.stride(0) >= x.shape[1]
        and x.stride(0) * x.element_size() % 16 == 0
        and x.data_ptr() % 16 == 0
    )
    return x if addressable else _empty_for_tma(*x.shape, like=x).copy_(x)


def kernel_function(
    a: torch.Tensor,
    b: torch.Tensor,
    block_m: int = 128,
    block_n: int = 128,
    block_k: int = 64,
    epilogue_subtile: bool = True,
    num_warps: int = 8,
    num_stages: int = 3,
) -> torch.Tensor:
    """Return `a @ b`: `a` [M, K] and `b` [K, N] of one dtype -> [M, N] of that dtype.

    Where a row of the result is no multiple of 16 bytes, the result is a view of padded rows.
    `block_k` is cut to 128 bytes a row, the widest swizzle that TMA knows.
    """
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise ValueError(f"cannot multiply {a.dtype} {list(a.shape)} by {b.dtype} {list(b.shape)}")
    (m, k), n = a.shape, b.shape[1]
    c = _empty_for_tma(m, n, like=a)
    if 0 in (m, n, k):
        return c.zero_()  # a descriptor cannot describe an empty matrix
    block_k = min(block_k, 128 // a.element_size())
    if a.dtype == torch.bfloat16 and not a.is_cuda:
        # The CPU interpreter's dot takes bfloat16 for integers; float32 holds the same values.
        a, b = a.float(), b.float()
    a, b = _for_tma(a), _for_tma(b)
    tiles = triton.cdiv(m, block_m) * triton.cdiv(n, block_n)
    programs, specialize = _target(a.device)
    _matmul_kernel[(min(programs, tiles),)](
        TensorDescriptor.from_tensor(a, [block_m, block_k]),
        TensorDescriptor.from_tensor(b, [block_k, block_n]),
        TensorDescriptor.from_tensor(c, [block_m, block_n // 2 if epilogue_subtile else block_n]),
        m, n, k,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k,
        EPILOGUE_SUBTILE=epilogue_subtile, NUM_PROGRAMS=programs, SPECIALIZE=specialize,
        num_warps=num_warps, num_stages=num_stages,
    )  # fmt: skip
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a @ b


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    return [
        torch.randn(shape, dtype=dtype, device=device, generator=generator)
        for shape in ((m, k), (k, n))
    ]
