"""A run that is killed, interrupted or out of disk at any moment goes on as if nothing had been."""

import errno
import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from scripted import (
    Scripted,
    ScriptedJudge,
    Wandering,
    config,
    decisions,
    proposal,
    search,
    tree,
)

from agent.optimize import files, journal
from agent.optimize.candidate import digest_id
from agent.optimize.config import Limits, RunConfig
from agent.optimize.files import RunFolderError
from agent.optimize.run import RunFolder, read_run

CONFIG = config(Limits(rounds=4), patience=4, branching=1)


def run(root: Path, before: Callable[[str], None] = lambda _: None) -> list[tuple[object, ...]]:
    """Begin or continue the run in `root`, and its decisions."""
    if (root / "config.json").exists():
        folder = RunFolder.resume(root)
    else:
        folder = RunFolder.create(root, CONFIG)
    with folder:
        search(folder, ScriptedJudge(before=before), Wandering()).run()
        return decisions(folder)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    return run(tmp_path_factory.mktemp("undisturbed") / "run")


class Countdown:
    """Stands for `os.fsync`: at the n-th call something happens in its place."""

    def __init__(self, calls: int, then: Callable[[], None]) -> None:
        self.calls = calls
        self._then = then
        self._fsync = os.fsync

    def __call__(self, descriptor: int) -> None:
        self.calls -= 1
        if self.calls == 0:
            self._then()
        self._fsync(descriptor)


