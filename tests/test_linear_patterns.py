"""No regular expression takes a time that grows faster than the text it is matched with.

Every use of `re` in the packages is found in their source and tried. One that is not linear must be
listed here, with what bounds the text or makes it trusted; patterns of a corpus are RE2's.
"""

from functools import cache
from pathlib import Path

import pytest
from pumping import MOST_FOR_TWICE, Use, growth, is_mismatched_by_old_python, uses

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("kb", "ingest", "server", "judge", "agent", "cli")

# What makes a place safe whose expression is not linear, or is not constant.
BOUNDED = {
    ("query.py", "_gpus"): "escaped names of the shipped table of GPUs",
    ("piece.py", "_SCOPE_LINE"): "lines of at most 200 characters",
    ("piece.py", "_SCOPE_COMMENT"): "lines of at most 200 characters",
    ("scan_cuda.py", "_LITERAL_END"): "possessive, and made of one quote each",
    ("scan_cuda.py", "cuda_findings"): "the judge's own process, whose time is limited",
    ("meanings.py", "_meaning"): "words of the shipped table of meanings",
    ("docstrings.py", "summary"): "names of a kernel's parameters, on 2,000 characters",
    ("store.py", "_ID"): "a fixed number of hexadecimal digits",
    ("cudart.py", "_loaded_runtimes"): "lines of this process's own /proc/self/maps",
}


@cache
def in_package(name: str) -> list[Use]:
    return list(uses(ROOT, name))


@pytest.mark.parametrize("package", NAMES)
def test_expressions_are_linear_or_what_they_meet_is_bounded(package: str) -> None:
    wrong = []
    for use in in_package(package):
        if use.place in BOUNDED:
            continue
        if use.source is None:
            wrong.append((*use.place, "made at run time: say in BOUNDED what it is made of"))
            continue
        times, unit = growth(use)
        if times > MOST_FOR_TWICE:
            wrong.append((*use.place, f"twice the text takes {times:.1f} times as long: {unit!r}"))
    assert wrong == []


@pytest.mark.parametrize("package", NAMES)
def test_every_supported_python_matches_the_expressions_alike(package: str) -> None:
    constant = [use for use in in_package(package) if use.source is not None]
    assert constant
    assert [use.place for use in constant if is_mismatched_by_old_python(use)] == []


def test_what_python_3_11_2_mismatched_is_found() -> None:
    body = rb"(?:[^{}\"#]++|\"(?:\\.|[^\"\\\n])*+\"?|/(?![/*]))*+"
    assert is_mismatched_by_old_python(Use("x.py", "_IN_BODY", body, 0, {"match"}))
    directive = Use("x.py", "_X", rb"(?:/\*.*?(?:\*/|\Z)|\\\r?\n|[^\n])*+", 0, {"match"})
    assert not is_mismatched_by_old_python(directive)


def test_the_list_names_nothing_that_is_gone() -> None:
    found = [use.place for package in NAMES for use in in_package(package)]
    assert len(found) > 50
    assert BOUNDED.keys() <= set(found)


def test_the_search_finds_what_is_not_linear() -> None:
    slow = Use("x.py", "_X", r"__global__[^;{]*?\b(\w+)\s*\(", 0, {"search"})
    assert growth(slow)[0] > MOST_FOR_TWICE
    slow = Use("x.py", "_X", rb"/\*[\s\S]*?\*/|a", 0, {"finditer"})
    assert growth(slow)[0] > MOST_FOR_TWICE
