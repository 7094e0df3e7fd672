"""The plain command on a folder: records, fresh evaluations, failures, second starts."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent.cards.local import share_of_cores
from benchmarks.optimize import plain
from tests.benchmarks.optimize.test_kernelbench import folder  # noqa: F401 (a fixture)

RUN = Path("tests/fixtures/runs/depthwise_conv2d-start")


class Kb:
    """Stands in for the command: one problem's run ends well, the other's does not."""

    def __init__(self, status: int = 0) -> None:
        self.asked: list[list[str]] = []
        self.status = status

    def __call__(self, arguments: list[str], root: Path, *_: Any) -> plain._Completed:
        self.asked.append(arguments)
        if arguments[0] == "evaluate":
            said = {"verdict": "wrong" if self.status else "correct", "cases": [{}] * 13}
            return plain._Completed(self.status, json.dumps(said), "")
        if "level2" in root.name:
            return plain._Completed(1, "", "kb: no GPU was found")
        shutil.copytree(RUN, root)
        return plain._Completed(0, "", "")


@pytest.mark.parametrize("status", [0, 3])
def test_kernels_are_evaluated_anew_and_failures_are_kept(
    status: int,
    folder: Path,  # noqa: F811 (the fixture)
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    kb = Kb(status)
    monkeypatch.setattr(plain, "_run", kb)
    out = tmp_path / "plain.json"
    options = [
        str(folder),
        "--out",
        str(out),
        "--only",
        "level1/9",
        "level2",
        "--devices",
        "cuda:1",
    ]
    assert plain.main(options) == 1
    records = json.loads(out.read_text())["records"]
    verdict = "wrong" if status else "correct"
    assert records["level1/9_a"]["evaluated"] == {
        "status": status, "verdict": verdict, "cases": 13,
    }  # fmt: skip
    assert records["level1/9_a"]["over"]["compile"]["ratio"] > 1
    assert records["level2/1_c"]["failed"] == "kb: no GPU was found"
    told = capsys.readouterr().out
    assert f"kernels evaluated anew: 1 {verdict}\n1 are left: start it again to go on\n" in told
    optimized = kb.asked[0]
    assert optimized[:2] == ["optimize", str(folder / "level1" / "9_a.py")]
    assert optimized[-4:] == ["--device", "cuda:1", "--max-seconds", "300"]
    # What has a record is not run again; what failed is.
    kb.asked.clear()
    plain.main(options)
    assert [each[1] for each in kb.asked] == [str(folder / "level2" / "1_c.py")]


def test_what_a_command_leaves_is_read_and_one_that_hangs_is_ended(tmp_path: Path) -> None:
    options = plain._options([str(tmp_path), "--out", str(tmp_path / "out.json")])
    place = plain.Slot("cuda:0", share_of_cores(0, 2))
    root = tmp_path / "runs" / "run"
    ran = plain._run(["optimize", str(tmp_path / "none.py")], root, 60.0, place, options)
    assert (ran.status, ran.out) == (1, "")
    assert ran.last_line.startswith("kb: no ") or "none.py" in ran.last_line
    hung = plain._run(["optimize"], root, 0.01, place, options)
    assert (hung.status, hung.last_line) == (124, "it had not ended after 0 s")


def test_a_run_that_was_begun_is_taken_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = Kb()
    monkeypatch.setattr(plain, "_run", kb)
    options = plain._options([str(tmp_path), "--out", str(tmp_path / "plain.json")])
    shutil.copytree(RUN, tmp_path / "plain-runs" / "a")
    monkeypatch.setattr(shutil, "copytree", lambda *_: None)
    plain.measure("a", tmp_path / "a.py", plain.Slot("cuda:0", frozenset()), options)
    assert kb.asked[0][:2] == ["optimize", "--resume"]


def test_a_folder_without_problems_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plain.main([str(tmp_path), "--out", str(tmp_path / "out.json")]) == 2
    assert capsys.readouterr().err == f"error: {tmp_path} has no problem files\n"
