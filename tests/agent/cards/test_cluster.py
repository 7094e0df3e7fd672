"""A sweep over two Ray nodes, one of which is killed: the results are those of one machine."""

import json
import os
import threading
import time

import pytest
from click.testing import CliRunner

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
from ray import cluster_utils

from agent.cards import local
from cli import cli

PROBLEM = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + {added}


def get_inputs():
    return [torch.rand(4, 20) - 0.5]


def get_init_inputs():
    return []
"""
PROBLEMS = 5


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    folder = tmp_path_factory.mktemp("problems")
    for added in range(PROBLEMS):
        (folder / f"plus_{added}.py").write_text(PROBLEM.format(added=added))
    return folder


@pytest.fixture
def cluster():
    made = cluster_utils.Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    yield made
    made.shutdown()


def sweep(problems, out, *more):
    options = ("--interpret", "--trust", "--rounds", "1", "--proposers", "tune", "--out", str(out))
    ran = CliRunner().invoke(cli, ["optimize", str(problems), *options, *more])
    assert ran.exit_code == 0, ran.output
    return ran


def decisions(run):
    """Events of a run, without times and what depends on inputs, which are drawn anew each time."""
    lines = (run / "journal.jsonl").read_text().replace(str(run), "RUN").splitlines()
    return [_lasting(json.loads(line)) for line in lines]


def _lasting(value):
    if isinstance(value, dict):
        passing = ("wall", "at", "error_share", "disclosures")
        return {key: _lasting(each) for key, each in value.items() if key not in passing}
    return [_lasting(each) for each in value] if isinstance(value, list) else value


def files(root):
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_node_that_dies_costs_the_work_in_flight_and_nothing_else(
    problems, cluster, tmp_path, monkeypatch
):
    dies = cluster.add_node(num_cpus=1)
    out = tmp_path / "cluster"

    def kill():
        while len(list(out.glob("*/report.html"))) < 2:
            time.sleep(0.05)
        cluster.remove_node(dies, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    ran = sweep(problems, out, "--ray", cluster.address)
    killer.join(10)
    assert not killer.is_alive()
    assert f"{PROBLEMS} problems on 2 CPUs" in ran.stderr
    assert "CPU 0: its node was lost" in ran.stderr
    monkeypatch.setattr(local, "_DRY_RUN_CARDS", 1)  # a second process would load torch again
    alone = tmp_path / "alone"
    sweep(problems, alone)
    assert files(out) == files(alone)
    for run in sorted(alone.iterdir()):
        assert decisions(out / run.name) == decisions(run)
        assert (out / run.name / "best.py").read_text() == (run / "best.py").read_text()


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("nonsense", "--ray takes auto or HOST:PORT, not 'nonsense'"),
        ("ray://127.0.0.1:10001", "--ray takes auto or HOST:PORT"),
        ("127.0.0.1:9", "nothing answers at '127.0.0.1:9': "),
    ],
)
def test_an_address_without_a_cluster_is_told_at_once_in_one_line(problems, address, told):
    ran = CliRunner().invoke(cli, ["optimize", str(problems), "--interpret", "--ray", address])
    assert ran.exit_code != 0
    assert told in str(ran.exception)
    assert "\n" not in str(ran.exception)
