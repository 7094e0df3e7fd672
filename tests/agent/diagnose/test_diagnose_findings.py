"""Each cause is found from a kernel that shows it, with evidence, and not from a sound one."""

import itertools
import random

import pytest
from diagnose_cases import (
    B200,
    CEILINGS,
    POOR_MATVEC,
    POOR_MATVEC_WIDE,
    SATURATED_RMSNORM,
    SOUND,
    case,
    facts,
    floor,
    found,
    static,
)

from agent.diagnose.bottleneck import decide
from agent.diagnose.diagnose import diagnose
from agent.diagnose.facts import metric_of
from agent.diagnose.findings import RULES, select
from agent.diagnose.result import Bottleneck
from agent.diagnose.roofline import roofline
from agent.diagnose.techniques import catalog_from_corpus
from kb.corpus.entries import BOTTLENECKS
from kb.vocabulary import all_metrics, taxonomy

# A change to a sound profile → the rule that has to speak, and its category.
SHOWN = [
    ({"global_load_efficiency": 25.0, "sectors_per_load_request": 32.0}, "uncoalesced-access",
     "memory"),
    ({"global_store_efficiency": 12.5}, "uncoalesced-access", "memory"),
    ({"sectors_per_load_request": 2.0}, "narrow-loads", "memory"),
    ({"l1_hit_rate": 66.0}, "re-read-values", "memory"),
    ({"shared_bank_conflicts": 6e5, "stall_short_scoreboard": 20.0}, "bank-conflicts", "memory"),
    ({"local_load_inst": 8e6, "local_store_inst": 4e6}, "register-spills", "memory"),
    ({"issue_slots_busy": 90.0, "sm_throughput": 88.0}, "issue-bound", "compute"),
    ({"tensor_utilization": 91.0, "sm_throughput": 91.0}, "tensor-roof", "compute"),
    ({"stall_math_pipe_throttle": 25.0}, "math-pipe", "compute"),
    ({"alu_pipe": 90.0, "sm_throughput": 90.0}, "alu-pipe", "compute"),
    ({"fma_pipe": 90.0, "sm_throughput": 90.0}, "fma-pipe", "compute"),
    ({"xu_pipe": 90.0, "sm_throughput": 90.0}, "special-function-pipe", "compute"),
    ({"fp64_pipe": 90.0, "sm_throughput": 90.0}, "fp64-pipe", "compute"),
    ({"sm_throughput": 93.0}, "sm-ceiling", "compute"),
    ({"memory_throughput": 93.0}, "memory-ceiling", "memory"),
    ({"l2_throughput": 93.0}, "l2-ceiling", "memory"),
    ({"l1_throughput": 93.0}, "l1-ceiling", "memory"),
    ({"lsu_pipe": 93.0, "sm_throughput": 92.0}, "load-store-pipe", "memory"),
    ({"global_red_requests": 3e7, "stall_lg_throttle": 80.0, "issue_slots_busy": 3.0,
      "dram_throughput": 3.0}, "contended-atomics", "latency"),
    ({"sm_active_share": 9.0}, "idle-sms", "underutilized"),
    ({"branch_uniformity": 60.0, "threads_per_inst": 14.0}, "divergence", "underutilized"),
    ({"stall_long_scoreboard": 60.0, "achieved_occupancy": 20.0, "theoretical_occupancy": 25.0,
      "dram_throughput": 30.0, "memory_throughput": 30.0, "sm_throughput": 15.0}, "load-latency",
     "latency"),
    ({"stall_barrier": 35.0}, "barrier-stalls", "latency"),
    ({"stall_short_scoreboard": 45.0}, "short-scoreboard", "latency"),
    ({"duration": 3000.0}, "short-kernel", "latency"),
    ({"waves_per_sm": 0.3, "grid_size": 90.0}, "small-grid", "underutilized"),
    ({"waves_per_sm": 1.1}, "partial-wave", "underutilized"),
    ({"theoretical_occupancy": 25.0, "achieved_occupancy": 24.0, "registers_per_thread": 128.0,
      "launch__occupancy_limit_registers": 2.0}, "limited-occupancy", "underutilized"),
    ({"theoretical_occupancy": 12.5, "achieved_occupancy": 12.0,
      "launch__occupancy_limit_shared_mem": 1.0}, "limited-occupancy", "underutilized"),
    ({"block_size": 32.0, "theoretical_occupancy": 50.0, "achieved_occupancy": 45.0,
      "launch__occupancy_limit_registers": 48.0, "launch__occupancy_limit_shared_mem": 48.0,
      "launch__occupancy_limit_warps": 64.0}, "tiny-blocks", "underutilized"),
    ({"threads_per_inst": 9.0}, "idle-threads", "underutilized"),
    ({"achieved_occupancy": 30.0}, "imbalance", "underutilized"),
    ({"tensor_utilization": 40.0, "l2_hit_rate": 35.0, "dram_throughput": 78.0,
      "memory_throughput": 79.0}, "tile-rereads", "memory"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "rule", "category"), SHOWN)
