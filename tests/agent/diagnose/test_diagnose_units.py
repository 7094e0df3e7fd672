"""A full unit, or SMs without work, explain the time: what they refute is not said."""

import pytest
from diagnose_cases import H200, SOUND, case, facts, found, metrics

from agent.diagnose.bottleneck import decide
from agent.diagnose.diagnose import diagnose, gather_facts
from agent.diagnose.inputs import ProfileData
from agent.diagnose.result import Bottleneck
from agent.diagnose.roofline import roofline
from agent.diagnose.techniques import catalog_from_corpus
from kb.profiles.keys import with_derived

# Few warps, few blocks, stalls: each has a rule, and no full unit waits for any of them.
WAITING = {
    "achieved_occupancy": 18.6, "theoretical_occupancy": 18.75, "registers_per_thread": 168.0,
    "launch__occupancy_limit_registers": 1.0, "launch__occupancy_limit_shared_mem": 2.0,
    "launch__occupancy_limit_blocks": 32.0, "launch__occupancy_limit_warps": 5.0,
    "stall_long_scoreboard": 60.0, "stall_barrier": 30.0, "waves_per_sm": 1.0, "grid_size": 132.0,
    "sm_throughput": 30.0, "dram_throughput": 20.0, "duration": 1.5e6,
}  # fmt: skip
REFUTED = {
    "limited-occupancy", "registers-of-a-thread", "tiny-blocks", "imbalance", "small-grid",
    "load-latency", "barrier-stalls", "short-scoreboard", "narrow-loads", "partial-wave",
}  # fmt: skip
FULL = [
    ("tensor_utilization", {"sm_throughput": 92.0}, "tensor-roof", "the tensor pipe"),
    ("sm_throughput", {}, "sm-ceiling", "the SM"),
    ("fma_pipe", {"sm_throughput": 92.0}, "fma-pipe", "the FMA pipe"),
    ("xu_pipe", {"sm_throughput": 92.0}, "special-function-pipe", "the special-function pipe"),
    ("issue_slots_busy", {"sm_throughput": 92.0}, "issue-bound", "the issue slots"),
    ("l1_throughput", {}, "l1-ceiling", "the L1/TEX cache"),
    ("l2_throughput", {}, "l2-ceiling", "the L2 cache"),
    ("lsu_pipe", {"sm_throughput": 92.0}, "load-store-pipe", "the load-store pipe"),
    ("memory_throughput", {}, "memory-ceiling", "the memory system"),
]


def answer_of(values, spec=H200):
    return diagnose(facts(values, spec=spec), catalog_from_corpus())


def rules_of(values):
    return [finding.rule for finding in answer_of(values).findings]


@pytest.mark.parametrize(("alias", "beside", "rule", "words"), FULL)
def test_a_full_unit_is_the_cause_and_refutes_every_wait(alias, beside, rule, words):
    assert set(rules_of(WAITING)) <= REFUTED
    answer = answer_of(WAITING | beside | {alias: 92.0})
    assert answer.findings[0].rule == rule
    assert not REFUTED & {finding.rule for finding in answer.findings}
    assert f"at the ceiling of {words} " in answer.headline


def test_the_part_that_fills_a_whole_is_named():
    """L1/TEX counts its load and store requests as well; the SM's throughput is its pipes'."""
    values = WAITING | {"l1_throughput": 93.0, "lsu_pipe": 91.0, "sm_throughput": 92.0}
    assert rules_of(values)[0] == "load-store-pipe"
    assert rules_of(values | {"lsu_pipe": 40.0, "sm_throughput": 41.0})[0] == "l1-ceiling"


def test_blocks_of_a_small_grid_may_fill_their_own_sms_and_no_others():
    """24 blocks keep a pipe of their SMs full: latency is hidden there, and 108 SMs idle."""
    few = WAITING | {"grid_size": 24.0, "waves_per_sm": 0.1, "alu_pipe": 92.0,
                     "sm_throughput": 16.0}  # fmt: skip
    answer = answer_of(few)
    assert answer.bottleneck == Bottleneck.UNDERUTILIZED
    assert answer.findings[0].rule == "small-grid"
    assert "limited-occupancy" not in found(few)


def test_a_pipe_is_over_all_cycles_no_busier_than_its_sm():
    """Per cent of active cycles, and nothing says how many those are."""
    known = case({"fma_pipe": 92.0, "sm_throughput": 30.0, "dram_throughput": 20.0})
    assert known.decision.unit is None


def test_what_keeps_warps_away_comes_before_the_wait_that_follows_from_it():
    values = WAITING | {"waves_per_sm": 30.0, "grid_size": 8192.0, "stall_long_scoreboard": 80.0,
                        "stall_barrier": 0.0}  # fmt: skip
    cause, symptom = answer_of(values).findings
    assert [cause.rule, symptom.rule] == ["limited-occupancy", "load-latency"]
    assert cause.severity == symptom.severity
    many = values | {"theoretical_occupancy": 75.0, "achieved_occupancy": 70.0}
    assert rules_of(many)[0] == "load-latency"
    # Fewer warps run than the limit admits: it is not what keeps them away.
    assert "limited-occupancy" not in found(values | {"achieved_occupancy": 8.0})


# --- SMs without work ------------------------------------------------------------------------

TAIL = WAITING | {"sm_active_share": 53.0, "waves_per_sm": 1.06, "grid_size": 140.0,
                  "sm_throughput": 48.0}  # fmt: skip


