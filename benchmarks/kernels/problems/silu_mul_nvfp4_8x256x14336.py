"""Gated SiLU and NVFP4 quantization in one, 8 x 256 x 14336.

The two halves of a row of 2 N are the gate and what it scales; silu(gate) * up is computed and
quantized in float32, without rounding between.

Blocks of 16 along the row share a scale. With amax a block's largest magnitude and g the tensor's
global scale:

    scale = E4M3(g * amax / 6)    to nearest even, at most 448
    code  = E2M1(v * g / scale)   to nearest even, at most 6; 0 where scale is 0

A code keeps its value's sign, also at zero. Two codes share a byte, the even element in the low
nibble. Products and quotients are float32, each rounded once, whatever dtype the model runs in
(in float64 the values are rounded to float32 before they are quantized).
An infinite value gives the largest scale and code, in a block whose other finite values are
quantized under that scale; NaN has no definition.
"""

import torch

BATCH = 8
ROWS = 256
N = 14336
BLOCK = 16

JUDGE = {
    "rule": "nvfp4",
    "fused": True,
    "layout": "linear",
    "global_scale": 1.0,
    "constants": {"N": {"multiple": 16}},
}

# Half-way between E2M1's magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6; a tie goes to the even code.
TIES_DOWN = (0.25, 1.25, 2.5, 5.0)
TIES_UP = (0.75, 1.75, 3.5)


def quantize(
    values: torch.Tensor, global_scale: float, layout: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantize the rows of `values` [..., N]; N a multiple of 16.

    Returns the codes, uint8 [..., N / 2], and the scales, float8_e4m3fn: [..., N / 16] in the
    linear layout; in the swizzled one [rows up to a multiple of 128, blocks up to a multiple of
    4], whose bytes are tiles of 128 x 4 (see `swizzle`) and zero where there is no block.
    """
    # Divided by a tensor: on a GPU PyTorch turns division by a number into a multiplication by
    # its rounded reciprocal, which is off by one unit at times. `full` fills on the device, which
    # a CUDA graph can capture; `torch.tensor` would copy from the host.
    six = torch.full((), 6.0, dtype=torch.float32, device=values.device)
    factor = torch.full((), global_scale, dtype=torch.float32, device=values.device)
    blocks = values.float().unflatten(-1, (-1, BLOCK))
    amax = blocks.abs().amax(dim=-1)
    # Clamped first: PyTorch's conversion does not saturate.
    scales = (factor * amax / six).clamp(max=448.0).to(torch.float8_e4m3fn)
    step = scales.float().unsqueeze(-1)
    usable = step > 0
    quotient = blocks * factor / torch.where(usable, step, six)
    magnitude = quotient.abs()
    codes = torch.signbit(quotient).to(torch.uint8) * 8
    for tie in TIES_DOWN:
        codes += magnitude > tie
    for tie in TIES_UP:
        codes += magnitude >= tie
    codes = torch.where(usable, codes, torch.zeros_like(codes)).flatten(-2)
    packed = codes[..., 0::2] | (codes[..., 1::2] << 4)
    return packed, swizzle(scales) if layout == "swizzled" else scales


def swizzle(scales: torch.Tensor) -> torch.Tensor:
    """Tiles of 128 rows x 4 blocks, 512 bytes each: row r and block c of a tile stand at byte
    16 * (r % 32) + 4 * (r // 32) + c. Tiles stand in row-major order.
    """
    table = scales.view(torch.uint8).flatten(0, -2)
    rows, blocks = table.shape
    padded = torch.nn.functional.pad(table, (0, -blocks % 4, 0, -rows % 128))
    tiles = padded.unflatten(0, (-1, 4, 32)).unflatten(-1, (-1, 4)).permute(0, 3, 2, 1, 4)
    return tiles.reshape(padded.shape).contiguous().view(torch.float8_e4m3fn)


class Model(torch.nn.Module):
    def __init__(self, global_scale: float, layout: str) -> None:
        super().__init__()
        self.global_scale = global_scale
        self.layout = layout

    def values(self, x: torch.Tensor) -> torch.Tensor:
        """What is quantized: [batch, rows, N] from `x` [batch, rows, 2 N], float32 or float64."""
        wide = x if x.dtype == torch.float64 else x.float()
        gate, up = wide.chunk(2, dim=-1)
        return torch.nn.functional.silu(gate) * up

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return quantize(self.values(x), self.global_scale, self.layout)


def get_inputs() -> list[torch.Tensor]:
    return [torch.rand(BATCH, ROWS, 2 * N)]


def get_init_inputs() -> list[object]:
    return [JUDGE["global_scale"], JUDGE["layout"]]
