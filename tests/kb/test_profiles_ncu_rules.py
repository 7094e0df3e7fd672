"""Sentences of Nsight Compute's rules: figures that the details page gives nowhere else."""

import time

import pytest

from kb.profiles.ncu_rules import rule_figures, rule_remark
from kb.profiles.reading import read_profile
from kb.vocabulary import find_metric

STALL = (
    "On average, each warp of this workload spends {} cycles being stalled {}. Advice follows. "
    "This stall type represents about {}% of the total average of 30.8 cycles between issuing two "
    "instructions."
)
L1TEX = "waiting for a scoreboard dependency on a L1TEX (local, global, surface, texture) operation"
CONFLICTS = (
    "The memory access pattern for shared loads might not be optimal and causes on average a 16.0 "
    "- way bank conflict across all 2097152 shared load requests.This results in 31,457,280 bank "
    "conflicts,  which represent 93.75% of the overall 33554432 wavefronts for shared loads."
)
SECTORS = (
    "The memory access pattern for global stores to L1TEX might not be optimal. On average, only "
    "4.0 of the 32 bytes transmitted per sector are utilized by each thread."
)
EXCESS = (
    "This kernel has uncoalesced global accesses resulting in a total of 58720256 excessive "
    "sectors (78% of the total 75497472 sectors)."
)
ROWS = """  k(int) (8, 1, 1)x(64, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Warp State Statistics
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    Duration                         us         1.50
    ----------------------- ----------- ------------

    OPT   Est. Speedup: 70.67%
          On average, each warp of this workload spends 17.4 cycles being stalled waiting for the MIO (memory
          input/output) instruction queue to be not full. This stall type represents about 63.6% of the total
          average of 37.7 cycles between issuing two instructions.
    ----- -----------------------------------------------------------------
    WRN   This kernel has uncoalesced global accesses resulting in a total of 5 excessive sectors (78% of the
          total 8 sectors).

    Section: Launch Statistics
    Registers Per Thread             register/thread             168
"""  # noqa: E501 - as ncu prints it


def by_alias(metrics):
    return {find_metric(name).aliases[0]: value for name, value in metrics.items()}


@pytest.mark.parametrize(
    ("reason", "alias"),
    [
        (L1TEX, "long_scoreboard"),
        ("waiting for a scoreboard dependency on a MIO (memory input/output) operation (not to "
         "L1TEX)", "short_scoreboard"),
        ("waiting for sibling warps at a CTA barrier", "barrier"),
        ("waiting for the L1 instruction queue for local and global (LG) memory operations to be "
         "not full", "lg_throttle"),
        ("waiting for the MIO (memory input/output) instruction queue to be not full",
         "mio_throttle"),
        ("waiting for the execution pipe to be available", "math_pipe_throttle"),
        ("waiting on a fixed latency execution dependency", "wait"),
        ("due to not having the next instruction fetched yet", "no_instruction"),
    ],
)  # fmt: skip
def test_the_stall_that_a_rule_names_is_read_with_its_share(reason, alias):
    assert by_alias(rule_figures(STALL.format(25.1, reason, 81.5))) == {f"stall_{alias}": 81.5}


def test_other_sentences_give_no_stall():
    assert rule_figures(STALL.format(25.1, "waiting for a reason of tomorrow", 81.5)) == {}
    assert rule_figures(STALL.format(25.1, L1TEX, 250)) == {}
    assert rule_figures("Check the Warp Stall Sampling table for the top stall locations.") == {}


def test_bank_conflicts_and_sector_use_are_read():
    kind = "pipe_lsu{}_mem_shared_op_ld.sum"
    assert rule_figures(CONFLICTS) == {
        "l1tex__data_bank_conflicts_" + kind.format(""): 31_457_280,
        "l1tex__data_" + kind.format("_wavefronts"): 33_554_432,
    }
    assert by_alias(rule_figures(SECTORS)) == {"global_store_efficiency": 12.5}
    assert rule_figures(SECTORS.replace("to L1TEX", "to DRAM")) == {}
    assert rule_figures(SECTORS.replace("global", "local")) == {}


def test_excessive_sectors_are_a_remark():
    assert rule_remark(EXCESS) == (
        "ncu counts 58720256 excessive sectors of uncoalesced global accesses, 78 % of all"
    )
    assert rule_remark(EXCESS.replace("78%", "0%")) is None
    assert rule_remark(SECTORS) is None


def test_rules_of_the_console_are_joined_and_change_nothing_measured():
    read = read_profile(ROWS, "p.txt")
    found = by_alias(read.metrics)
    assert found == {"duration": 1500, "stall_mio_throttle": 63.6, "registers_per_thread": 168}
    (note,) = read.notes
    assert note.startswith("ncu counts 5 excessive sectors of uncoalesced global accesses")
    measured = ROWS + "    stall_mio_throttle               %                 40\n"
    assert by_alias(read_profile(measured, "p.txt").metrics)["stall_mio_throttle"] == 40


def test_rules_of_the_details_page_are_read():
    head = '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value","Rule Description"\n'
    rows = "".join(f'"0","k","","","","{text}"\n' for text in (CONFLICTS, SECTORS, EXCESS))
    read = read_profile(head + '"0","k","Duration","us","1",""\n' + rows, "p.csv")
    assert by_alias(read.metrics) == {
        "duration": 1000, "global_store_efficiency": 12.5,
        "shared_bank_conflicts": 31_457_280, "shared_wavefronts": 33_554_432,
    }  # fmt: skip
    assert len(read.notes) == 1


def test_no_rule_stalls_the_reader():
    started = time.process_time()
    for text in (STALL, CONFLICTS, SECTORS, EXCESS, " cycles being stalled ", "results in 1"):
        rule_figures(text * 20_000)
        rule_remark(text * 20_000)
    read_profile(ROWS + "    OPT   x\n" + "          stalled by 1  2\n" * 100_000, "p")
    read_profile(ROWS + "    OPT   x\n" * 100_000, "p")
    assert time.process_time() - started < 4.0
