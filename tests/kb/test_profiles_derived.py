"""Metrics that follow from others: what ncu collects by default names the case in other words."""

import json

import pytest

from kb.profiles.reading import read_profile
from kb.vocabulary import find_metric

LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
LONG = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
TENSOR = "sm__pipe_tensor_{}cycles_active.avg.pct_of_peak_sustained_{}"
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
CONFLICTS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"


def read(**given):
    """Values by alias; keys of the profile are written with `=`."""
    return values(given)


def values(given):
    found = read_profile(json.dumps(given), "p")
    assert found.ignored == ()
    return {find_metric(name).aliases[0]: value for name, value in found.metrics.items()}


def test_sectors_per_request_follow_from_sectors_and_requests():
    given = {
        GLOBAL.format("sectors", "ld"): 8e6,
        GLOBAL.format("requests", "ld"): 2e6,
        GLOBAL.format("sectors", "st"): 64e6,
        GLOBAL.format("requests", "st"): 2e6,
    }
    found = values(given)
    assert (found["sectors_per_load_request"], found["sectors_per_store_request"]) == (4, 32)
    assert values(given | {"sectors_per_load_request": 5})["sectors_per_load_request"] == 5
    assert "sectors_per_load_request" not in values(given | {GLOBAL.format("requests", "ld"): 0})


def test_conflicts_and_wavefronts_of_loads_and_stores_are_summed():
    given = {CONFLICTS.format("ld"): 30, CONFLICTS.format("st"): 5,
             WAVEFRONTS.format("ld"): 40, WAVEFRONTS.format("st"): 10}  # fmt: skip
    found = values(given)
    assert (found["shared_bank_conflicts"], found["shared_wavefronts"]) == (35, 50)
    assert values(given | {"shared_bank_conflicts": 1})["shared_bank_conflicts"] == 1
    del given[WAVEFRONTS.format("st")]
    assert "shared_wavefronts" not in values(given)  # stores have conflicts, and are not in it
    assert values(given | {CONFLICTS.format("st"): 0})["shared_wavefronts"] == 40


@pytest.mark.parametrize(
    "more",
    [
        {LATENCY: 40},
        {"Warp Cycles Per Issued Instruction": 40},
        {"Active Warps Per Scheduler": 4, "issue_slots_busy": 10},
        {"Active Warps Per Scheduler": 4, "Issued Warp Per Scheduler": 0.1},
        {"Active Warps Per Scheduler": 4, "smsp__issue_active.avg.per_cycle_active": 0.1},
        {"occupancy": 25, "issue_slots_busy": 10,
         "device__attribute_display_name": "NVIDIA H100 80GB HBM3"},
        {"occupancy": 25, "issue_slots_busy": 10,
         "device__attribute_compute_capability_major": 8,
         "device__attribute_compute_capability_minor": 0},
        # A scheduler of compute capability 8.6 holds 12 warps.
        {"occupancy": 100 / 3, "issue_slots_busy": 10,
         "device__attribute_compute_capability_major": 8,
         "device__attribute_compute_capability_minor": 6},
    ],
)  # fmt: skip
def test_stall_shares_are_found_from_what_tells_the_latency(more):
    assert values({LONG: 30} | more)["stall_long_scoreboard"] == pytest.approx(75)


def test_a_stall_share_is_silent_without_the_card_and_never_above_all_cycles():
    assert "stall_long_scoreboard" not in values({LONG: 30, "occupancy": 25, "issue_slots_busy": 9})
    assert "stall_long_scoreboard" not in values({LONG: 30, LATENCY: 10})
    assert values({LONG: 10.2, LATENCY: 10})["stall_long_scoreboard"] == 100
    assert values({LONG: 3, LATENCY: 10, "stall_long_scoreboard": 7})["stall_long_scoreboard"] == 7


def test_the_share_of_active_cycles_follows_from_both_counts():
    found = read(sm_cycles_active=271_000, sm_cycles_elapsed=3_205_000)
    assert found["sm_active_share"] == pytest.approx(8.4555, abs=1e-3)
    raw = {"sm__cycles_active.avg": 30, "gpc__cycles_elapsed.max": 40}
    assert values(raw)["sm_active_share"] == 75
    assert read(sm_cycles_active=101, sm_cycles_elapsed=100)["sm_active_share"] == 100


@pytest.mark.parametrize(
    "name",
    [
        TENSOR.format("op_hmma_", "elapsed"), TENSOR.format("op_imma_", "active"),
        TENSOR.format("", "active"), TENSOR.format("subpipe_hmma_", "elapsed"),
        "sm__pipe_tc_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ],
)  # fmt: skip
def test_every_spelling_of_a_tensor_pipe_says_how_busy_it_is(name):
    assert values({name: 92})["tensor_utilization"] == 92


def test_the_busiest_tensor_pipe_counts_over_the_whole_duration():
    pipes = {TENSOR.format("op_hmma_", "active"): 80, TENSOR.format("op_imma_", "elapsed"): 3}
    assert values(pipes)["tensor_utilization"] == 80
    assert values(pipes | {"sm_active_share": 50})["tensor_utilization"] == 40
    assert values(pipes | {"tensor_utilization": 7})["tensor_utilization"] == 7


def test_executed_instructions_are_read_in_both_spellings():
    page = '"ID","Kernel Name","smsp__inst_executed.sum"\n"","","inst"\n"0","k","412,000"\n'
    (found,) = read_profile(page, "p").metrics.items()
    assert found == (find_metric("inst_executed").name, 412_000)


def test_spilling_requests_of_the_details_page_are_read():
    assert values({"Local Memory Spilling Requests": 7e6})["local_load_inst"] == 7e6
