"""Every Triton kernel equals PyTorch when interpreted at sizes nobody chose, with no elements, one,
and odd numbers of them, and on inputs with gaps or exchanged dimensions.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kb.corpus.loader import load_corpus, shipped_corpus

ROOT = Path(__file__).parents[2]
KERNELS = [
    kernel.entry.slug
    for kernel in load_corpus(shipped_corpus()).kernels
    if kernel.entry.language == "triton" and kernel.entry.interpretable
]
# Some 20 s of processor time, on a busy machine minutes.
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, str | None]]:
    """One interpreting process runs all kernels."""
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("drawn_kernel_cases.py")],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, dict[str, str | None]] = json.loads(done.stdout)
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
