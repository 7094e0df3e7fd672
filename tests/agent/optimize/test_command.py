"""`kb optimize` from the command line, without a GPU: dry run, continuing, replay, wrong usage."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from scripted import Scripted, ScriptedJudge, config, kernel, proposal, search
from support import KB
from test_interpret import KERNEL, PROBLEM

from agent.optimize.run import RunFolder, read_run
from agent.proposers.llm.accounting import Price
from cli import cli
from cli.optimizing import optimize
from kb.errors import KbError


def kb(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KB, "--index", str(cwd / "no-index"), *arguments],
        cwd=cwd, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_a_dry_run_ends_with_a_summary_and_can_be_continued(tmp_path: Path) -> None:
    (tmp_path / "relu.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL.replace("FLOOR", "0.0"))
    options = ["--interpret", "--trust", "--proposers", "tune", "--out", "run"]
    problem = str(tmp_path / "relu.py")
    ran = kb("optimize", problem, "--kernel", "kernel.py", *options, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "a dry run has no times" in " ".join(ran.stdout.split())
    assert ran.stdout.rstrip().endswith("Run: run")
    assert ran.stderr.startswith("Problem Model: relu. Build the kernel around relu [")
    assert "no context: " in ran.stderr
    assert max(len(line) for line in ran.stdout.splitlines()) <= 80
    known, record = read_run(tmp_path / "run")
    assert known.problem.name == "relu.py"
    assert (tmp_path / "run" / "problem" / "relu.py").read_text() == PROBLEM
    assert known.start is not None
    assert known.start.source == (tmp_path / "kernel.py").read_text()
    assert record.start.outcome.verdict == "correct"
    assert (tmp_path / "run" / "best.py").read_text().endswith(known.start.source)
    again = kb("optimize", "--resume", "run", "--rounds", "9", "--json", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["stopped"] == "nothing more to try"
    assert read_run(tmp_path / "run")[0].limits.rounds == 9


def test_ctrl_c_ends_with_one_line_that_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "relu.py").write_text(PROBLEM)
    started = subprocess.Popen(
        [KB, "optimize", "relu.py", "--interpret", "--trust", "--proposers", "tune", "--out", "r"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    for _ in range(400):
        if (tmp_path / "r" / "kernels").exists():
            break
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(started.pid, signal.SIGINT)
    out, errors = started.communicate(timeout=60)
    assert started.returncode == 130, errors
    assert not out
    assert errors.splitlines()[-1] == "kb: interrupted; continue with: kb optimize --resume r"
    assert "Traceback" not in errors
    assert read_run(tmp_path / "r")[1].stopped is None
    RunFolder.resume(tmp_path / "r").close()


def test_a_recorded_run_is_replayed_without_a_gpu(tmp_path: Path) -> None:
    asked = config().model_copy(update={"proposers": ("tune",)})
    with RunFolder.create(tmp_path / "run", asked) as folder:
        scripted = Scripted([[proposal(0.6, "tune")], [proposal(0.5, "tune")]], "tune")
        search(folder, ScriptedJudge(), scripted).run()
    out = tmp_path / "again"
    replay = ["optimize", "--model", f"replay:{tmp_path / 'run'}", "--replay-verdicts"]
    ran = CliRunner().invoke(cli, ["--index", str(tmp_path), *replay, "--out", str(out)])
    assert ran.exit_code == 0, ran.output
    assert "little.py on H200: 2.00x faster than the start." in ran.stdout
    assert "max-autotune" not in ran.stdout
    assert "round 2" in ran.stderr
    assert (out / "best.py").read_text().endswith(kernel(0.5))
    _, old = read_run(tmp_path / "run")
    _, new = read_run(tmp_path / "again")
    assert [each.leader for each in new.closed] == [each.leader for each in old.closed]
    summary = CliRunner().invoke(cli, ["report", str(out), "--json"])
    assert json.loads(summary.stdout)["better"] is True
    written = CliRunner().invoke(cli, ["report", str(out)])
    assert [Path(line).suffix for line in written.stdout.split()] == [".html", ".md"]


def test_a_model_is_paid_by_a_price_list_also_where_its_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[object] = []

    @contextmanager
    def opened(*_: object, price: object, **__: object) -> Iterator[None]:
        given.append(price)
        raise KbError("far enough")
        yield

    monkeypatch.setattr("agent.opening.open_search", opened)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(PROBLEM)
    (tmp_path / "prices.yaml").write_text("models: {m: {input: 1.25, output: 10}}")
    paid = ["--price", "prices.yaml"]
    begin = ["p.py", "--interpret", "--model", "m", "--max-money", "3", "--out", "run"]
    for arguments in ([*begin, *paid], ["--resume", "run", *paid]):
        with pytest.raises(KbError, match="far enough"):
            cli.main(["optimize", *arguments], standalone_mode=False)
    assert given == [Price(input=1.25, output=10)] * 2
    with pytest.raises(click.UsageError, match="--max-money needs --price"):
        cli.main(["optimize", "--resume", "run"], standalone_mode=False)


def test_help_fits_80_columns_and_names_each_option_in_a_sentence() -> None:
    told = CliRunner().invoke(cli, ["optimize", "--help"], terminal_width=80)
    lines = told.output.splitlines()
    assert max(len(line) for line in lines) <= 80
    helps = {each.name: each.help for each in optimize.params if isinstance(each, click.Option)}
    assert all(each and each.endswith(".") and each[0].isupper() for each in helps.values()), helps


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "Missing argument 'PROBLEM'"),
        (["p.py", "--proposers", "magic"], "no proposer 'magic': choose from tune, recipe, llm"),
        (["p.py", "--proposers", "llm"], "the proposer llm needs --model"),
        (["p.py", "--base-url", "http://x"], "--base-url needs --model"),
        (["p.py", "--greedy", "--width", "3"], "--greedy means --width 1"),
        (["p.py", "--baselines", "best"], "no baseline 'best': choose from eager, compile, max-"),
        (["p.py", "--max-money", "1"], "--max-money needs --model"),
        (["p.py", "--interpret", "--model", "m", "--max-money", "1"], "--max-money needs --price"),
        (["p.py", "--interpret", "--price", "1,2"], "--price needs --model"),
        (["p.py", "--replay-verdicts"], "--replay-verdicts needs --model replay:RUN"),
        (["--resume", "run", "--width", "3"], "--width cannot be changed"),
        (["p.py", "--resume", "run"], "PROBLEM cannot be changed"),
        (["p.py", "--rounds", "-1"], "--rounds"),
    ],
)
def test_wrong_usage_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    (tmp_path / "p.py").write_text(PROBLEM)
    RunFolder.create(tmp_path / "run", config()).close()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.UsageError) as caught:
        cli.main(["optimize", *arguments], standalone_mode=False)
    assert told in caught.value.format_message()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nothing.py"], "nothing.py"),
        (["--resume", "nowhere"], "nowhere is not a run folder"),
        (["p.py", "--model", "replay:nowhere"], "nowhere is not a run folder"),
        (["p.py", "--interpret", "--kernel", "p.py"], "ModelNew"),
        (["p.py", "--interpret", "--model", "m", "--price", "much"], "'much' is not a price"),
        (
            ["p.py", "--interpret", "--model", "m", "--price", "prices.yaml"],
            "prices.yaml has no price for 'm', only: m/1",
        ),
        (["p.py", "--interpret", "--out", "run"], "continue it with --resume"),
    ],
)
def test_bad_input_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: str
) -> None:
    (tmp_path / "p.py").write_text(PROBLEM)
    (tmp_path / "prices.yaml").write_text("models: {m/1: {input: 1.25, output: 10}}")
    RunFolder.create(tmp_path / "run", config()).close()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KbError) as caught:
        cli.main(["optimize", *arguments], standalone_mode=False)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
