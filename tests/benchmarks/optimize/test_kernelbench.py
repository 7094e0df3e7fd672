"""The command over a folder of KernelBench problems: which problems, and which figures."""

from pathlib import Path

import pytest

from benchmarks.optimize.kernelbench import problems, summary
from kb.errors import InvalidInputError

PROBLEM = "def get_inputs():\n    return []\n"


def record(name: str, *, ratio: float, proposer: str = "recipe", back: str | None = None):
    return {
        "name": name, "better": True, "given_back": back, "ended": "all rounds done", "dry": False,
        "ms": {"eager": 2.0, "compile": 1.0, "best": 1.0 / ratio}, "proposer": proposer,
        "over": {"compile": {"ratio": ratio, "low": ratio, "high": ratio, "significant": True}},
        "floor_fraction": 0.96, "wall_seconds": 60.0,
    }  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("level1/10_b", "level1/9_a", "level2/1_c"):
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PROBLEM)
    (tmp_path / "level1" / "helper.py").write_text("x = 1\n")
    return tmp_path


def test_problems_go_by_level_and_number(folder: Path) -> None:
    assert list(problems(folder)) == ["level1/9_a", "level1/10_b", "level2/1_c"]
    assert list(problems(folder, ["level2", "level1/9"])) == ["level2/1_c", "level1/9_a"]


def test_a_name_that_is_not_there_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no problem that begins with 'level7'"):
        problems(folder, ["level7"])
    with pytest.raises(InvalidInputError, match="no problem files"):
        problems(tmp_path / "level1" / "none")


def test_what_is_pytorch_s_counts_one(folder: Path) -> None:
    found = summary([
        record("level1/9_a", ratio=4.0),
        record("level1/10_b", ratio=0.5, back="compile"),
        {"name": "level2/1_c", "failed": "no start"},
    ])  # fmt: skip
    assert found["level1"]["geometric_mean_over_compile"] == pytest.approx(2.0)
    assert found["level1"]["faster_than_compile"] == 1
    assert found["level1"]["kernels_given_back"] == 1
    assert found["level2"]["failed"] == {"level2/1_c": "no start"}
    assert found["level2"]["geometric_mean_over_compile"] is None
