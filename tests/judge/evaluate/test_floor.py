"""The floor of a problem, against figures worked out by hand."""

import pytest
import torch

from judge.evaluate import floor as floors
from judge.evaluate.ceilings import measure
from judge.evaluate.contest import useful_share
from judge.evaluate.result import Ceilings
from judge.worker.messages import TensorSpec

CARD = Ceilings(
    read_bps=4.5e12,
    write_bps=4.4e12,
    copy_bps=4.27e12,
    matmul_flops={"bfloat16": 7.5e14, "tf32": 4e14, "float32": 5e13},
    measured_at="2026-01-01T00:00:00+00:00",
)


def spec(*shape: int, dtype: str = "bfloat16") -> TensorSpec:
    return TensorSpec(shape=shape, dtype=dtype)


@pytest.mark.parametrize(
    "inputs,parameters,outputs,milliseconds",
    [
        pytest.param(
            [spec(2048, 1048576), spec(1048576, 1)], [], [spec(2048, 1)], 1.006, id="matvec"
        ),
        pytest.param([spec(112, 64, 512, 512)], [], [spec(112, 64, 512, 512)], 1.76, id="rms"),
        pytest.param([spec(16, 32, 128, 128, 128)], [], [spec(16, 32, 62, 62, 62)], 0.56, id="max"),
        pytest.param(
            [spec(16, 32, 16, 32, 32)], [spec(32, 64, 3, 3, 3)], [spec(16, 64, 33, 65, 65)],
            0.071, id="transposed",
        ),
        pytest.param(
            [spec(16, 64, 512, 512)], [spec(64, 1, 3, 3)], [spec(16, 64, 510, 510)],
            0.25, id="depthwise",
        ),
    ],
)  # fmt: skip
def test_the_copy_floors_of_known_problems(inputs, parameters, outputs, milliseconds) -> None:
    work = floors.work(inputs, parameters, outputs, {})
    found = floors.copy_floor_ms(work, CARD)
    assert found == pytest.approx(milliseconds, rel=0.005)


def test_bytes_that_are_only_read_go_at_read_bandwidth() -> None:
    work = floors.Work(read_bytes=9 * 10**9, write_bytes=0)
    assert floors.memory_ms(work, CARD) == pytest.approx(2.0)


def test_bytes_that_are_only_written_go_at_write_bandwidth() -> None:
    work = floors.Work(read_bytes=0, write_bytes=44 * 10**8)
    assert floors.memory_ms(work, CARD) == pytest.approx(1.0)


def test_a_copy_goes_at_copy_bandwidth_and_what_is_left_over_at_its_own() -> None:
    copied = 427 * 10**7
    work = floors.Work(read_bytes=copied + 45 * 10**8, write_bytes=copied)
    assert floors.memory_ms(work, CARD) == pytest.approx(2.0 + 1.0)


def test_the_bound_is_the_larger_of_memory_and_compute() -> None:
    busy = floors.Work(read_bytes=1000, write_bytes=1000, flops={"bfloat16": 7.5e12})
    found = floors.floor(busy, CARD, "ieee")
    assert (found.bound, found.ms) == ("compute", pytest.approx(10.0))
    moving = floors.Work(read_bytes=45 * 10**9, write_bytes=0, flops={"bfloat16": 7.5e8})
    found = floors.floor(moving, CARD, "ieee")
    assert (found.bound, found.ms) == ("memory", pytest.approx(10.0))


TRIANGLES = """
import torch
N = 4096

class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.tril(torch.matmul(a, b))

def get_inputs():
    return [torch.tril(torch.rand(N, N)), torch.tril(torch.rand(N, N))]

def get_init_inputs():
    return []
"""


