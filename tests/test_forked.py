"""Forked workers: one that dies fails the test it ran, and every other test runs."""

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

CONFTEST = """
import os, pytest

def pytest_addoption(parser):
    parser.addoption("--fast", action="store_true")

@pytest.fixture(scope="session", autouse=True)
def ends():
    yield
    # The third one that ran the file that kills two.
    assert os.environ["PYTEST_WORKER"] != "worker-3"
"""
DYING = """
import os, pytest, signal, time

def test_wrong(): assert [1] == [2]
def test_left(): os._exit(0)
def test_between(): pass
@pytest.mark.timeout(1)
def test_long(): time.sleep(60)
def test_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_last(): pass
"""


def test_what_dies_is_an_error_and_every_other_test_runs(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_dying.py").write_text(DYING)
    (tmp_path / "test_well.py").write_text("def test_well(tmp_path): pass\n")
    options = ("--workers=2", "--fast", "--junitxml=junit.xml")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "forked", *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    said = {
        case.attrib["name"]: "".join(each.attrib["message"] for each in case)
        for case in ElementTree.parse(tmp_path / "junit.xml").iter("testcase")
    }
    assert [said.pop(f"test_{name}") for name in ("well", "between", "last")] == [""] * 3
    for name, message in {
        "test_wrong": "[1] == [2]",
        "test_left": "ended with status 0",
        "test_long": "Timeout",
        "test_killed": "ended with status -9",
        "worker-3": "ended with status 1",
    }.items():
        assert message in said.pop(name)
    assert said == {}
