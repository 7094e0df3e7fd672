"""Two of the published runs repeat to the same decisions, and their records are what they say."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cards.sweep import EndedRun
from agent.optimize.record import Record
from agent.optimize.run import read_run
from agent.optimize.summary import summarise
from benchmarks.optimize.records import record_of
from cli import cli

RESULTS = Path("benchmarks/optimize/results/h200-2026-11-22/results.json")
RUNS = sorted(Path("tests/fixtures/runs").iterdir())


def decisions(record: Record) -> list[object]:
    """All that a run decided."""
    rounds = [(each.round, each.leader, each.beam, each.retired) for each in record.closed]
    judged = [(each.id, each.outcome.verdict) for each in record.history]
    assert record.stopped is not None
    return [rounds, judged, record.best.id, record.stopped.reason]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_published_run_repeats_to_the_same_decisions(run: Path, tmp_path: Path) -> None:
    replay = ["optimize", "--model", f"replay:{run}", "--replay-verdicts"]
    index = ["--index", str(tmp_path / "none")]
    ran = CliRunner().invoke(cli, [*index, *replay, "--out", str(tmp_path / "again")])
    assert ran.exit_code == 0, ran.output
    assert decisions(read_run(tmp_path / "again")[1]) == decisions(read_run(run)[1])


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_published_records_are_what_the_journals_say(run: Path) -> None:
    config, record = read_run(run)
    found = record_of(EndedRun(config, record, summarise(config, record, run), run))
    published = json.loads(RESULTS.read_text())["records"][run.name]
    assert {key: published[key] for key in found} == json.loads(json.dumps(found))
