"""What a worker says of an exception: whether a compiler refused the program."""

import subprocess

import pytest

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