def in_child(work: Callable[[], object]) -> int:
    """Do it in a forked process; its exit status, or minus the signal that ended it."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_at(root: Path, number: int) -> int:
    """Run until the n-th time that something has to reach the disk, then SIGKILL."""

    def work() -> None:
        os.fsync = Countdown(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
        run(root)

    return in_child(work)


def test_a_run_that_is_killed_at_any_write_goes_on_to_the_same_decisions(
    tmp_path: Path, undisturbed: list[tuple[object, ...]]
) -> None:
    kills = 0
    # A stride that has no factor with the number of writes of a round.
    for number in range(1, 400, 11):
        root = tmp_path / f"run{number}"
        if killed_at(root, number) == 0:
            break
        kills += 1
        if (root / "config.json").exists():
            read_run(root)
        assert run(root) == undisturbed
        assert not list(root.rglob(".*.part"))
    assert kills > 8


def test_a_run_that_is_killed_again_and_again_comes_to_its_end(
    tmp_path: Path, undisturbed: list[tuple[object, ...]]
) -> None:
    root = tmp_path / "run"
    RunFolder.create(root, CONFIG).close()
    for kills in range(200):  # noqa: B007 (its last value is looked at)
        if killed_at(root, 12) == 0:
            break
    assert kills > 8
    with RunFolder.resume(root) as folder:
        assert decisions(folder) == undisturbed
    judged = [each.id for each in folder.record.history]
    assert len({digest_id(each.candidate.source) for each in folder.record.history}) == len(judged)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99, 1.0])
def test_a_torn_last_line_did_not_happen(
    tmp_path: Path, part: float, undisturbed: list[tuple[object, ...]]
) -> None:
    root = tmp_path / "run"
    run(root)
    path = root / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    for kept in (1, 4, len(lines) // 2):
        torn = lines[kept][: int(part * (len(lines[kept]) - 1))]
        path.write_bytes(b"".join(lines[:kept]) + torn)
        assert run(root) == undisturbed


def test_a_last_line_whose_middle_is_lost_did_not_happen(
    tmp_path: Path, undisturbed: list[tuple[object, ...]]
) -> None:
    root = tmp_path / "run"
    run(root)
    path = root / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)[:9]
    lines[-1] = lines[-1][:20] + b"\0" * (len(lines[-1]) - 30) + lines[-1][-10:]
    path.write_bytes(b"".join(lines))
    assert run(root) == undisturbed


def test_a_damaged_line_amid_a_journal_is_told_by_number(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(root)
    path = root / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = b"{}\n"
    path.write_bytes(b"".join(lines))
    for attempt in (lambda: RunFolder.resume(root), lambda: read_run(root)):
        with pytest.raises(RunFolderError, match=r"journal\.jsonl:4: not an event of a run"):
            attempt()
    # The lock was given back.
    path.write_bytes(b"".join(lines[:3]))
    run(root)


def test_files_that_are_gone_are_written_again(tmp_path: Path) -> None:
    root = tmp_path / "run"
    run(root)
    before = tree(root)
    for path in [*(root / "kernels").iterdir(), *(root / "problem").iterdir()]:
        path.unlink()
    RunFolder.resume(root).close()
    assert tree(root) == before


def test_a_full_disk_is_told_in_one_line_and_the_run_goes_on_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: list[tuple[object, ...]]
) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    seen = set()
    for number in range(5, 200, 23):
        root = tmp_path / f"run{number}"
        RunFolder.create(root, CONFIG).close()
        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", Countdown(number, full))
            try:
                run(root)
                break
            except RunFolderError as error:
                told = str(error)
        assert "No space left on device; the run is kept: free disk space" in told
        assert "\n" not in told
        seen.add("journal" if "journal" in told else "file")
        assert not list(root.rglob("*.part"))
        assert run(root) == undisturbed
    assert seen == {"journal", "file"}


def test_a_journal_line_that_the_disk_took_half_of_is_cut_off(tmp_path: Path) -> None:
    class Half:
        def __init__(self, file: object) -> None:
            self._file = file
            self.written = 0

        def write(self, data: memoryview) -> int:
            if self.written:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.written += 1
            count: int = self._file.write(data[: len(data) // 2])  # type: ignore[attr-defined]
            return count

        def __getattr__(self, name: str) -> object:
            return getattr(self._file, name)

    root = tmp_path / "run"
    run(root)
    sound = (root / "journal.jsonl").read_bytes()
    with closing(journal.Journal(root / "journal.jsonl")) as opened:
        opened._file = Half(opened._file)  # type: ignore[assignment]
        with pytest.raises(RunFolderError, match="No space left"):
            opened.append(opened.events[0])
    assert (root / "journal.jsonl").read_bytes() == sound


@pytest.mark.parametrize("call", [1, 2, 4, 7])
def test_ctrl_c_leaves_a_run_that_goes_on(
    tmp_path: Path, call: int, undisturbed: list[tuple[object, ...]]
) -> None:
    calls = 0

    def interrupt(_: str) -> None:
        nonlocal calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGINT)

    root = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(root, interrupt)
    assert read_run(root)[1].stopped is None
    assert run(root) == undisturbed


def test_ctrl_c_ends_the_judge_and_closes_the_proposers(tmp_path: Path) -> None:
    def interrupt(what: str) -> None:
        if what == "judge":
            os.kill(os.getpid(), signal.SIGINT)

    judge = ScriptedJudge(before=interrupt)
    scripted = Scripted([[proposal(0.5)]])
    with RunFolder.create(tmp_path / "run", config()) as folder:
        with pytest.raises(KeyboardInterrupt):
            search(folder, judge, scripted).run()
        assert judge.closed
        assert scripted.closed == 1


def test_two_processes_cannot_work_on_one_run(tmp_path: Path) -> None:
    root = tmp_path / "run"
    with (
        RunFolder.create(root, CONFIG),
        pytest.raises(RunFolderError, match="another process is working on the run"),
    ):
        RunFolder.resume(root)


def test_a_folder_with_other_things_in_it_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="is not empty"):
        RunFolder.create(tmp_path, CONFIG)
    with pytest.raises(RunFolderError, match="is not a run folder"):
        RunFolder.resume(tmp_path)
    with pytest.raises(RunFolderError, match="is not a run folder"):
        read_run(tmp_path / "nowhere")
    (tmp_path / "config.json").write_text('{"given": 3}')
    with pytest.raises(RunFolderError, match=r"config\.json is invalid: problem: is missing"):
        RunFolder.resume(tmp_path)


def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    mine = tmp_path / "problem.py"
    mine.write_text("mine")
    info = CONFIG.problem.model_copy(update={"name": str(mine)})
    asked = CONFIG.model_copy(update={"problem": info})
    with RunFolder.create(tmp_path / "run", asked) as folder:
        assert folder.problem_path == tmp_path / "run" / "problem" / "problem.py"
    assert mine.read_text() == "mine"


def test_a_run_is_not_begun_twice(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", CONFIG).close()
    with pytest.raises(RunFolderError, match="--resume"):
        RunFolder.create(tmp_path / "run", CONFIG)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a" / "file"
    files.write_atomically(path, "first")

    def work() -> None:
        os.fsync = Countdown(1, lambda: os.kill(os.getpid(), signal.SIGKILL))
        files.write_atomically(path, "second" * 1000)

    assert in_child(work) == -signal.SIGKILL
    assert path.read_text() == "first"
    blocked = tmp_path / "file" / "inside"
    blocked.parent.write_text("no folder")
    with pytest.raises(RunFolderError, match="cannot write"):
        files.write_atomically(blocked, "text")


def test_the_config_holds_all_that_was_asked(tmp_path: Path) -> None:
    root = tmp_path / "run"
    RunFolder.create(root, CONFIG).close()
    more = CONFIG.model_copy(update={"limits": Limits(rounds=9)})
    RunFolder.resume(root, more).close()
    assert RunConfig.model_validate_json((root / "config.json").read_bytes()) == more
