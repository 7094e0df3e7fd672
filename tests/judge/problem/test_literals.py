"""Sizes that a problem file writes as numbers can be varied as module-level integers can."""

from judge.problem.source import ProblemFile
from judge.problem.variants import propose, why_none

NUMBERS = """
import torch


class Model(torch.nn.Module):
    def __init__(self, features, width=4096):
        super().__init__()
        self.norm = torch.nn.LayerNorm(features)

    def forward(self, x, y):
        return self.norm(x + y).view(-1, 4096) ** 2


def get_inputs():
    return [torch.rand(8192, 4096), torch.rand(8192, 4096)]


def get_init_inputs():
    return [4096]
"""


def test_numbers_of_get_inputs_get_names_and_lines_stay_where_they_are():
    problem = ProblemFile.parse(NUMBERS)
    assert set(problem.constants) == {"SIZE_8192", "SIZE_4096"}
    assert why_none(problem) is None
    given, named = NUMBERS.splitlines(), problem.text.splitlines()
    changed = [(a, b) for a, b in zip(given, named, strict=False) if a != b]
    assert [line for _, line in changed] == [
        "        return self.norm(x + y).view(-1, SIZE_4096) ** 2",
        "    return [torch.rand(SIZE_8192, SIZE_4096), torch.rand(SIZE_8192, SIZE_4096)]",
        "    return [SIZE_4096]",
    ]


def test_shapes_of_such_a_file_are_varied_as_those_of_any():
    variants = propose(ProblemFile.parse(NUMBERS), 1, limit_elements=4096)
    assert variants
    assert all(value.constants["SIZE_4096"] < 4096 for value in variants[:1])


def test_a_file_with_sizes_of_its_own_and_one_without_sizes_stay_as_they_are():
    named = NUMBERS.replace("8192", "ROWS") + "ROWS = 8192\n"
    assert ProblemFile.parse(named).text == named
    none = NUMBERS.replace("torch.rand(8192, 4096)", "x").replace("[4096]", "[]")
    assert ProblemFile.parse(none).text == none


def test_a_name_that_is_taken_is_left_alone():
    taken = NUMBERS + "SIZE_4096 = 3\n"
    assert ProblemFile.parse(taken).text == taken
