"""What the replacements say of Triton and PyTorch is true of the installed versions."""

import importlib
from typing import Any

import pytest
import triton
import triton.language as tl

from kb.search.replacements import Replacement, all_replacements

NEWER = [
    each
    for each in all_replacements()
    if each.library in {"Triton", "PyTorch"} and "." in each.new and " " not in each.new
]


def found(name: str) -> Any:
    """What a dotted name stands for; `tl` is triton.language.

    Raises
    ------
    ImportError, AttributeError
        Nothing has this name.
    """
    parts = ("triton.language" + name[2:] if name.startswith("tl.") else name).split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise ImportError(name)


@pytest.mark.parametrize("each", NEWER, ids=lambda each: each.new)
def test_the_newer_name_exists(each: Replacement) -> None:
    name = each.new
    if name == "TensorDescriptor.from_tensor":
        name = f"triton.tools.tensor_descriptor.{name}"
    assert found(name) is not None


def test_block_pointers_do_what_the_note_says() -> None:
    notes = {each.old: each.note for each in all_replacements()}
    major, minor = (int(part) for part in triton.__version__.split(".")[:2])
    if (major, minor) < (3, 9):
        pytest.skip("block pointers are there until Triton 3.8")
    assert "raise NotImplementedError in 3.9" in notes["tl.make_block_ptr"]
    with pytest.raises(NotImplementedError):
        tl.make_block_ptr(*[None] * 6, _semantic=True)
    assert "no advance from 3.9 on" in notes["tl.advance"]
    assert not hasattr(tl, "advance")
