"""What a busy level of memory is busy with: spills, streams, tiles, atomics, or all it can do."""

import pytest
from diagnose_cases import H200, case, facts, found

from agent.diagnose.diagnose import diagnose
from agent.diagnose.rules_spills import spill_share
from agent.diagnose.techniques import catalog_from_corpus

# 580 million sectors at L1 are 18.6 GB; 0.59 of them miss L1 and 0.62 of these L2: 6.8 of 6.9 GB.
SPILLED = {
    "duration": 2.413e6, "dram_throughput": 85.2, "dram_bandwidth": 2.855e12, "l2_hit_rate": 38.0,
    "l1_hit_rate": 41.2, "local_load_sectors": 3.24e8, "local_store_sectors": 2.56e8,
    "sm_throughput": 20.0,
}  # fmt: skip


def answer_of(values, spec=H200):
    return diagnose(facts(values, spec=spec), catalog_from_corpus())


def rules_of(values):
    return [finding.rule for finding in answer_of(values).findings]


def test_sectors_of_local_memory_are_spills_and_their_bytes_a_part_of_the_traffic():
    assert spill_share(case(SPILLED)) == pytest.approx(0.98, abs=0.01)
    answer = answer_of(SPILLED)
    assert answer.findings[0].rule == "register-spills"
    assert "Registers spill" in answer.headline
    rules = {finding.rule for finding in answer.findings}
    assert not rules & {"memory-roof", "possible-rereads", "tile-rereads", "repeated-traffic"}
    assert "room-for-fusion" not in rules
    (share,) = [e for e in answer.findings[0].evidence if e.metric == "roofline.spill_share"]
    assert share.unit == "%"


def test_local_memory_that_the_caches_catch_is_no_traffic():
    assert spill_share(case(SPILLED | {"l1_hit_rate": 99.0})) < 0.03
    assert spill_share(case({"local_load_sectors": 1e8})) is None
    of_l2 = {"local_load_sectors": 1e8, "l2_bytes": 6.4e9}
    assert spill_share(case(of_l2)) == 0.5


def test_a_trifle_of_spills_does_not_deny_the_roof():
    trifle = SPILLED | {"local_load_sectors": 1e6, "local_store_sectors": 1e6, "l2_hit_rate": 50.0}
    assert rules_of(trifle)[0] == "memory-roof"


# --- streams and tiles -----------------------------------------------------------------------

STREAM = {
    "duration": 1.5e6, "dram_throughput": 93.0, "sm_throughput": 20.0, "l2_hit_rate": 50.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("read", "written", "hits"), [(2.1e9, 2.1e9, 50.0), (2.1e9, 0.7e9, 26.0), (4.0e9, 1e4, 3.0)]
)
def test_hits_that_reads_and_writes_explain_accuse_no_one(read, written, hits):
    values = STREAM | {"dram_bytes_read": read, "dram_bytes_write": written, "l2_hit_rate": hits}
    answer = answer_of(values)
    assert "possible-rereads" not in {finding.rule for finding in answer.findings}
    assert answer.findings[0].rule == "memory-roof"
    assert "little is left" in answer.headline


def test_a_copy_is_supposed_where_bytes_were_not_measured():
    assert "possible-rereads" not in found(STREAM)
    assert "possible-rereads" in found(STREAM | {"l2_hit_rate": 30.0})


def test_reads_that_hit_tell_that_blocks_share_something():
    reader = STREAM | {"dram_bytes_read": 4e9, "dram_bytes_write": 4e7, "l2_hit_rate": 40.0}
    assert "possible-rereads" in found(reader)


# --- what helps against a full unit ------------------------------------------------------------

BUSY = {"dram_throughput": 14.0, "sm_throughput": 29.0, "duration": 4.1e5, "l2_hit_rate": 94.0}
ADVICE = [
    ({"l2_throughput": 93.0}, {"shared-memory-tiling", "register-caching"}),
    ({"lsu_pipe": 93.0, "sm_throughput": 91.0, "sectors_per_load_request": 4.0},
     {"vectorized-access"}),
    ({"alu_pipe": 90.0, "sm_throughput": 90.0}, {"shape-specialization"}),
    ({"xu_pipe": 90.0, "sm_throughput": 90.0}, {"fast-math"}),
    ({"fp64_pipe": 90.0, "sm_throughput": 90.0}, {"mixed-precision-math"}),
    ({"fma_pipe": 90.0, "sm_throughput": 90.0}, {"tensor-cores"}),
]  # fmt: skip


@pytest.mark.parametrize(("change", "first"), ADVICE)
def test_the_first_advice_relieves_the_unit_that_is_full(change, first):
    assert answer_of(BUSY | change).findings[0].techniques[0].slug in first


def test_l1_full_of_bank_conflicts_or_scattered_accesses_is_not_at_its_ceiling():
    full = BUSY | {"l1_throughput": 94.0, "shared_wavefronts": 3.3e7, "shared_bank_conflicts": 0.0}
    assert rules_of(full)[0] == "l1-ceiling"
    assert rules_of(full | {"shared_bank_conflicts": 3.1e7})[0] == "bank-conflicts"
    assert rules_of(full | {"global_load_efficiency": 12.5})[0] == "uncoalesced-access"


def test_a_trifle_of_conflicts_or_spills_does_not_fill_a_unit():
    full = BUSY | {"l1_throughput": 94.0, "shared_wavefronts": 3.3e7, "shared_bank_conflicts": 4e6,
                   "stall_mio_throttle": 50.0, "inst_executed": 1e8}  # fmt: skip
    assert rules_of(full)[0] == "l1-ceiling"
    assert rules_of(full | {"local_load_inst": 2e6})[0] == "l1-ceiling"
    assert rules_of(full | {"local_load_inst": 3e7})[0] == "register-spills"


# --- atomics ---------------------------------------------------------------------------------

ATOMICS = {
    "sm_throughput": 3.0, "dram_throughput": 2.2, "l2_throughput": 14.0, "issue_slots_busy": 2.0,
    "global_red_requests": 3.4e7, "duration": 4.1e6,
}  # fmt: skip


def test_atomics_are_found_by_their_count_or_by_the_queue():
    answer = answer_of(ATOMICS)
    assert answer.findings[0].rule == "contended-atomics"
    assert answer.findings[0].techniques[0].slug == "atomics-privatization"
    queue = {k: v for k, v in ATOMICS.items() if k != "global_red_requests"}
    assert "contended-atomics" not in found(queue)
    assert "contended-atomics" in found(queue | {"stall_lg_throttle": 84.0})
    scattered = {"stall_lg_throttle": 84.0, "sectors_per_store_request": 32.0}
    assert "contended-atomics" not in found(queue | scattered)


def test_few_atomics_among_many_loads_are_the_end_of_a_reduction():
    assert "contended-atomics" not in found(ATOMICS | {"global_load_requests": 4e9})
    assert "contended-atomics" not in found(ATOMICS | {"global_red_requests": 500.0})
    assert "contended-atomics" not in found(ATOMICS | {"dram_throughput": 80.0})
