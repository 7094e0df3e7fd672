"""Memory-bound kernels are right beyond their check sizes: shapes, kinds, special values."""

import json
from pathlib import Path

import pytest

# Some 50 s of processor time, on a busy machine several minutes.
pytestmark = pytest.mark.timeout(900)
# Group of cases → how many there are at least.
GROUPS = {
    "reductions": 31, "scans": 40, "variances": 9, "norms": 15, "normalisations": 21,
    "softmaxes": 27, "losses": 90, "similarities": 4, "selections": 61, "tables": 2,
    "activations": 52,
}  # fmt: skip


@pytest.fixture(scope="module")
def outcomes(interpreted):
    """One interpreting process runs all groups."""
    return json.loads(interpreted(Path(__file__).with_name("memory_kernel_cases.py")))


@pytest.mark.parametrize("group", GROUPS)
def test_memory_bound_kernels_equal_pytorch_in_cases_drawn_from_all_their_arguments(
    outcomes, group
):
    count, wrong = outcomes[group]
    assert wrong == []
    assert count >= GROUPS[group]
