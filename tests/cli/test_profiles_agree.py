"""`kb context --profile`, `kb diagnose` and the server's contexts read a profile alike."""

import json

import pytest
from starlette.testclient import TestClient

from cli.application import mountings
from cli.profiles import diagnosis
from server.app import create_app
from server.settings import Settings

PROFILES = {
    "rereads": {"l2_hit_rate": 30, "dram_throughput": 92},
    "uncoalesced": {"dram_throughput": 88, "global_load_efficiency": 14},
    "spills": {"local_load_inst": 4e6, "registers_per_thread": 255},
    "barriers": {"stall_barrier": 40, "dram_throughput": 30, "sm_throughput": 30},
    "no tensor cores": {
        "tensor_utilization": 0, "sm_throughput": 85, "fma_pipe": 85, "dram_throughput": 10,
    },
    "full issue slots": {
        "issue_slots_busy": 88, "dram_throughput": 35, "sm_throughput": 75, "tensor_utilization": 0,
    },
    "roof": {"dram_throughput": 91},
    "registers": {
        "registers_per_thread": 255, "achieved_occupancy": 12, "theoretical_occupancy": 12.5,
        "dram_throughput": 30, "sm_throughput": 40,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def served(shipped_index, tmp_path_factory):
    place = tmp_path_factory.mktemp("served")
    settings = Settings(
        index=shipped_index, state_dir=place, tokens=place / "tokens.json", rate_per_second=0
    )
    app = create_app(settings, mountings(settings), diagnosis)
    with TestClient(app, base_url="http://localhost") as client:
        yield client


@pytest.mark.parametrize("name", PROFILES)
def test_what_the_diagnosis_names_first_the_context_tells_first(
    shipped_index, cli, tmp_path, served, name
):
    file = tmp_path / "profile.json"
    file.write_text(json.dumps(PROFILES[name]))
    asked = ("--json", "--index", shipped_index)
    found = cli(*asked, "diagnose", file, "--gpu", "H100").json()["findings"]
    answered = cli(*asked, "context", "--profile", file, "--gpu", "H100").json()
    told = [each["slug"] for each in answered["techniques"]]
    assert told
    advised = [each["slug"] for finding in found for each in finding["techniques"]]
    assert set(told) <= set(advised)
    assert told[0] in {finding["techniques"][0]["slug"] for finding in found}
    causes = [finding["cause"].rstrip(".") for finding in found]
    assert answered["techniques"][0]["reason"].startswith(tuple(causes))
    sent = {"profile": PROFILES[name], "gpu": "H100"}
    assert served.post("/v1/context", json=sent).json() == answered


def test_a_wave_that_is_mostly_empty_is_not_answered_by_persistence(shipped_index, cli, tmp_path):
    file = tmp_path / "profile.json"
    file.write_text('{"waves_per_sm": 1.1, "dram_throughput": 45, "sm_throughput": 50}')
    found = cli("--json", "--index", shipped_index, "diagnose", file).json()["findings"]
    assert found[0]["rule"] == "partial-wave"
    assert "persistent-kernel" not in {
        each["slug"] for finding in found for each in finding["techniques"]
    }
