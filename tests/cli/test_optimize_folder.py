"""`kb optimize FOLDER` without Ray: a run for each problem, which an interrupt does not lose."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from test_optimize_batch import PROBLEM

from agent.cards.pool import CardPool
from agent.cards.sweep import Runner
from agent.optimize.run import read_config
from cli import cli, sweeping
from cli.optimize_config import resume_config
from cli.optimizing import optimize

RUNS = Path(__file__).parents[1] / "fixtures" / "runs"


class Card:
    name, kind = "GPU 0", "NVIDIA H200"

    def cancel(self):
        pass

    close = cancel


@pytest.fixture
def problems(tmp_path, monkeypatch):
    @contextmanager
    def one_card(address, *, interpret):
        with CardPool([Card()]) as cards:
            yield cards

    monkeypatch.setattr(sweeping, "_cards", one_card)
    folder = tmp_path / "problems"
    folder.mkdir()
    for factor in (2, 3, 4):
        (folder / f"scale_{factor}.py").write_text(PROBLEM.format(factor=factor))
    return folder


def test_after_ctrl_c_resume_goes_on_with_all_problems_also_those_that_were_not_begun(
    problems, tmp_path, monkeypatch
):
    asked = []

    def run(self, root, config, **more):
        asked.append(root.name)
        if len(asked) == 2:
            raise KeyboardInterrupt
        raise sweeping.KbError("as it should")

    monkeypatch.setattr(Runner, "run", run)
    out = tmp_path / "out"
    first = CliRunner().invoke(cli, ["optimize", str(problems), "--interpret", "--out", str(out)])
    assert first.exit_code == 130
    assert f"interrupted; continue with: kb optimize --resume {out}" in first.output
    assert asked == ["scale_2", "scale_3"]
    again = CliRunner().invoke(cli, ["optimize", "--resume", str(out)])
    assert asked[2:] == ["scale_2", "scale_3", "scale_4"]
    assert "3 of 3 failed; continue with: kb optimize --resume" in str(again.exception)
    assert "scale_4: failed: as it should" in again.output


@pytest.mark.parametrize("option", [("--kernel", "k.py"), ("--device", "cuda:0")])
def test_what_is_of_one_problem_does_not_go_with_a_folder(problems, option):
    ran = CliRunner().invoke(cli, ["optimize", str(problems), *option])
    assert ran.exit_code == 2
    assert f"{option[0]} cannot be used with a folder" in str(ran.output)


def test_ray_takes_a_folder(problems):
    ran = CliRunner().invoke(cli, ["optimize", str(problems / "scale_2.py"), "--ray", "auto"])
    assert ran.exit_code == 2
    assert "--ray needs a folder of problems" in ran.output


def test_a_run_that_goes_on_with_a_model_takes_profiles_for_it() -> None:
    config = read_config(RUNS / "depthwise_conv2d-start")  # of an earlier version
    assert not config.strategy.profiling
    given: dict[str, Any] = {each.name: None for each in optimize.params}
    context = click.Context(optimize)
    assert not resume_config(context, config, None, given).strategy.profiling
    assert resume_config(context, config, None, given | {"model": "some"}).strategy.profiling
