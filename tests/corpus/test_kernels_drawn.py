"""Every Triton kernel equals PyTorch when interpreted at sizes nobody chose, with no elements, one,
and odd numbers of them, and on inputs with gaps or exchanged dimensions.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kb.corpus.loader import load_shipped_corpus

KERNELS = [
    kernel.entry.slug
    for kernel in load_shipped_corpus().kernels
    if kernel.entry.language == "triton" and kernel.entry.interpretable
]
# Some 20 s of processor time, on a busy machine minutes.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def outcomes(interpreted: Callable[..., str]) -> dict[str, dict[str, str | None]]:
    """One interpreting process runs all kernels."""
    script = Path(__file__).with_name("drawn_kernel_cases.py")
    found: dict[str, dict[str, str | None]] = json.loads(interpreted(script))
    return found


@pytest.mark.parametrize("slug", KERNELS)
def test_a_kernel_equals_pytorch_at_drawn_sizes_and_layouts(
    outcomes: dict[str, dict[str, str | None]], slug: str
) -> None:
    wrong = {case: problem for case, problem in outcomes[slug].items() if problem}
    assert wrong == {}
    # Of each layout at least one was taken.
    assert {case.rsplit(" ", 1)[-1] for case in outcomes[slug]} == {"whole", "gap", "turned"}


def test_draws_come_upon_no_elements_upon_one_and_upon_neighbours(
    outcomes: dict[str, dict[str, str | None]],
) -> None:
    sizes = [json.loads(case.rsplit(" ", 2)[0]) for each in outcomes.values() for case in each]
    for extent in (0, 1, 3):
        assert sum(extent in size for size in sizes) >= 25