def test_a_cause_is_found_from_a_profile_that_shows_it(change, rule, category):
    finding = found(SOUND | change)[rule]
    assert finding.category == category
    assert finding.evidence
    named = {metric_of(alias).name for alias in change}
    assert named & {each.metric for each in finding.evidence}
    for each in finding.evidence:
        assert each.meaning
        assert each.label


def test_a_sound_profile_shows_none_of_them():
    assert found(SOUND) == {}
    findings, notes = select(case(SOUND))
    assert findings == ()
    assert "no finding" in notes[0]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_no_rule_speaks_from_nothing(rule):
    assert rule.check(case({}, spec=None)) is None
    assert rule.check(case({})) is None


def test_a_value_that_was_not_measured_is_never_read_as_zero():
    """Every finding cites only what was measured, whatever part of a profile is there."""
    chooser = random.Random(5)
    profiles = [POOR_MATVEC, SATURATED_RMSNORM, *(SOUND | change for change, _, _ in SHOWN)]
    for values, _ in itertools.product(profiles, range(12)):
        kept = {k: v for k, v in values.items() if chooser.random() < 0.4}
        known = {metric_of(alias).name: value for alias, value in kept.items()}
        looked_at = case(kept)
        for rule in RULES:
            draft = rule.check(looked_at)
            for each in draft.evidence if draft is not None else ():
                if not each.metric.startswith("roofline."):
                    assert known[each.metric] == each.value, rule.name


@pytest.mark.parametrize("missing", ["dram_throughput", "sm_throughput", "memory_throughput"])
def test_zero_and_missing_are_different(missing):
    """With the value at zero the bottleneck is named; without it, only if the rest suffices."""
    values = {"dram_throughput": 20.0, "sm_throughput": 15.0, "waves_per_sm": 4.0,
              "issue_slots_busy": 10.0}  # fmt: skip
    assert case(values).decision.bottleneck == Bottleneck.LATENCY
    less = {alias: value for alias, value in values.items() if alias != missing}
    if missing != "memory_throughput":
        assert case(less).decision.bottleneck is None


def test_nothing_is_said_of_an_empty_profile():
    known = case({})
    assert known.decision.bottleneck is None
    findings, notes = select(known)
    assert findings == ()
    assert "were not measured" in notes[0]


@pytest.mark.parametrize("values", [POOR_MATVEC, POOR_MATVEC_WIDE])
def test_a_poor_matvec_underutilizes_the_gpu(values):
    known = case(values)
    assert known.decision.bottleneck == Bottleneck.UNDERUTILIZED
    findings, notes = select(known)
    assert findings[0].rule == "small-grid"
    assert len(findings) == 2
    assert notes == ()
    assert metric_of("waves_per_sm").name in {each.metric for each in findings[0].evidence}


def test_a_saturated_kernel_is_at_the_roof_and_its_stalls_are_no_finding():
    known = case(SATURATED_RMSNORM)
    assert known.position.at_memory_roof
    assert known.decision.bottleneck == Bottleneck.MEMORY
    findings, _ = select(known)
    assert [finding.rule for finding in findings] == ["memory-roof", "room-for-fusion"]
    assert "little is left" in findings[0].cause


def test_a_roof_reached_with_twice_the_bytes_is_not_the_end():
    known = found(SATURATED_RMSNORM, floor=floor(1.88e9, 1.88e9, ms=0.88), median_ms=1.82)
    assert "memory-roof" not in known
    assert "2.0 times the bytes" in known["repeated-traffic"].cause


def test_a_time_at_the_floor_is_the_roof_whatever_the_profiler_slowed_down():
    slowed = SATURATED_RMSNORM | {"dram_throughput": 76.0, "duration": 2.1e6}
    judged = {"floor": floor(3.76e9, 3.76e9, ms=1.76), "median_ms": 1.82}
    assert not case(slowed).position.at_memory_roof
    known = case(slowed, **judged)
    assert known.position.at_memory_roof
    assert known.decision.why[0].metric == "evaluation.floor_fraction"
    (finding, _), _ = select(known)
    assert finding.rule == "memory-roof"
    assert metric_of("dram_throughput").name not in {each.metric for each in finding.evidence}


def test_a_busy_dram_far_from_the_floor_moves_too_much_even_where_bytes_were_not_counted():
    values = {k: v for k, v in SATURATED_RMSNORM.items() if not k.startswith("dram_bytes")}
    known = found(values, floor=floor(3.76e9, 3.76e9, ms=0.9), median_ms=1.82)
    assert "memory-roof" not in known
    assert known["repeated-traffic"].evidence[0].metric == "evaluation.floor_fraction"


