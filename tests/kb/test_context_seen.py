"""What a pasted kernel's own text shows comes first in its context, in a share of the budget."""

from pathlib import Path

import pytest

from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.search.engine import Searcher
from kb.search.opening import open_searcher

ATOMIC = """\
__global__ void accumulate(const float* x, const int* owner, float* y, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    for (int c = 0; c < columns; ++c) {
        atomicAdd(&y[owner[row]], x[row * columns + c]);
    }
}
"""
MODULE = """\
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=1)

def get_inputs():
    return [torch.randn(1024, 4096)]

def get_init_inputs():
    return []
"""
SEEN = "Seen in the kernel's source, which was not run:\n- Line 5: "


@pytest.fixture(scope="module")
def searcher(shipped_index: Path) -> Searcher:
    return open_searcher(shipped_index)


def test_remarks_come_first_and_bring_the_technique_that_answers_them(searcher: Searcher) -> None:
    found = build_context(ContextRequest(kernel=ATOMIC, max_tokens=2000), searcher)
    assert SEEN in found.text.partition("---")[0]
    assert "an atomic on global memory in a loop" in found.text
    slugs = [each.slug for each in found.techniques]
    assert {"atomics-privatization", "coalesced-access"} <= set(slugs)
    (reason,) = (each.reason for each in found.techniques if each.slug == "atomics-privatization")
    assert "the kernel's text shows it" in reason


def test_beside_a_problem_they_follow_its_facts(searcher: Searcher) -> None:
    found = build_context(
        ContextRequest(problem=MODULE, kernel=ATOMIC, gpu="H200", max_tokens=3000), searcher
    )
    first, _, rest = found.text.partition(SEEN)
    assert first.startswith("Problem Model: softmax")
    assert rest


def test_they_take_a_share_of_a_small_budget(searcher: Searcher) -> None:
    small = build_context(ContextRequest(kernel=ATOMIC, max_tokens=150), searcher)
    assert small.tokens <= 150
    assert "Seen in" not in small.text
    assert build_context(ContextRequest(query="softmax of rows"), searcher).text.find(SEEN) < 0


def test_where_nothing_answers_them_they_are_told_all_the_same(searcher: Searcher) -> None:
    kernel = (
        "import triton\nimport triton.language as tl\n\n@triton.jit\n"
        "def zzz(q, n, L: tl.constexpr):\n"
    )
    kernel += "    tl.store(q + tl.arange(0, L), 0)\n"
    found = build_context(ContextRequest(kernel=kernel, max_tokens=1000), searcher)
    assert "Line 6: `tl.store` has no mask" in found.text