def test_what_triangles_make_needless_is_no_work() -> None:
    share = useful_share(TRIANGLES, "bfloat16")
    assert share == pytest.approx(1 / 6, rel=0.01)
    matrices = [spec(4096, 4096)] * 2
    dense = {"bfloat16": 2.0 * 4096**3}
    work = floors.work(matrices, [], matrices[:1], dense, useful_share=share)
    found = floors.floor(work, CARD, "ieee")
    assert found.flops == pytest.approx(2 * 4096**3 / 6, rel=0.01)
    assert found.ms == pytest.approx(0.0305, rel=0.02)
    assert any("83.3% of PyTorch's operations unnecessary" in note for note in found.notes)
    assert useful_share(TRIANGLES.replace("torch.tril", ""), "bfloat16") == 1.0
    assert useful_share("no problem", None) == 1.0


def test_float32_is_bound_by_the_rate_of_the_declared_precision() -> None:
    work = floors.Work(read_bytes=8, write_bytes=8, flops={"float32": 4e14})
    assert floors.floor(work, CARD, "tf32").ms == pytest.approx(1000)
    assert floors.floor(work, CARD, "ieee").ms == pytest.approx(8000)


def test_a_dtype_without_a_measured_rate_is_named_not_guessed() -> None:
    work = floors.Work(read_bytes=4270, write_bytes=4270, flops={"complex64": 1e15})
    found = floors.floor(work, CARD, "ieee")
    assert found.bound == "memory"
    assert any("complex64" in note for note in found.notes)


def test_a_time_below_the_floor_is_flagged_and_one_at_it_is_not() -> None:
    assert floors.flags(1.0, 1.0) == ()
    (flag,) = floors.flags(0.5, 1.0)
    assert flag.startswith("2.00 of the floor")


def zeros_of(layer, draws: int = 3, shape: tuple[int, ...] = (2, 3, 9, 9)) -> float | None:
    zeros = floors.StructuralZeros()
    generator = torch.Generator().manual_seed(0)
    for _ in range(draws):
        with torch.no_grad():
            zeros.add([layer(torch.randn(shape, generator=generator, dtype=torch.float64))])
    return zeros.fraction


def test_the_zeros_of_a_dilated_transposed_convolution_are_structural() -> None:
    # Stride 2 and dilation 2: taps and inputs meet at every second place of each dimension.
    layer = torch.nn.ConvTranspose3d(
        2, 3, 3, stride=2, padding=1, dilation=2, bias=False, dtype=torch.float64
    )
    found = zeros_of(layer, shape=(1, 2, 16, 8, 8))
    # Output 33 × 17 × 17; the 16, 8 and 8 odd places hold something.
    nonzero = (16 * 8 * 8) / (33 * 17 * 17)
    assert found == pytest.approx(1 - nonzero, abs=1e-9)


def test_zeros_of_the_values_are_not_structural() -> None:
    assert zeros_of(torch.relu) in (None, 0.0)


def test_a_dense_layer_has_no_structural_zeros() -> None:
    assert zeros_of(lambda x: x * 2 + 1) == 0.0


def test_one_draw_does_not_tell() -> None:
    assert zeros_of(torch.relu, draws=1) is None


def test_structural_zeros_are_told_with_what_they_mean() -> None:
    work = floors.Work(read_bytes=8, write_bytes=8, zero_fraction=1 - 1 / 8.5)
    notes = floors.floor(work, CARD, "ieee").notes
    assert any("one in 8.5" in note for note in notes)
    dense = floors.Work(read_bytes=8, write_bytes=8, zero_fraction=0.0)
    assert not any("zero" in note for note in floors.floor(dense, CARD, "ieee").notes)


def test_ceilings_are_measured_and_leave_the_precision_as_it_was() -> None:
    torch.set_float32_matmul_precision("high")
    try:
        found = measure("cpu", nbytes=1 << 20, sizes=(16, 32), repeats=3)
        assert torch.get_float32_matmul_precision() == "high"
    finally:
        torch.set_float32_matmul_precision("highest")
    assert min(found.read_bps, found.write_bps, found.copy_bps) > 0
    assert {"float32", "bfloat16", "float16"} <= set(found.matmul_flops)
    assert "tf32" not in found.matmul_flops
