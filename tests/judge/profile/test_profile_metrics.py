"""The metric schema: each metric once, in a titled section, askable of ncu."""

import re

from judge.profile.ncu import select_metrics
from kb.vocabulary import all_metrics, find_metric, metric_sections

# What KernelAgent collects (its public list), under the names of this schema.
KERNEL_AGENT_COLLECTS = """
sm__cycles_active.avg sm__warps_active.avg.pct_of_peak_sustained_active sm__inst_executed.sum
sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active
sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed
sm__throughput.avg.pct_of_peak_sustained_elapsed
gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
dram__throughput.avg.pct_of_peak_sustained_elapsed dram__bytes.sum.per_second
gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed dram__bytes_read.sum dram__bytes_write.sum
l1tex__t_sector_hit_rate.pct l1tex__throughput.avg.pct_of_peak_sustained_active
lts__t_sector_hit_rate.pct lts__throughput.avg.pct_of_peak_sustained_active
smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct
smsp__sass_average_branch_targets_threads_uniform.pct launch__occupancy_limit_blocks
launch__occupancy_limit_registers launch__occupancy_limit_shared_mem launch__registers_per_thread
launch__shared_mem_per_block_allocated
smsp__warp_issue_stalled_short_scoreboard_per_warp_active.pct
smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct
smsp__warp_issue_stalled_barrier_per_warp_active.pct
smsp__warp_issue_stalled_branch_resolving_per_warp_active.pct
"""


def test_all_that_kernelagent_collects_is_asked_for_on_every_card():
    asked = {metric.name for metric in select_metrics(available={"sm__throughput"})}
    assert set(KERNEL_AGENT_COLLECTS.split()) <= asked


def test_spellings_are_unique_and_labels_too():
    metrics = all_metrics()
    spellings = [s.lower() for m in metrics for s in (m.name, *m.aliases)]
    assert len(spellings) == len(set(spellings))
    labels = [m.label.lower() for m in metrics]
    assert len(labels) == len(set(labels))


def test_every_section_has_a_title_and_metrics():
    titles = metric_sections()
    assert list(titles) == ["sm", "tensor", "memory", "access", "occupancy", "stalls", "time"]
    assert {m.section for m in all_metrics()} == set(titles)
    assert find_metric("title") is None


def test_names_have_the_form_of_ncu_metrics():
    form = re.compile(r"(gpu|sm|smsp|dram|lts|l1tex|launch)__[a-z0-9_]+(\.[a-z0-9_]+)*")
    assert all(form.fullmatch(metric.name) for metric in all_metrics())


def test_tensor_pipes_are_asked_for_by_operation_where_the_card_has_them():
    hopper = "sm__pipe_tensor_op_hmma_cycles_active"
    blackwell = "sm__pipe_tensor_subpipe_hmma_cycles_active"
    bases = {m.name.partition(".")[0] for m in select_metrics(available={hopper})}
    assert hopper in bases
    assert blackwell not in bases
    assert {hopper, blackwell} <= {m.name.partition(".")[0] for m in select_metrics(available=())}


def test_a_metric_that_ncu_refused_is_not_asked_for_again():
    before = select_metrics(available=())
    after = select_metrics(available=(), rejected={"dram__bytes_read"})
    gone = {m.name for m in before} - {m.name for m in after}
    assert gone == {"dram__bytes_read.sum", "dram__bytes_read.sum.per_second"}