def test_sms_that_a_partial_wave_leaves_idle_outrank_occupancy():
    assert rules_of(TAIL)[0] == "partial-wave"
    # At 48 % of all cycles the SM is at 91 % of those in which it has work.
    assert not {"limited-occupancy", "load-latency"} & set(rules_of(TAIL))
    slower = TAIL | {"sm_throughput": 20.0}
    assert rules_of(slower)[0] == "partial-wave"
    assert answer_of(slower).bottleneck == Bottleneck.UNDERUTILIZED


@pytest.mark.parametrize("waves", [47.0, 1.9])
def test_sms_that_idle_for_longer_than_waves_explain_wait_for_a_few_blocks(waves):
    values = WAITING | {"sm_active_share": 8.5, "waves_per_sm": waves, "grid_size": 50_000.0,
                        "achieved_occupancy": 81.0, "theoretical_occupancy": 100.0}  # fmt: skip
    answer = answer_of(values)
    assert answer.findings[0].rule == "idle-sms"
    assert answer.findings[0].severity == 0.92
    assert answer.findings[0].techniques[0].slug == "load-balancing"
    assert "active share" in answer.headline


def test_idle_sms_decide_where_a_unit_was_not_measured():
    known = facts({"sm_active_share": 20.0, "waves_per_sm": 40.0})
    assert decide(known, roofline(known)).bottleneck == Bottleneck.UNDERUTILIZED


def test_the_launch_of_a_short_kernel_is_no_imbalance():
    values = WAITING | {"sm_active_share": 60.0, "waves_per_sm": 40.0, "duration": 5000.0}
    assert "idle-sms" not in found(values)
    assert "idle-sms" in found(values | {"duration": 5e5})


def test_of_a_kernel_that_takes_as_long_as_an_empty_one_the_launch_is_the_cause():
    tiny = {"duration": 2080.0, "grid_size": 8.0, "waves_per_sm": 0.01, "sm_throughput": 0.4,
            "dram_throughput": 0.9}  # fmt: skip
    assert rules_of(tiny)[0] == "short-kernel"
    assert rules_of(tiny | {"duration": 85_000.0})[0] == "small-grid"


# --- branches --------------------------------------------------------------------------------

NO_BRANCHES = {"branch_uniformity": 0.0, "sm_throughput": 10.0, "dram_throughput": 24.0}


def known(values):
    return gather_facts(ProfileData(with_derived(metrics(values))), H200)


def test_a_branch_efficiency_of_zero_is_a_ratio_of_nothing():
    answer = diagnose(known(NO_BRANCHES), catalog_from_corpus())
    assert "divergence" not in {finding.rule for finding in answer.findings}
    gated = [reason for f in answer.findings for t in f.techniques for reason in t.reasons]
    assert not any("Uniform branch" in reason for reason in gated)
    assert known(NO_BRANCHES | {"threads_per_inst": 32.0}).get("branch_uniformity") is None
    none = {"divergent_branches": 0.0, "threads_per_inst": 16.0}  # half warps, no branch
    assert known(NO_BRANCHES | none).get("branch_uniformity") is None


@pytest.mark.parametrize("sign", [{"divergent_branches": 40.0}, {"threads_per_inst": 6.0}])
def test_a_branch_efficiency_of_zero_counts_beside_a_sign_of_divergence(sign):
    answer = diagnose(known(NO_BRANCHES | sign), catalog_from_corpus())
    assert answer.findings[0].rule == "divergence"


def test_a_low_branch_efficiency_needs_no_other_sign():
    assert known(NO_BRANCHES | {"branch_uniformity": 41.0}).get("branch_uniformity") == 41.0


def test_full_slots_of_few_lanes_are_divergence():
    values = SOUND | {"issue_slots_busy": 85.0, "sm_throughput": 85.0, "alu_pipe": 84.0,
                      "branch_uniformity": 41.0, "threads_per_inst": 5.8}  # fmt: skip
    assert rules_of(values)[0] == "divergence"
    assert "issue-bound" not in found(values)
    assert "issue-bound" in found(values | {"threads_per_inst": 31.0, "alu_pipe": 20.0})


# --- ties of occupancy limits ----------------------------------------------------------------

TIED = SOUND | {
    "block_size": 32.0, "theoretical_occupancy": 33.0, "achieved_occupancy": 30.0,
    "launch__occupancy_limit_blocks": 16.0, "launch__occupancy_limit_shared_mem": 16.0,
    "launch__occupancy_limit_registers": 84.0, "launch__occupancy_limit_warps": 48.0,
}  # fmt: skip


def test_block_slots_limit_where_shared_memory_ties_with_them():
    assert "tiny-blocks" in found(TIED)
    assert "limited-occupancy" not in found(TIED)


def test_resources_that_tie_are_all_named_and_none_is_said_to_admit_a_block_more():
    values = TIED | {"block_size": 384.0, "launch__occupancy_limit_shared_mem": 1.0,
                     "launch__occupancy_limit_registers": 1.0}  # fmt: skip
    sole = values | {"launch__occupancy_limit_shared_mem": 4.0}
    assert "registers and shared memory" in found(values)["limited-occupancy"].cause
    assert "limited by registers:" in found(sole)["limited-occupancy"].cause

    def reasons(measured):
        told = [each for f in answer_of(measured).findings for t in f.techniques
                for each in t.reasons]  # fmt: skip
        return [each for each in told if each.startswith("Block limit from")]

    assert reasons(sole)
    assert not reasons(values)
