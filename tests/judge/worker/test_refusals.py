"""What a worker says of an exception: whether a compiler refused the program."""

import json
import subprocess

import pytest
import torch

from agent.optimize.judge_main import write_message
from judge.worker.channel import failure


class CompilationError(Exception):
    """Triton's has this name."""


class Hostile(Exception):
    @property
    def __cause__(self) -> BaseException:  # type: ignore[override]
        raise RuntimeError("nobody looks here")


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


BUILDING = subprocess.CalledProcessError(1, ["ninja"])


@pytest.mark.parametrize(
    ("error", "compiling"),
    [
        (SyntaxError("invalid"), True),
        (ModuleNotFoundError("no cutlass"), True),
        (CompilationError("at 3:4"), True),
        (caused(RuntimeError("Error building extension"), BUILDING), True),
        # What a message says decides nothing.
        (RuntimeError("nvcc: CompilationError: SyntaxError"), False),
        (ValueError("shape"), False),
        (Hostile(), False),
    ],
)
def test_a_refusal_is_told_by_what_was_raised_and_not_by_its_words(
    error: BaseException, *, compiling: bool
) -> None:
    assert failure(1, error).error.compiling is compiling


def test_a_ring_of_causes_ends() -> None:
    one, other = ValueError("a"), ValueError("b")
    one.__cause__, other.__cause__ = other, one
    assert not failure(1, one).error.compiling


def test_a_full_card_is_told_in_one_sentence_that_says_what_to_do() -> None:
    text = (
        "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
        "of which 3.41 GiB is free. Process 1251 has 21.67 GiB memory in use. See documentation"
    )
    error = failure(1, torch.OutOfMemoryError(text)).error
    assert error.type == "OutOfMemoryError"
    assert error.message == (
        "the card's memory is full: 4.00 GiB more were asked for; end what else uses it, or choose "
        "another --device"
    )
    line = json.loads(write_message(torch.OutOfMemoryError(text)))
    assert line["error"] == error.message
    assert "full; end" in failure(1, torch.OutOfMemoryError("")).error.message
