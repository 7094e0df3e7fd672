"""Profiles that show one thing each, as aliases of metrics, and facts made of them."""

from agent.diagnose.bottleneck import decide
from agent.diagnose.facts import Facts, metric_of
from agent.diagnose.findings import select
from agent.diagnose.result import Finding
from agent.diagnose.roofline import roofline
from agent.diagnose.rules import Case
from judge.evaluate.result import Ceilings, Floor
from judge.profile.result import StaticFacts
from kb.gpus import find_spec
from kb.pasted.source import read_source

H200 = find_spec("H200")
B200 = find_spec("B200")

# One row per program, one warp, 32 elements a step: 2048 programs on 132 SMs.
POOR_MATVEC = {
    "sm_throughput": 9.1, "memory_throughput": 17.0, "dram_throughput": 16.2,
    "dram_bytes_read": 4.3e9, "dram_bytes_write": 12_000.0, "duration": 5.6e6,
    "achieved_occupancy": 23.9, "theoretical_occupancy": 50.0, "waves_per_sm": 0.48,
    "grid_size": 2048.0, "block_size": 32.0, "stall_long_scoreboard": 71.0,
    "issue_slots_busy": 6.5, "launch__occupancy_limit_blocks": 32.0,
    "launch__occupancy_limit_registers": 64.0, "launch__occupancy_limit_shared_mem": 56.0,
    "launch__occupancy_limit_warps": 64.0, "l2_hit_rate": 40.0, "l1_hit_rate": 1.0,
    "threads_per_inst": 31.9, "branch_uniformity": 100.0, "tensor_utilization": 0.0,
    "global_load_efficiency": 100.0, "sectors_per_load_request": 4.0, "registers_per_thread": 28.0,
}  # fmt: skip
# The same with one warp more per block's worth of slots: full blocks, and still not a full wave.
POOR_MATVEC_WIDE = POOR_MATVEC | {
    "achieved_occupancy": 92.0, "theoretical_occupancy": 100.0, "waves_per_sm": 0.97,
    "block_size": 128.0, "launch__occupancy_limit_blocks": 32.0, "dram_throughput": 29.0,
    "launch__occupancy_limit_registers": 18.0, "launch__occupancy_limit_warps": 16.0,
}  # fmt: skip
SATURATED_RMSNORM = {
    "sm_throughput": 31.0, "memory_throughput": 88.0, "dram_throughput": 87.4,
    "dram_bytes_read": 3.76e9, "dram_bytes_write": 3.76e9, "duration": 1.82e6,
    "achieved_occupancy": 80.0, "theoretical_occupancy": 100.0, "waves_per_sm": 12.0,
    "stall_long_scoreboard": 62.0, "issue_slots_busy": 22.0, "l2_hit_rate": 51.0,
    "l1_hit_rate": 2.0, "tensor_utilization": 0.0, "threads_per_inst": 32.0,
    "global_load_efficiency": 100.0, "sectors_per_load_request": 16.0, "block_size": 256.0,
    "grid_size": 16384.0, "fadd_thread_inst": 1e9, "fmul_thread_inst": 2e9,
    "ffma_thread_inst": 1e9, "hadd_thread_inst": 0.0, "hmul_thread_inst": 0.0,
    "hfma_thread_inst": 0.0,
}  # fmt: skip
# A kernel with nothing wrong that the rules know: what the other cases are made from.
SOUND = {
    "sm_throughput": 55.0, "memory_throughput": 58.0, "dram_throughput": 55.0,
    "duration": 1e6, "achieved_occupancy": 70.0, "theoretical_occupancy": 75.0,
    "waves_per_sm": 9.9, "grid_size": 9000.0, "block_size": 256.0, "issue_slots_busy": 45.0,
    "stall_long_scoreboard": 20.0, "stall_short_scoreboard": 5.0, "stall_barrier": 2.0,
    "stall_math_pipe_throttle": 3.0, "stall_mio_throttle": 1.0, "stall_lg_throttle": 1.0,
    "l1_hit_rate": 10.0, "l2_hit_rate": 50.0, "l2_read_hit_rate": 20.0,
    "global_load_efficiency": 100.0, "global_store_efficiency": 100.0,
    "sectors_per_load_request": 16.0, "sectors_per_store_request": 16.0,
    "shared_bank_conflicts": 0.0, "shared_wavefronts": 1e6, "inst_executed": 1e8,
    "local_load_inst": 0.0, "local_store_inst": 0.0, "branch_uniformity": 100.0,
    "threads_per_inst": 31.5, "tensor_utilization": 0.0, "registers_per_thread": 40.0,
    "launch__occupancy_limit_registers": 6.0, "launch__occupancy_limit_shared_mem": 16.0,
    "launch__occupancy_limit_blocks": 32.0, "launch__occupancy_limit_warps": 8.0,
}  # fmt: skip

CEILINGS = Ceilings(
    read_bps=4.4e12, write_bps=4.1e12, copy_bps=4.27e12,
    matmul_flops={"bfloat16": 7.5e14, "float32": 5.2e13}, measured_at="2026-11-22T00:00:00Z",
)  # fmt: skip


def metrics(values):
    """Aliases to full names; a misspelt alias raises."""
    return {metric_of(alias).name: value for alias, value in values.items()}


def facts(values, source=None, spec=H200, **more):
    return Facts(
        metrics=metrics(values), spec=spec, source=read_source(source) if source else None, **more
    )


def case(*arguments, **options):
    known = facts(*arguments, **options)
    position = roofline(known)
    return Case(known, position, decide(known, position))


def found(*arguments, **options) -> dict[str, Finding]:
    """Rule → finding, of the two."""
    findings, _ = select(case(*arguments, **options))
    return {finding.rule: finding for finding in findings}


def static(**changed) -> StaticFacts:
    """Machine code of a kernel with 128-bit loads and nothing odd."""
    values = {
        "function": "kernel", "name": "kernel", "origin": "nvcc", "architecture": "sm_90a",
        "registers": 40, "spill_store_bytes": 0, "spill_load_bytes": 0, "stack_bytes": 0,
        "shared_bytes": 0, "instructions": 200, "mix": {"global_load": 4},
        "widths": {"global_load": {128: 4}},
    }  # fmt: skip
    return StaticFacts.model_validate(values | changed)


def floor(read, written, flops=0.0, ms=1.0) -> Floor:
    return Floor(read_bytes=int(read), write_bytes=int(written), flops=flops, ms=ms, bound="memory")