def test_the_floor_of_a_call_is_not_that_of_one_of_its_kernels():
    judged = {"floor": floor(3.76e9, 3.76e9, ms=0.9), "median_ms": 1.82, "share": 0.5}
    assert "memory-roof" in found(SATURATED_RMSNORM, **judged)


def test_a_roof_is_judged_by_what_the_card_was_seen_to_reach():
    values = {k: v for k, v in SATURATED_RMSNORM.items() if k != "dram_throughput"}
    slower = values | {"duration": 2.2e6}  # 3.4 TB/s: 80 % of the copy
    assert case(values, ceilings=CEILINGS).position.at_memory_roof
    assert not case(slower, ceilings=CEILINGS).position.at_memory_roof


def test_the_two_findings_are_always_distinct():
    changes = [change for change, _, _ in SHOWN]
    subjects = {rule.name: rule.subject for rule in RULES}
    for one, other in itertools.combinations(changes, 2):
        findings, _ = select(case(SOUND | one | other))
        assert len(findings) <= 2
        if len(findings) == 2:
            first, second = findings
            assert subjects[first.rule] != subjects[second.rule]
            assert {e.metric for e in first.evidence} != {e.metric for e in second.evidence}


def test_what_agrees_with_the_bottleneck_comes_first_among_equals():
    values = SOUND | {"stall_barrier": 35.0, "waves_per_sm": 0.9, "sm_throughput": 30.0,
                      "dram_throughput": 30.0, "memory_throughput": 30.0}  # fmt: skip
    assert next(iter(found(values))) == "small-grid"


# --- what only machine code or source shows ---------------------------------------------------


def test_scalar_fp4_conversion_is_found_from_the_machine_code():
    emulated = static(name="nvfp4_quantize", architecture="sm_100a", instructions=500)
    known = found(SOUND, static=emulated, words="nvfp4_quantize.py", spec=B200)
    assert "hardware conversion" in known["scalar-fp4"].cause
    hardware = static(mix={"convert_fp4": 8}, architecture="sm_100a")
    assert "scalar-fp4" not in found(SOUND, static=hardware, words="nvfp4_quantize.py", spec=B200)
    assert "scalar-fp4" not in found(SOUND, static=emulated, words="softmax.py", spec=B200)
    older = static(architecture="sm_90a")
    cause = found(SOUND, static=older, words="nvfp4")["scalar-fp4"].cause
    assert "sm_90a has no such instruction" in cause


def test_a_matrix_product_that_reads_packed_fp4_converts_nothing():
    gemm = static(mix={"tcgen05": 16}, architecture="sm_100a")
    assert "scalar-fp4" not in found(SOUND, static=gemm, words="nvfp4_gemm.py", spec=B200)


def test_narrow_bf16_loads_are_found_from_the_machine_code():
    values = {k: v for k, v in SOUND.items() if k != "sectors_per_load_request"}
    narrow = static(widths={"global_load": {16: 12, 32: 2}})
    finding = found(values, static=narrow)["narrow-loads"]
    assert finding.evidence[0].value == 32
    assert "14 of 14" in finding.evidence[0].meaning
    assert "narrow-loads" not in found(values, static=static())
    mixed = static(widths={"global_load": {32: 12, 128: 2}})
    assert "narrow-loads" not in found(values, static=mixed)


def test_spills_in_the_code_count_unless_the_counters_saw_none():
    spilled = static(spill_store_bytes=64, spill_load_bytes=128)
    unknown = {k: v for k, v in SOUND.items() if not k.startswith("local_")}
    assert found(unknown, static=spilled)["register-spills"].evidence[0].value == 192
    assert "register-spills" not in found(SOUND, static=spilled)


def test_a_matmul_without_tensor_cores_is_found_from_its_operations():
    product = floor(1e8, 5e7, flops=1.4e11, ms=0.2)
    known = found(SOUND, floor=product, median_ms=1.0)
    assert known["idle-tensor-pipe"].category == "compute"
    matvec = floor(4.3e9, 4e3, flops=4.3e9)
    assert "idle-tensor-pipe" not in found(SOUND, floor=matvec, median_ms=1.0)
    assert "idle-tensor-pipe" not in found(
        SOUND | {"tensor_utilization": 30.0}, floor=product, median_ms=1.0
    )
    unknown = {k: v for k, v in SOUND.items() if k != "tensor_utilization"}
    assert "idle-tensor-pipe" not in found(unknown, floor=product, median_ms=1.0)


