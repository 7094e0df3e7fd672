"""Memory that the judge lends: fixed in size, refilled with other contents, compared by bits."""

import os

import pytest
import torch

from judge.evaluate.buffers import Exporter, copy, pristine, refill, unchanged
from judge.worker.messages import ITEM_BYTES, TensorSpec
from kb.errors import InvalidInputError, KbError


def spec(*shape: int, dtype: str = "float32") -> TensorSpec:
    return TensorSpec(shape=shape, dtype=dtype)


@pytest.mark.parametrize("dtype", sorted(ITEM_BYTES))
def test_every_dtype_is_carried_and_refilled_with_something_else(dtype: str) -> None:
    with Exporter("cpu") as exporter:
        lent = exporter.allocate("x", spec(4, 6, dtype=dtype))
        assert lent.tensor.dtype == getattr(torch, dtype)
        assert lent.flat.numel() == lent.buffer.nbytes == 24 * ITEM_BYTES[dtype]
        if dtype == "bool":
            lent.tensor.copy_(torch.arange(24).view(4, 6) % 3 == 0)
        else:  # bytes that are small numbers in every format
            lent.flat.copy_(torch.arange(lent.flat.numel(), dtype=torch.uint8) % 48 + 8)
        kept = pristine(lent)
        assert unchanged(lent, kept)
        refill(lent, seed=1)
        assert not unchanged(lent, kept)
        copy(kept, lent)
        assert unchanged(lent, kept)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("contents", [0.0, 1.0, -300.0, float("inf"), float("nan")])
def test_noise_is_finite_zero_mean_and_as_large_as_what_was_there(
    dtype: torch.dtype, contents: float
) -> None:
    with Exporter("cpu") as exporter:
        name = str(dtype).removeprefix("torch.")
        lent = exporter.allocate("x", spec(4096, dtype=name))
        lent.tensor.fill_(contents)
        refill(lent, seed=2)
        values = lent.tensor.double()
        scale = 300.0 if contents == -300.0 else 1.0
        assert values.isfinite().all()
        assert 0.9 * scale < values.std() < 1.1 * scale
        assert abs(values.mean()) < 0.1 * scale
        first = pristine(lent)
        refill(lent, seed=3)
        assert not unchanged(lent, first)


def test_indices_stay_in_range_and_constant_ones_become_zero() -> None:
    with Exporter("cpu") as exporter:
        lent = exporter.allocate("x", spec(5, dtype="int64"))
        lent.tensor.copy_(torch.tensor([7, 3, 3, 0, 1]))
        refill(lent, seed=1)
        assert lent.tensor.tolist() == [1, 0, 3, 3, 7]
        lent.tensor.fill_(4)
        refill(lent, seed=1)
        assert lent.tensor.tolist() == [0] * 5


def test_a_bit_is_enough_to_be_changed() -> None:
    with Exporter("cpu") as exporter:
        lent = exporter.allocate("x", spec(3))
        lent.tensor.copy_(torch.tensor([0.0, float("nan"), 1.0]))
        kept = pristine(lent)
        assert unchanged(lent, kept)  # NaN has not changed though it is unequal to itself
        lent.tensor[0] = -0.0
        assert not unchanged(lent, kept)


def test_nobody_can_change_the_size_under_the_judge() -> None:
    with Exporter("cpu") as exporter:
        lent = exporter.allocate("x", spec(1024))
        assert lent.descriptor is not None
        for size in (0, 1 << 20):
            with pytest.raises(PermissionError):
                os.ftruncate(lent.descriptor, size)


def test_empty_and_scalar_buffers() -> None:
    with Exporter("cpu") as exporter:
        empty = exporter.allocate("empty", spec(0, 3))
        scalar = exporter.allocate("scalar", spec())
        scalar.tensor.fill_(2.5)
        for each in (empty, scalar):
            kept = pristine(each)
            assert each.tensor.shape == tuple(each.buffer.shape)
            refill(each, seed=1)
            assert unchanged(each, kept) is (each is empty)


def test_names_are_unique_and_can_be_used_again_once_freed() -> None:
    with Exporter("cpu") as exporter:
        lent = exporter.allocate("x", spec(2))
        with pytest.raises(InvalidInputError, match="already allocated"):
            exporter.allocate("x", spec(2))
        exporter.free(["x", "unknown"])
        assert lent.descriptor is not None
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(lent.descriptor)
        exporter.allocate("x", spec(3))


def test_what_cannot_be_allocated_is_an_error_and_takes_no_name() -> None:
    with Exporter("cpu") as exporter:
        with pytest.raises(KbError, match="no shared memory of"):
            exporter.allocate("x", spec(1 << 47, 1 << 20, dtype="uint8"))
        exporter.allocate("x", spec(1))


def test_only_the_same_shape_and_dtype_are_copied() -> None:
    with Exporter("cpu") as exporter:
        lent = exporter.allocate("x", spec(2, 2))
        with pytest.raises(InvalidInputError, match=r"not torch\.float32"):
            copy(torch.zeros(4), lent)
        with pytest.raises(InvalidInputError):
            copy(torch.zeros(2, 2, dtype=torch.float64), lent)
