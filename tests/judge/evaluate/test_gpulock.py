"""Evaluations never overlap on one card, and a waiting one says who holds it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from judge.evaluate.gpulock import GpuBusyError, lock_folder, locked
from judge.progress import Progress, Step

HOLD = """
import sys, time
from pathlib import Path
from judge.evaluate.gpulock import locked
with locked(sys.argv[1], folder=Path(sys.argv[2])):
    print("held", flush=True)
    sys.stdin.readline()
"""
WAIT = """
import sys
from pathlib import Path
from judge.evaluate.gpulock import locked
with locked(sys.argv[1], folder=Path(sys.argv[2]), say=lambda _: print("waiting", flush=True)):
    print("held", flush=True)
    sys.stdin.readline()
"""
CARD = "GPU-8f3b0a9e-1"


@contextmanager
def held_elsewhere(folder: Path, card: str = CARD) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the card until its standard input ends."""
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, card, str(folder)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_held_card_is_refused_naming_the_holder_and_free_once_it_dies(tmp_path: Path) -> None:
    with held_elsewhere(tmp_path) as child:
        said: list[Progress] = []
        with (
            pytest.raises(GpuBusyError, match=f"process {child.pid} "),
            locked(CARD, folder=tmp_path, timeout=0.3, say=said.append),
        ):
            pytest.fail("two evaluations hold one card")
        assert len(said) == 1
        assert re.fullmatch(
            rf"waiting for GPU {CARD}, held by process {child.pid} \(for \d+ s\)", said[0].text
        )
        assert said[0].step is Step.WAIT
        with locked("GPU-another", folder=tmp_path, timeout=0):
            pass
        # Killed, not ended: the note of its pid stays behind, the lock does not.
        child.send_signal(signal.SIGKILL)
        child.wait()
        with locked(CARD, folder=tmp_path, timeout=5):
            pass


def test_the_lock_is_free_again_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(CARD, folder=tmp_path):
        raise ZeroDivisionError
    with locked(CARD, folder=tmp_path, timeout=0):
        pass


def test_one_process_cannot_take_a_card_twice(tmp_path: Path) -> None:
    with (
        locked(CARD, folder=tmp_path),
        pytest.raises(GpuBusyError, match=f"process {os.getpid()} "),
        locked(CARD, folder=tmp_path, timeout=0),
    ):
        pytest.fail("taken twice")
    # The one who failed to get it did not take the holder's note with it.
    with locked(CARD, folder=tmp_path, timeout=0):
        assert (tmp_path / f"{CARD}.holder.json").exists()


def test_a_card_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "locks"
    with locked("../../outside", folder=inside):
        assert {path.parent for path in tmp_path.rglob("*.lock")} == {inside}


def test_the_locks_are_in_the_users_runtime_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert lock_folder() == tmp_path / "kernel-kb" / "gpus"
    with locked(CARD, timeout=0):
        assert (lock_folder() / f"{CARD}.lock").exists()


def test_who_asks_again_at_once_stands_behind_who_waits(tmp_path: Path) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-c", WAIT, CARD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert waiting.stdout is not None
    try:
        with locked(CARD, folder=tmp_path):
            assert waiting.stdout.readline() == "waiting\n"
        # It looks four times a second; this asks at once, and would win without a turn.
        with (
            pytest.raises(GpuBusyError),
            locked(CARD, folder=tmp_path, timeout=0),
        ):
            pytest.fail("overtaken")
        assert waiting.stdout.readline() == "held\n"
    finally:
        waiting.kill()
        waiting.communicate()
