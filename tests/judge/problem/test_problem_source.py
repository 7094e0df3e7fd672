"""Problem files, read by their syntax tree: what is required, the constants, what JUDGE says."""

import ast

import pytest

from judge.problem.source import ProblemFile
from judge.problem.syntax import MAX_FILE_BYTES, ProblemFileError

MINIMAL = """
class Model:
    pass
def get_inputs():
    return []
def get_init_inputs():
    return []
"""


def constants(text):
    return {name: each.value for name, each in ProblemFile.parse(text).constants.items()}


def problem(constants="", inputs="[]", init="[]", more=""):
    return (
        f"{constants}\nclass Model:\n    pass\ndef get_inputs():\n    return {inputs}\n"
        f"def get_init_inputs():\n    return {init}\n{more}"
    )


def test_reading_executes_nothing(tmp_path):
    path = tmp_path / "problem.py"
    path.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n" + MINIMAL)
    assert ProblemFile.read(path).name == str(path)
    assert not (tmp_path / "ran").exists()


def test_a_model_may_be_named_by_an_assignment():
    text = problem("N = 8", "[N, 64]", more="class Block:\n    pass\nModel = Block\n")
    assert constants(text.replace("class Model", "class Other")) == {"N": 8}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (", r"problem\.py:1: not Python"),
        ("x = 1\ny = = 2\n", r"problem\.py:2: not Python"),
        ("x = '\0'", r"problem\.py:1: not Python"),
        ("(" * 5000 + ")" * 5000, r"problem\.py:1: (nested too deeply|not Python)"),
        (MINIMAL.replace("Model", "Other"), r"problem\.py:1: no class Model"),
        (MINIMAL.replace("get_inputs", "inputs"), r"no function get_inputs"),
        (MINIMAL.replace("get_init_inputs", "init"), r"no function get_init_inputs"),
        (MINIMAL + "Model = 3\n", r"problem\.py:8: Model is not a class"),
        (MINIMAL + "JUDGE = dict()\n", r"problem\.py:8: JUDGE is not a literal dictionary"),
        (MINIMAL + "JUDGE = {'rule': 'mxfp4'}\n", r"problem\.py:8: JUDGE: rule: "),
        (MINIMAL + "JUDGE = {'rules': 1}\n", r"problem\.py:8: JUDGE: unknown key 'rules'"),
        (MINIMAL + "JUDGE = 3\n", r"problem\.py:8: JUDGE"),
        (MINIMAL + "JUDGE = {'constants': {'N': {'min': 9, 'max': 15, 'multiple': 16}}}\n",
         r"no multiple lies between min and max"),
        (MINIMAL + "JUDGE = {'constants': {'N': {'min': 2}}}\n",
         r"problem\.py:8: JUDGE has a rule for 'N', which is not .* those are: none"),
        (MINIMAL + "def JUDGE(): ...\n", r"problem\.py:8: JUDGE must be assigned"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(text, message):
    with pytest.raises(ProblemFileError, match=message):
        ProblemFile.parse(text)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ProblemFileError, match=r"cannot read .*absent\.py"):
        ProblemFile.read(tmp_path / "absent.py")
    (tmp_path / "latin.py").write_bytes(MINIMAL.encode() + b"# caf\xe9\n")
    with pytest.raises(ProblemFileError, match=r"latin\.py:8: not UTF-8"):
        ProblemFile.read(tmp_path / "latin.py")
    (tmp_path / "large.py").write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ProblemFileError, match=r"large\.py: larger than 1,000,000 bytes"):
        ProblemFile.read(tmp_path / "large.py")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path):
    (tmp_path / "p.py").write_bytes(b"\xef\xbb\xbf" + MINIMAL.encode())
    assert ProblemFile.read(tmp_path / "p.py").text == MINIMAL


@pytest.mark.parametrize(
    ("assigned", "inputs", "expected"),
    [
        ("N = 4", "[N]", {"N": 4}),
        ("N: int = 4", "[N]", {"N": 4}),
        ("N = 1024 * 2 ** 3 - 1", "[N]", {"N": 8191}),
        ("N, M = 4, 5", "[N, M]", {"N": 4, "M": 5}),
        ("N = M = 4", "[M]", {"M": 4}),
        ("N = 4\nM = 2 * N", "[M]", {"N": 4}),
        ("shape = (3, 4)", "[shape]", {"shape[0]": 3, "shape[1]": 4}),
        ("N = 4\nshape = (N, 8)", "[shape]", {"N": 4, "shape[1]": 8}),
        ("N = 4\nM = 5", "[N]", {"N": 4}),
        ("N = 4.0\nM = True\nK = 'x'", "[N, M, K]", {}),
        ("N = 4\nN = 5", "[N]", {}),
        ("N = 10 ** 10 ** 10", "[N]", {}),
        ("N = 4\ndef helper():\n    return N", "[helper()]", {"N": 4}),
        ("N = 4\nif N > 3:\n    M = 7", "[M]", {}),
    ],
)
def test_the_constants_are_the_integers_that_get_inputs_uses(assigned, inputs, expected):
    assert constants(problem(assigned, inputs)) == expected


def test_a_constant_that_the_model_uses_too_is_structural():
    text = problem("B, C, K = 16, 32, 3", "[B, C]", "[C, K]")
    found = ProblemFile.parse(text).constants
    assert {name: each.structural for name, each in found.items()} == {"B": False, "C": True}


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_replacing_constants_changes_their_expressions_and_nothing_else(ending):
    text = problem(
        "é = 'ü'; N = 4  # four\nM = (\n    2 *\n    3\n)\nK, L = 5, 6", "[N, M, K, L, 4]"
    ).replace("\n", ending)
    read = ProblemFile.parse(text)
    changed = read.with_constants({"N": 70, "M": 8, "L": -1})
    assert constants(changed) == {"N": 70, "M": 8, "K": 5, "L": -1}
    before, after = ast.parse(text), ast.parse(changed)
    lines = [node.lineno for node in before.body]
    assert [node.lineno for node in after.body] == lines
    assert ast.dump(before.body[-1]) == ast.dump(after.body[-1])
    assert "# four" in changed


def test_an_unknown_constant_is_refused_with_those_there_are():
    with pytest.raises(ProblemFileError, match=r"no module-level integer constant 'M'.*are: N"):
        ProblemFile.parse(problem("N = 4", "[N]")).with_constants({"M": 3})


def test_a_file_without_a_declaration_has_the_defaults():
    judge = ProblemFile.parse(MINIMAL).judge
    assert (judge.rule, judge.tolerance, dict(judge.constants)) == (None, None, {})


def test_a_declaration_is_read_as_a_literal():
    text = problem("N = 64", "[N]") + (
        "JUDGE = {'rule': 'nvfp4', 'fused': True, 'global_scale': 2.5, 'layout': 'swizzled',\n"
        "         'constants': {'N': {'multiple': 16, 'min': 32}}, \n"
        "         'tolerance': {'norm': 1e-3, 'worst': 1e-2}}\n"
    )
    judge = ProblemFile.parse(text).judge
    assert (judge.rule, judge.fused, judge.global_scale) == ("nvfp4", True, 2.5)
    assert judge.tolerance is not None
    assert [judge.constants["N"].nearest(n) for n in (1, 33, 63, 64)] == [32, 32, 48, 64]
