"""Long shapes: what is tried until a kernel takes one."""

from dataclasses import replace

import pytest

from judge.evaluate.enlarge import Enlargement, LoopCounts
from judge.problem.source import ProblemFile
from judge.problem.variants import Sizes
from judge.worker.messages import Called

PROBLEM = """
import torch

BATCH = 2
ROWS = 16
COLS = {cols}


class Model(torch.nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.rand(BATCH, ROWS, COLS{more})]


def get_init_inputs():
    return []
"""
LIMIT = 1 << 18


def problem(cols: int = 96, more: str = "") -> ProblemFile:
    return ProblemFile.parse(PROBLEM.format(cols=cols, more=more))


def tried(*, takes, accesses: int = 10, alone: bool = True, too_long: bool = False, cols: int = 96):
    """Shapes and kinds of values that are judged, of a kernel that takes what `takes` says."""
    programs = {"kernel, axis 0": 1 if alone else 2}
    last = Called(call=0, outputs=[], seconds=0.1, programs=programs, accesses=accesses)
    state = LoopCounts(last, accesses, {}, 0, too_long, 0)

    def progress() -> LoopCounts:
        return state

    found = []
    for shape in Enlargement(problem(cols), "", progress, given_shape_judged=False).shapes(
        secret=1
    ):
        found.append((dict(shape.constants), shape.cases[0].kind.value))
        taken = takes({"BATCH": 2, "ROWS": 16, "COLS": 96} | dict(shape.constants))
        state = replace(state, calls=state.calls + 1, judged=state.judged + taken)
    return found


def test_the_last_dimension_comes_first_and_large_values_after_others() -> None:
    found = tried(takes=lambda sizes: True)
    long = [(max(each, key=each.__getitem__), max(each.values()), kind) for each, kind in found]
    assert long == [
        ("COLS", 2253, "normal"), ("COLS", 2253, "large"), ("ROWS", 2253, "normal"),
    ]  # fmt: skip
    assert all(min(each.values()) <= 8 for each, _ in found)


def test_other_dimensions_are_long_only_while_an_axis_of_a_grid_had_one_program() -> None:
    assert {max(each.values()) for each, _ in tried(takes=lambda sizes: True)} == {2253}
    found = tried(takes=lambda sizes: True, alone=False)
    assert [max(each, key=each.__getitem__) for each, _ in found] == ["COLS", "COLS"]


def test_what_takes_whole_blocks_is_asked_for_those() -> None:
    found = tried(takes=lambda sizes: sizes["COLS"] % 256 == 0)
    columns = [each["COLS"] for each, _ in found if each.get("COLS", 0) > 96]
    assert columns[:4] == [2253, 2253, 2048, 2048]  # the last with large values


def test_what_needs_the_given_sizes_beside_gets_them() -> None:
    found = tried(takes=lambda sizes: sizes["ROWS"] == 16)
    assert found[1] == ({"COLS": 2253}, "normal")


def test_beside_a_long_given_size_a_longer_one_is_tried() -> None:
    found = tried(takes=lambda sizes: True, alone=False, cols=4096)
    assert [each["COLS"] for each, _ in found] == [9011, 9011]


def test_a_kernel_of_many_accesses_is_not_asked_for_more() -> None:
    assert tried(takes=lambda sizes: True, accesses=200) == []
    assert len(tried(takes=lambda sizes: False, too_long=True)) == 2  # one for each dimension


def test_a_length_keeps_the_limit_and_the_rules() -> None:
    assert Sizes(problem(), LIMIT).last_first == ["COLS", "ROWS"]
    beside = Sizes(problem(), LIMIT).lengthen("COLS", 9011, beside_given=True)
    assert beside is not None
    assert dict(beside.constants) == {"COLS": 4505}  # 9011 · 32 is above the limit
    as_long_already = Sizes(problem(cols=8000), LIMIT)
    assert as_long_already.lengthen("COLS", 2253, beside_given=False) is None
    ruled = PROBLEM.format(cols=96, more="") + "\nJUDGE = {'constants': {'COLS': {'max': 100}}}\n"
    sizes = Sizes(ProblemFile.parse(ruled), LIMIT)
    assert sizes.lengthen("COLS", 2253, beside_given=False) is None


@pytest.mark.parametrize("beside_given", [True, False])
def test_where_sizes_cannot_be_told_the_product_of_all_keeps_the_limit(beside_given) -> None:
    unknown = ProblemFile.parse(
        PROBLEM.format(cols=96, more="").replace(
            "torch.rand(BATCH, ROWS, COLS)", "made(BATCH, ROWS, COLS)"
        )
        + "\n\ndef made(*sizes):\n    return torch.rand(*sizes)\n"
    )
    found = Sizes(unknown, 1 << 13).lengthen("COLS", 9011, beside_given=beside_given)
    assert (found is None) == beside_given
    if found is not None:
        sizes = {"BATCH": 2, "ROWS": 16, "COLS": 96} | dict(found.constants)
        assert sizes["BATCH"] * sizes["ROWS"] * sizes["COLS"] <= 1 << 13