IDLE = """
constexpr int VECTORS = 64;
__global__ void __launch_bounds__(256) scale(const float4* x, float4* y) {
  for (int i = threadIdx.x; i < VECTORS; i += blockDim.x) { y[i] = x[i]; }
}
"""


def test_a_loop_shorter_than_the_block_leaves_threads_idle():
    finding = found(SOUND, IDLE)["idle-threads"]
    assert finding.evidence[0].value == 64
    assert "of 256 threads" in finding.evidence[0].meaning
    assert finding.severity == 0.75
    assert "idle-threads" not in found(SOUND, IDLE.replace("= 64", "= 512"))
    launched = SOUND | {"block_size": 64.0}  # what was launched counts, not what was allowed
    assert "idle-threads" not in found(launched, IDLE)


REREAD = """
__global__ void norm(const float* __restrict__ x, float* y, int n) {
  const float* row = x + blockIdx.x * n;
  __shared__ float total;
  float sum = 0.f;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += row[i] * row[i];
  reduce(sum, &total);
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = row[i] * total;
}
"""


def test_values_read_again_across_a_barrier_are_found():
    finding = found(SOUND, REREAD)["re-read-values"]
    assert "'x' is read at the same addresses in 2 regions" in finding.evidence[0].meaning
    once = REREAD.replace("y[i] = row[i] * total", "y[i] = total")
    assert "re-read-values" not in found(SOUND, once)


# --- the rules as data -------------------------------------------------------------------------


def test_rules_name_known_metrics_and_techniques_of_the_taxonomy():
    slugs = {slug for home in BOTTLENECKS for slug in taxonomy()[home]}
    names = [rule.name for rule in RULES]
    assert len(names) == len(set(names))
    for rule in RULES:
        assert rule.techniques, rule.name
        assert set(rule.techniques) <= slugs, rule.name
        assert set(rule.explains) <= set(names), rule.name
        for alias in rule.needs:
            assert metric_of(alias) in all_metrics()


# What people measure first: a few counters, and nothing that says what is computed.
FEW = [
    ({"l2_hit_rate": 30.0, "dram_throughput": 92.0}, "possible-rereads", "pid-swizzling"),
    ({"l2_hit_rate": 30.0}, "possible-rereads", "pid-swizzling"),
    ({"dram_throughput": 88.0, "global_load_efficiency": 14.0}, "uncoalesced-access",
     "coalesced-access"),
    ({"local_load_inst": 4e6, "registers_per_thread": 255.0}, "register-spills",
     "register-pressure"),
    ({"achieved_occupancy": 12.0, "registers_per_thread": 255.0}, "registers-of-a-thread",
     "register-pressure"),
]  # fmt: skip


@pytest.mark.parametrize(("values", "rule", "technique"), FEW)
def test_few_counters_give_the_cause_and_what_helps(values, rule, technique):
    answer = diagnose(facts(values, spec=None), catalog_from_corpus())
    assert answer.findings[0].rule == rule
    assert answer.findings[0].techniques[0].slug == technique
    assert "little is left" not in answer.headline


def test_at_the_roof_without_a_word_of_reuse_both_readings_are_given():
    """Shared operands that are read again, or a stream that is done."""
    answer = diagnose(facts(FEW[0][0], spec=None), catalog_from_corpus())
    assert [each.rule for each in answer.findings] == ["possible-rereads", "memory-roof"]
    # What holds only for some kernels is not in the headline.
    assert answer.headline == "The kernel is at the memory roof: only moving fewer bytes is faster."
    stream = {**FEW[0][0], "tensor_utilization": 0.0}
    assert diagnose(facts(stream), catalog_from_corpus()).findings[0].rule == "memory-roof"


def test_every_rule_is_shown_by_some_test():
    here = open(__file__, encoding="utf-8").read()  # noqa: PTH123, SIM115
    for rule in RULES:
        assert f'"{rule.name}"' in here, rule.name


def test_a_decision_gives_the_values_that_decided_it():
    for values in (POOR_MATVEC, SATURATED_RMSNORM, *(SOUND | c for c, _, _ in SHOWN)):
        known = facts(values)
        decision = decide(known, roofline(known))
        assert decision.bottleneck is not None
        assert decision.why


def test_a_few_scattered_stores_after_many_coalesced_loads_are_no_finding():
    """A reduction's results: one element a program, 6 % of a sector, a trifle of the traffic."""
    change = {
        "global_store_efficiency": 6.25, "sectors_per_store_request": 1.0,
        "global_store_requests": 2048.0, "global_load_requests": 1.6e7,
    }  # fmt: skip
    assert "uncoalesced-access" not in found(SOUND | change)
    many = change | {"global_store_requests": 1.6e7, "sectors_per_store_request": 8.0}
    assert "uncoalesced-access" in found(SOUND | many)
