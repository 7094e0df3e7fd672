"""Tasks shared out over cards that are only names: what comes back, what a death costs, Ctrl-C."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import counting
import pytest

from benchmarks import sharing
from kb.errors import InvalidInputError, KbError

SCRIPT = [sys.executable, counting.__file__]


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path.cwd())]))


def shared(out, tasks, cards, *more):
    arguments = ["--out", str(out), "--tasks", ",".join(tasks), *more]
    options = counting.parse(arguments)
    return sharing.Shared(counting.BENCHMARK, options, arguments, cards, SCRIPT)


def test_each_card_gets_one_child_and_all_tasks_are_done_once(tmp_path, capsys):
    out = tmp_path / "found.json"
    names = [f"task{n}" for n in range(9)]
    found = shared(out, names, ["GPU-a", "GPU-b"]).run()
    assert list(found["records"]) == names, "in the order of the list, whoever was first"
    assert found == json.loads(out.read_text())
    assert found["summary"] == {"count": 9}
    assert out.with_suffix(".md").read_text().count("\n| task") == 9
    by_card = {}
    for each in found["records"].values():
        by_card.setdefault(each["card"], set()).add(each["pid"])
    assert set(by_card) == {"GPU-a", "GPU-b"}
    assert all(len(pids) == 1 for pids in by_card.values())
    assert capsys.readouterr().out.count("[GPU GPU-") == 9
    assert len(list((tmp_path / "found-logs").iterdir())) == 2


def test_cards_may_have_several_children_and_cores_are_divided(tmp_path):
    names = [f"task{n}" for n in range(8)]
    found = shared(tmp_path / "found.json", names, ["0"], "--per-gpu", "2").run()
    records = found["records"].values()
    assert {each["card"] for each in records} == {"0"}
    assert len({each["pid"] for each in records}) == 2
    cores = {tuple(each["cores"]) for each in records}
    if len(os.sched_getaffinity(0)) > 1:
        assert len(cores) == 2
        assert not set.intersection(*map(set, cores))


def test_what_is_done_is_not_done_again_and_a_death_costs_one_task(tmp_path):
    out = tmp_path / "found.json"
    first = shared(out, ["one", "dies", "two", "three"], ["0"]).run()
    assert first["records"]["dies"]["failed"] == "the process that ran it ended with status 7"
    assert {n for n, each in first["records"].items() if "failed" not in each} == {
        "one", "two", "three",
    }  # fmt: skip
    again = shared(out, ["one", "dies", "two", "three", "four"], ["0"]).run()
    assert again["records"]["one"] == first["records"]["one"]
    assert "failed" not in again["records"]["four"]


def test_a_task_that_hangs_is_stopped_and_the_rest_is_done(tmp_path):
    arguments = ["--out", str(tmp_path / "found.json"), "--tasks", "hangs,one"]
    impatient = dataclasses.replace(counting.BENCHMARK, patience_s=3.0)
    options = counting.parse(arguments)
    found = sharing.Shared(impatient, options, arguments, ["0"], SCRIPT).run()
    assert found["records"]["hangs"]["failed"] == "it was stopped after 3 s"
    assert "failed" not in found["records"]["one"]


def test_a_place_whose_children_keep_dying_is_given_up(tmp_path, capsys):
    names = [*(f"dies{n}" for n in range(5)), "left"]
    found = shared(tmp_path / "found.json", names, ["0"]).run()
    assert set(found["records"]) == {"dies0", "dies1", "dies2"}
    assert "start again to go on" in capsys.readouterr().out


def test_nothing_is_begun_after_the_limit(tmp_path):
    found = shared(tmp_path / "found.json", ["one"], ["0"], "--limit", "0.000001").run()
    assert found["records"] == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_children_end_with_their_parent(tmp_path, number):
    began = [tmp_path / "hangs0.began", tmp_path / "hangs1.began"]
    script = (
        "import sys, counting\nfrom benchmarks import sharing\n"
        "arguments = sys.argv[1:]\noptions = counting.parse(arguments)\n"
        f"command = {SCRIPT!r}\n"
        "sharing.Shared(counting.BENCHMARK, options, arguments, ['0', '1'], command).run()\n"
    )
    folder = str(Path(counting.__file__).parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(Path.cwd()), folder])}
    parent = subprocess.Popen(
        [sys.executable, "-c", script, "--out", str(tmp_path / "found.json"), "--tasks",
         "hangs0,hangs1"],
        env=environment, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wait_for(lambda: all(each.exists() and each.read_text() for each in began))
    children = [int(each.read_text()) for each in began]
    parent.send_signal(number)
    assert parent.wait(60) != 0
    wait_for(lambda: not any(alive(each) for each in children))


def alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_cards_are_all_or_so_many():
    assert sharing.chosen("all", ["0", "1"]) == ["0", "1"]
    assert sharing.chosen("1", ["GPU-x", "GPU-y"]) == ["GPU-x"]
    with pytest.raises(InvalidInputError, match="--gpus 3: there are 2"):
        sharing.chosen("3", ["0", "1"])
    with pytest.raises(InvalidInputError, match="takes a number or 'all', not 'some'"):
        sharing.chosen("some", ["0"])
    with pytest.raises(KbError, match="no GPU was found"):
        sharing.chosen("all", [])
