"""Markdown becomes pieces by heading, with true lines."""

from pathlib import PurePosixPath

import pytest

from ingest.chunkers import Piece, chunk_file
from ingest.chunkers.limits import MAX_CHARS, PROSE_CHARS


def chunk(text: str) -> list[Piece]:
    return chunk_file(PurePosixPath("a.md"), text)


def test_each_section_is_a_piece_with_its_heading_path() -> None:
    text = "# A\n\nintro\n\n## B\ntext\n\n### C\ndeep\n\n## D\nlast\n"
    assert [(p.heading, p.start_line, p.end_line) for p in chunk(text)] == [
        ("A", 1, 3),
        ("A > B", 5, 6),
        ("A > B > C", 8, 9),
        ("A > D", 11, 12),
    ]


def test_a_heading_without_text_goes_with_the_section_below() -> None:
    (piece,) = chunk("# A\n\n## B\n\ntext\n")
    assert piece.heading == "A > B"
    assert piece.start_line == 1


def test_text_before_the_first_heading_has_none() -> None:
    assert [piece.heading for piece in chunk("preface\n\n# A\ntext\n")] == [None, "A"]


def test_front_matter_is_left_to_the_caller() -> None:
    (piece,) = chunk("---\nslug: a\n# not a heading\n---\n# A\ntext\n")
    assert (piece.text, piece.start_line) == ("# A\ntext", 5)


def test_a_rule_that_closes_nothing_is_body() -> None:
    assert chunk("---\ntext\n")[0].start_line == 1


@pytest.mark.parametrize(
    ("opening", "closing"), [("```", "```"), ("````py", "````"), ("~~~", "~~~"), ("  ```", "```")]
)
def test_hashes_inside_code_are_no_headings(opening: str, closing: str) -> None:
    (piece,) = chunk(f"# A\n\n{opening}\n# comment\n\n## also\n{closing}\n\nafter\n")
    assert piece.heading == "A"


def test_a_longer_fence_may_hold_a_shorter_one() -> None:
    first, second = chunk("# A\n\n````md\n```\n# inner\n```\n````\n\n# B\ntext\n")
    assert (first.heading, second.heading) == ("A", "B")


def test_setext_headings_and_closing_hashes_are_understood() -> None:
    text = "Title\n=====\n\ntext\n\nPart\n----\n\nmore\n\n## Sub ##\n\nC# text\n\n# C#\nlast\n"
    assert [piece.heading for piece in chunk(text)] == [
        "Title",
        "Title > Part",
        "Title > Sub",
        "C#",
    ]


def test_a_long_section_is_cut_between_paragraphs() -> None:
    paragraph = "Some words about tiles and caches. " * 12
    text = "# A\n\n" + "\n\n".join(f"{n} {paragraph}" for n in range(12)) + "\n"
    pieces = chunk(text)
    assert len(pieces) > 2
    assert {piece.heading for piece in pieces} == {"A"}
    assert all(len(piece.text) <= PROSE_CHARS for piece in pieces)
    assert all(piece.text[0].isdigit() for piece in pieces[1:])


def test_code_stays_whole_where_it_fits() -> None:
    code = "```cuda\n" + "".join(f"line{n};\n\n" for n in range(250)) + "```"
    assert PROSE_CHARS < len(code) < MAX_CHARS
    text = "# A\n\nwords\n\n" + code + "\n\nwords\n"
    assert code in [piece.text for piece in chunk(text)]


def test_code_beyond_the_cap_is_cut() -> None:
    code = "```\n" + "".join(f"line{n};\n" for n in range(2_000)) + "```"
    pieces = chunk("# A\n\n" + code + "\n")
    assert all(len(piece.text) <= MAX_CHARS for piece in pieces)
    assert "".join(piece.text for piece in pieces).count(";") == 2_000
