"""What a worker says of an exception: whether a compiler refused the program."""

import json
import subprocess

import pytest
import torch

import cli
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


def test_a_full_card_is_told_without_its_list_of_processes() -> None:
    kept = (
        "CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 139.80 GiB "
        "of which 3.41 GiB is free."
    )
    full = torch.OutOfMemoryError(f"{kept} Process 1251 has 21.67 GiB memory in use. See the page")
    error = failure(1, full).error
    assert (error.type, error.message) == ("OutOfMemoryError", kept)
    told = f"{kept} stop other programs on this GPU, or choose another GPU with --device"
    assert json.loads(write_message(full))["error"] == told
    assert cli._failure(full) == told
