"""No regular expression takes a time that grows faster than the text it is matched with.

Every use of `re` in the packages is found in their source and tried. One that is not linear must be
listed here, with what bounds the text or makes it trusted; patterns of a corpus are RE2's.
"""

from pathlib import Path

import pytest
from pumping import Use, growth, uses

ROOT = Path(__file__).resolve().parents[1]
NAMES = ("kb", "ingest", "server", "judge", "agent", "cli")
MOST_FOR_TWICE = 3.0

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
    ("cudart.py", "_loaded"): "lines of this process's own /proc/self/maps",
}
USES = [use for package in NAMES for use in uses(ROOT, package)]
assert len(USES) > 50


@pytest.mark.parametrize("use", USES, ids=lambda use: f"{use.path}:{use.name}")
def test_an_expression_is_linear_or_what_it_meets_is_bounded(use: Use) -> None:
    if use.place in BOUNDED:
        return
    assert use.source is not None, "made at run time: say in BOUNDED what it is made of"
    times, unit = growth(use)
    assert times <= MOST_FOR_TWICE, f"twice the text takes {times:.1f} times as long: {unit!r}"


def test_the_list_names_nothing_that_is_gone() -> None:
    assert BOUNDED.keys() <= {use.place for use in USES}


def test_the_search_finds_what_is_not_linear() -> None:
    slow = Use("x.py", "_X", r"__global__[^;{]*?\b(\w+)\s*\(", 0, {"search"})
    assert growth(slow)[0] > MOST_FOR_TWICE
    slow = Use("x.py", "_X", rb"/\*[\s\S]*?\*/|a", 0, {"finditer"})
    assert growth(slow)[0] > MOST_FOR_TWICE
