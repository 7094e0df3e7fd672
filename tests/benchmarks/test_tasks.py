"""Tasks with a record each: what is kept, and what a failure or the end of time costs."""

import argparse
import contextlib
import json
import threading
from pathlib import Path

import pytest

from agent.cards.local import LocalCard
from agent.cards.pool import CardPool
from benchmarks import tasks


class Idle:
    """A judging process that nothing is asked of."""

    def close(self):
        pass

    cancel = close


@pytest.fixture
def cards():
    return CardPool([LocalCard(name, None, Idle) for name in ("a", "b")])


def measure(key, options, common):
    if key == "stops":
        raise KeyboardInterrupt
    if key.startswith("fails"):
        return {"name": key, "failed": "as it should"}
    return {"name": key, "common": common, "thread": threading.current_thread().name}


BENCHMARK = tasks.Benchmark(
    options=lambda given: argparse.Namespace(),
    keys=lambda options: options.tasks,
    open_shared=lambda options, cards: contextlib.nullcontext("opened"),
    measure=measure,
    columns=("card",),
    cells=lambda record: [record["common"]],
    summary=lambda found: {"count": len(found)},
    settings=(),
)


def go(out: Path, cards, *names, limit=None):
    options = argparse.Namespace(out=out, tasks=names, limit=limit)
    return tasks.run_tasks(BENCHMARK, options, cards)


def test_each_task_is_done_once_and_written_in_the_order_of_the_list(tmp_path, cards):
    out = tmp_path / "found.json"
    names = [f"task{n}" for n in range(9)]
    found = go(out, cards, *names)
    assert list(found["records"]) == names, "whoever was first"
    assert found == json.loads(out.read_text())
    assert found["summary"] == {"count": 9}
    assert out.with_suffix(".md").read_text().count("\n| task") == 9


def test_what_is_done_is_not_done_again_and_what_failed_is(tmp_path, cards):
    out = tmp_path / "found.json"
    first = go(out, cards, "one", "fails")
    assert first["records"]["fails"]["failed"] == "as it should"
    out.write_text(out.read_text().replace("opened", "earlier"))
    again = go(out, cards, "one", "fails", "two")
    assert again["records"]["one"]["common"] == "earlier"
    assert "failed" in again["records"]["fails"]
    assert again["records"]["two"]["common"] == "opened"


def test_nothing_is_begun_after_the_limit(tmp_path, cards, capsys):
    assert go(tmp_path / "found.json", cards, "one", limit=-1.0)["records"] == {}
    assert "start again to go on" in capsys.readouterr().out


def test_ctrl_c_keeps_what_is_done(tmp_path, cards):
    out = tmp_path / "found.json"
    alone = CardPool(cards._all[:1])
    with pytest.raises(KeyboardInterrupt):
        go(out, alone, "one", "stops", "two")
    assert list(tasks.load(out)["records"]) == ["one"]
