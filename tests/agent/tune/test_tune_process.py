"""The process that tunes, as its parent sees it."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.tune.process import TuneProcess
from agent.tune.request import Request
from kb.errors import KbError

# Starts what stands for a tuning process in the middle of its work, and tells its id.
_PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, text=True)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(60)
"""
_CHILD = """
import time
from agent.tune.__main__ import end_with_parent
end_with_parent()
print("works", flush=True)
time.sleep(60)
"""


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_tuning_ends_with_the_run_that_was_killed() -> None:
    command = [sys.executable, "-c", _PARENT, _CHILD]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    assert _runs(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(100):
        if not _runs(child):
            return
        time.sleep(0.1)
    pytest.fail("it outlives its parent, and would hold the card")


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise SystemExit('the driver is gone')", "tuning failed: the driver is gone"),
        ("sys.exit(3)", "tuning failed: status 3"),
        ('print(\'{"error": "the card is busy"}\')', "tuning failed: the card is busy"),
        ("print('no JSON')", "tuning failed: status 0"),
    ],
)
def test_why_a_tuning_process_failed_is_told_in_one_line(body: str, told: str) -> None:
    command = (sys.executable, "-c", f"import sys; sys.stdin.read(); {body}")
    process = TuneProcess(command)
    request = Request(problem="", kernel="", device="cpu")
    with pytest.raises(KbError) as raised:
        process.run(request, lambda _: None)
    assert str(raised.value) == told
    process.close()
