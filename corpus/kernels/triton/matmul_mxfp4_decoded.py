"""
---
slug: matmul-mxfp4-decoded
title: Matrix product with MXFP4 weights decoded to 16 bits beforehand
op: matmul-mxfp4
language: triton
techniques: [tensor-cores]
architectures: [sm_80]
dtypes: [float16, bfloat16]
sizes:
  check: [[16, 64, 128], [3, 45, 96], [33, 70, 64]]
  bench: [16, 14336, 14336]
check_params: {block: 512}
sources:
  - title: "Open Compute Project: Microscaling formats (MX) specification"
    url: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf
    licence: proprietary
  - title: "Rouhani et al.: Microscaling data formats for deep learning"
    url: https://arxiv.org/abs/2310.10537
    licence: CC-BY-4.0
  - title: "Triton: triton.language.dot"
    url: https://triton-lang.org/main/python-api/generated/triton.language.dot.html
    licence: MIT
verified:
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: eager
  baseline_ms: 5.036
  measured_ms: 0.2499
  speedup: 20.15
  floor_fraction: 0.1027
- gpu: NVIDIA H200
  driver: 580.159.04
  toolkit: '13.0'
  torch: 2.11.0+cu130
  triton: 3.6.0
  date: 2026-11-22
  shape: 16x14336x14336
  dtype: bfloat16
  baseline: torch.compile
  baseline_ms: 0.574
  measured_ms: 0.2499
  speedup: 2.297
  floor_fraction: 0.1027
---

C = A @ W^T for weights in MXFP4: 4-bit codes, two to a byte along K, and one power of two for 32
of them. A kernel decodes all weights to 16 bits and writes them, and PyTorch multiplies: 2 bytes a
weight are written and read again where the codes are half a byte.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {"block": [512, 1024, 2048], "num_warps": [4, 8]}

# Elements that share a scale.
GROUP = 32


@triton.jit
def _decode_kernel(w_ptr, scale_ptr, out_ptr, total, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    byte = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = byte < total
    codes = tl.load(w_ptr + byte, mask=mask, other=0).to(tl.int32)
    exponent = tl.load(scale_ptr + byte // (GROUP // 2), mask=mask, other=0).to(tl.int32)
    scale = tl.where(exponent == 0, 0x400000, exponent << 23).to(tl.float32, bitcast=True)
    pair = tl.join(codes & 15, codes >> 4)
    # Sign, exponent and mantissa at the places of a float32's: the value times 2^-126.
    bits = ((pair & 7) << 22) | ((pair & 8) << 28)
    values = bits.to(tl.float32, bitcast=True) * 8.507059173023462e37 * scale[:, None]
    at = byte[:, None] * 2 + tl.arange(0, 2)[None, :]
    tl.store(out_ptr + at, values.to(out_ptr.dtype.element_ty), mask=mask[:, None])


def kernel_function(
    a: torch.Tensor,
    packed: torch.Tensor,
    scales: torch.Tensor,
    block: int = 1024,
    num_warps: int = 4,
) -> torch.Tensor:
    """Return A @ W^T [M, N] in the dtype of `a` [M, K], which may have any strides.

    `packed` is uint8 [N, K / 2], two E2M1 codes to a byte, the earlier one in the low half;
    `scales` uint8 [N, K / 32], biased exponents.
    """
    (_m, k), n = a.shape, packed.shape[0]
    if k % GROUP or packed.shape != (n, k // 2) or scales.shape != (n, k // GROUP):
        raise ValueError(
            f"a {list(a.shape)}, packed {list(packed.shape)} and scales {list(scales.shape)} "
            "do not fit together"
        )
    weights = torch.empty((n, k), dtype=a.dtype, device=a.device)
    if packed.numel():
        _decode_kernel[(triton.cdiv(packed.numel(), block),)](
            packed.contiguous(), scales.contiguous(), weights, packed.numel(),
            GROUP=GROUP, BLOCK=block, num_warps=num_warps,
        )  # fmt: skip
    return a @ weights.T


def reference(a: torch.Tensor, packed: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    codes = torch.stack((packed & 15, packed >> 4), dim=-1).flatten(-2)
    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=a.device)
    signs = 1.0 - 2.0 * (codes >> 3).float()
    weights = values[(codes & 7).long()] * signs
    weights = torch.ldexp(weights.unflatten(-1, (-1, GROUP)), scales.int().unsqueeze(-1) - 127)
    return a @ weights.flatten(-2).to(a.dtype).T


def make_inputs(size: list[int], dtype: torch.dtype, device: str, seed: int) -> list[torch.Tensor]:
    """`size` is [M, N, K]; scales lie between 2^-8 and 2^-3."""
    m, n, k = size
    generator = torch.Generator(device=device).manual_seed(seed)
    a = torch.randn((m, k), dtype=dtype, device=device, generator=generator)
    packed, scales = (
        torch.randint(low, high, shape, dtype=torch.uint8, device=device, generator=generator)
        for low, high, shape in ((0, 256, (n, k // 2)), (119, 125, (n, k // GROUP)))
    )
    return [a, packed, scales]
