"""Python and Triton become pieces by function; kernels stay with their launch code."""

from pathlib import PurePosixPath

import pytest

from ingest.chunkers import Piece, chunk_file
from ingest.chunkers.limits import CLASS_CHARS, MAX_CHARS


def chunk(text: str) -> list[Piece]:
    return chunk_file(PurePosixPath("a.py"), text)


def named(pieces: list[Piece], symbol: str) -> Piece:
    (piece,) = [piece for piece in pieces if piece.symbol == symbol]
    return piece


IMPORTS = "import triton\nimport triton.language as tl\n\n\n"
KERNEL = '''\
# Tuned for large rows.
@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def add_kernel(x_ptr, n, BLOCK: tl.constexpr):
    """Add one.

    More words.
    """
    pid = tl.program_id(0)
'''
LAUNCHER = """\
def add(x):
    grid = lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)
    add_kernel[grid](x, x.numel())
    return x
"""


def test_a_kernel_and_the_launcher_right_below_it_are_one_piece() -> None:
    piece = named(chunk(IMPORTS + KERNEL + "\n\n" + LAUNCHER), "add_kernel")
    assert piece.text == KERNEL + "\n\n" + LAUNCHER.rstrip("\n")
    assert piece.language == "triton"
    assert piece.is_kernel
    assert piece.calls == ("add_kernel",)
    assert piece.signature == "def add_kernel(x_ptr, n, BLOCK: tl.constexpr)"


def test_a_launcher_further_away_names_its_kernel() -> None:
    text = IMPORTS + KERNEL + "\n\nCONSTANT = 3\n\n\n" + LAUNCHER
    pieces = chunk(text)
    assert named(pieces, "add_kernel").calls == ()
    launcher = named(pieces, "add")
    assert launcher.calls == ("add_kernel",)
    assert launcher.language == "triton"
    assert not launcher.is_kernel


def test_a_kernel_too_long_for_its_launcher_stays_alone() -> None:
    body = "".join(f"    a{n} = tl.load(x_ptr + {n})\n" for n in range(185))
    text = IMPORTS + KERNEL + body + "\n\n" + LAUNCHER
    assert len(KERNEL + body) < MAX_CHARS < len(KERNEL + body + LAUNCHER)
    pieces = chunk(text)
    assert named(pieces, "add_kernel").text == (KERNEL + body).rstrip("\n")
    assert named(pieces, "add").calls == ("add_kernel",)


@pytest.mark.parametrize("decorator", ["@triton.jit", "@jit", "@triton.jit(debug=True)"])
def test_every_way_to_write_the_decorator_makes_a_kernel(decorator: str) -> None:
    text = f"from triton import jit\n\n{decorator}\ndef k(x):\n    pass\n"
    assert named(chunk(text), "k").is_kernel


def test_another_jit_without_triton_makes_no_kernel() -> None:
    piece = named(chunk("from numba import jit\n\n@jit\ndef k(x):\n    pass\n"), "k")
    assert not piece.is_kernel
    assert piece.language == "python"


def test_an_imported_kernel_counts_as_launched() -> None:
    text = "import triton\nfrom k import scale_kernel\n\ndef run(x):\n    scale_kernel[(1,)](x)\n"
    assert named(chunk(text), "run").calls == ("scale_kernel",)


def test_imports_and_constants_become_pieces_without_symbol() -> None:
    first, second = chunk("import os\n\nN = 3\n\n\ndef f():\n    return N\n")
    assert (first.symbol, first.text, first.language) == (None, "import os\n\nN = 3", "python")
    assert (second.symbol, second.start_line, second.end_line) == ("f", 6, 7)


def test_a_small_class_stays_whole_and_a_large_one_becomes_its_methods() -> None:
    small = "class S:\n    def a(self):\n        return 1\n"
    body = "        value = value * 2  # above the size of an accessor\n" * 8
    large = 'class L(S):\n    """Large."""\n\n    field = 1\n\n'
    large += "".join(f"    def method{n}(self, value):\n{body}\n" for n in range(6))
    assert len(large) > CLASS_CHARS
    pieces = chunk(small + "\n\n" + large)
    assert named(pieces, "S").text == small.rstrip("\n")
    assert all(named(pieces, f"L.method{n}").signature for n in range(6))
    head = named(pieces, "L")
    assert "field = 1" in head.text


def test_functions_under_a_condition_are_found() -> None:
    text = (
        "try:\n    import x\nexcept ImportError:\n    pass\n\nif x:\n    def f():\n        pass\n"
    )
    assert named(chunk(text), "f").text == "    def f():\n        pass"


def test_an_over_long_function_is_cut_between_outer_statements() -> None:
    block = "    if x == {n}:\n        y = g(\n            x,\n        )\n        z = y\n\n"
    text = "def f(x):\n" + "".join(block.format(n=n) for n in range(300))
    parts = chunk(text)
    assert len(parts) > 1
    assert {part.symbol for part in parts} == {"f"}
    assert all(len(part.text) <= MAX_CHARS for part in parts)
    assert all(part.text.startswith("    if x == ") for part in parts[1:])


def test_functions_around_a_syntax_error_are_found() -> None:
    text = "def a():\n    return 1\n\n\nx = = (3\n\n\ndef b():\n    return 2\n"
    pieces = chunk(text)
    assert named(pieces, "a").end_line == 2
    assert any("x = = (3" in piece.text for piece in pieces)


def test_a_licence_header_is_trivial_and_a_docstring_is_not() -> None:
    text = '# Copyright (c) 2026 X.\n# Licensed under the Y.\n"""What this module does."""\n'
    licence, rest = chunk(text)
    assert licence.is_trivial
    assert not rest.is_trivial
