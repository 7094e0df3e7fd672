"""Numbers in running text: what is read, and what is left alone."""

import time

import pytest

from kb.profiles.mentions import read_mentions
from kb.vocabulary import find_metric

STATED = [
    # As typed by people who were misread, or not read at all.
    ("waves per SM 0.5 matmul", {"waves_per_sm": 0.5}),
    ("L2 hit rate 30 gemm", {"l2_hit_rate": 30}),
    ("Registers Per Thread register/thread      168", {"registers_per_thread": 168}),
    ("dram throughput 1.2 TB/s", {"dram_bandwidth": 1.2e12}),
    ("30% L2 hit rate", {"l2_hit_rate": 30}),
    ("255 registers per thread", {"registers_per_thread": 255}),
    ("long scoreboard 65%", {"stall_long_scoreboard": 65}),
    ("tensor core utilization 85%", {"tensor_utilization": 85}),
    # The number behind the name.
    ("my matmul rereads the same tiles and L2 hit rate is 30%", {"l2_hit_rate": 30}),
    ("lts__t_sector_hit_rate.pct 92", {"l2_hit_rate": 92}),
    ("l2_hit_rate: 30", {"l2_hit_rate": 30}),
    ("l2_hit_rate=30.5 after fusing", {"l2_hit_rate": 30.5}),
    ("achieved occupancy of only 12 %", {"achieved_occupancy": 12}),
    ("occupancy is stuck at 25 percent", {"achieved_occupancy": 25}),
    ("theoretical occupancy 50, matmul", {"theoretical_occupancy": 50}),
    ("DRAM throughput of my softmax kernel on H100 is 40%", {"dram_throughput": 40}),
    ("DRAM at 3.1 TB/s", {"dram_bandwidth": 3.1e12}),
    ("memory bandwidth reaches just 900 GB/s", {"dram_bandwidth": 9e11}),
    ("HBM throughput ~ 55%", {"dram_throughput": 55}),
    ("memory throughput: 88 %", {"memory_throughput": 88}),
    ("memory throughput 2.1 TB/s in a copy", {"dram_bandwidth": 2.1e12}),
    ("L1/TEX hit rate 3 %", {"l1_hit_rate": 3}),
    ("L1 hit rate = 70", {"l1_hit_rate": 70}),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed 9.1", {"sm_throughput": 9.1}),
    ("kernel takes 30 us", {"duration": 30e3}),
    ("kernel duration 1.5 ms", {"duration": 1.5e6}),
    ("stall_long_scoreboard=65", {"stall_long_scoreboard": 65}),
    ("warps stalled on short scoreboard 40%", {"stall_short_scoreboard": 40}),
    ("stall wait 35 %", {"stall_wait": 35}),
    ("Stall Not Selected is 45%", {"stall_not_selected": 45}),
    ("stalled at a barrier 31%", {"stall_barrier": 31}),
    ("mio throttle 22%", {"stall_mio_throttle": 22}),
    ("eligible warps per scheduler 0.4", {"eligible_warps_per_scheduler": 0.4}),
    ("issue slots busy 15 %", {"issue_slots_busy": 15}),
    ("No Eligible 85 %", {"issue_slots_busy": 15}),
    ("sectors per request: 32", {"sectors_per_load_request": 32}),
    ("sector efficiency only 14 %", {"global_load_efficiency": 14}),
    ("branch efficiency 70%", {"branch_uniformity": 70}),
    ("Branch Efficiency 0 %, Avg. Divergent Branches 0", {"divergent_branches": 0}),
    ("bank conflicts 4.2 million", {"shared_bank_conflicts": 4.2e6}),
    ("shared memory per block 96 KiB", {"shared_mem_per_block": 98304}),
    ("dynamic shared memory 64 KB", {"dynamic_shared_mem_per_block": 64000}),
    ("IPC 0.5", {"ipc": 0.5}),
    ("L2 miss rate 70%", {"l2_hit_rate": 30}),
    ("waves per SM is 2.6 on an A100", {"waves_per_sm": 2.6}),
    ("L2 hit rate went from 80% to 30% after the change", {"l2_hit_rate": 30}),
    ("L2 hit rate 30-40%", {"l2_hit_rate": 35}),
    ("occupancy of 0.25", {"achieved_occupancy": 25}),
    ("tensor pipe utilization: 2%", {"tensor_utilization": 2}),
    ("XU pipe utilization 92%", {"xu_pipe": 92}),
    ("SM active 30%", {"sm_active_share": 30}),
    ("register count 168", {"registers_per_thread": 168}),
    # The number before the name.
    ("only 12% occupancy", {"achieved_occupancy": 12}),
    ("65% long scoreboard stalls", {"stall_long_scoreboard": 65}),
    ("60% of warps stalled on long scoreboard", {"stall_long_scoreboard": 60}),
    ("memory bound at 40 % of DRAM bandwidth", {"dram_throughput": 40}),
    ("85% tensor core utilization", {"tensor_utilization": 85}),
    ("reaches 35% of peak memory bandwidth", {"dram_throughput": 35}),
    ("1.2 TB/s DRAM throughput", {"dram_bandwidth": 1.2e12}),
    ("0.48 waves per SM", {"waves_per_sm": 0.48}),
    ("168 registers, matmul", {"registers_per_thread": 168}),
    ("4 million local loads", {"local_load_inst": 4e6}),
    ("4M local loads", {"local_load_inst": 4e6}),
    ("256 threads per block", {"block_size": 256}),
    # Several.
    ("30% L2 hit rate 92% DRAM throughput", {"l2_hit_rate": 30, "dram_throughput": 92}),
    ("30% L2 hit rate and 92% DRAM throughput", {"l2_hit_rate": 30, "dram_throughput": 92}),
    ("L2 hit rate 30%, DRAM throughput 92%", {"l2_hit_rate": 30, "dram_throughput": 92}),
    ("occupancy 12 % with 255 registers", {"occupancy": 12, "registers_per_thread": 255}),
    ("L2 Hit Rate    %    30.12", {"l2_hit_rate": 30.12}),
    ("    Block Size                     256", {"block_size": 256}),
    ("Dynamic Shared Memory Per Block   Kbyte/block   65.54",
     {"dynamic_shared_mem_per_block": 65540}),
    ("Compute (SM) Throughput   %   18.25\nMemory Throughput  %  46.1",
     {"sm_throughput": 18.25, "memory_throughput": 46.1}),
    ("Memory Throughput   Gbyte/second   900.1\nDuration  usecond  12.40",
     {"dram_bandwidth": 9.001e11, "duration": 12400}),
    ('{"lts__t_sector_hit_rate.pct": 30, "sm_throughput": 9}',
     {"l2_hit_rate": 30, "sm_throughput": 9}),
    ('"0","k","Launch Statistics","Registers Per Thread","register/thread","168"',
     {"registers_per_thread": 168}),
    ("| L2 Hit Rate | % | 30.1 |", {"l2_hit_rate": 30.1}),
    # A part of a whole.
    ("stall long_scoreboard 25.1 of 30.8 cycles", {"stall_long_scoreboard": 100 * 25.1 / 30.8}),
    ("25.1 of 30.8 cycles stalled on long scoreboard",
     {"stall_long_scoreboard": 100 * 25.1 / 30.8}),
    ("barrier stall 12 out of 48 cycles, L2 hit rate 40%",
     {"stall_barrier": 25, "l2_hit_rate": 40}),
    ("occupancy 16 of 64 warps", {"achieved_occupancy": 25}),
    ("DRAM throughput 3 of 4 TB/s", {"dram_throughput": 75}),
    ("registers per thread 168 of 255", {"registers_per_thread": 168}),
    # A sentence of Nsight Compute's rules.
    ("On average, each warp of this workload spends 25.1 cycles being stalled waiting for sibling "
     "warps at a CTA barrier. This stall type represents about 81.5% of the total average of 30.8 "
     "cycles between issuing two instructions.", {"stall_barrier": 81.5}),
    # One of several statistics.
    ("sm__cycles_active min 198k max 3190k avg 271k", {"sm_cycles_active": 271_000}),
    ("sm__cycles_active: avg 271k, min 198k, max 3190k", {"sm_cycles_active": 271_000}),
    ("sm__cycles_active 271k (min 198k, max 3190k)", {"sm_cycles_active": 271_000}),
    ("sm__cycles_elapsed max 3190k", {"sm_cycles_elapsed": 3_190_000}),
    ("sm_throughput 40% max occupancy 50%", {"sm_throughput": 40, "theoretical_occupancy": 50}),
]  # fmt: skip

SILENT = [
    "matmul 4096x4096 in fp16",
    "L2 hit rate of a 4096x4096 matmul",
    "128x128 tiles and the L2 hit rate",
    "softmax over 32768 columns is slow",
    "L2 hit rate is low for batch 64",
    "L2 hit rate drops when the batch grows to 128",
    "occupancy drops at head dimension 256",
    "occupancy with 1024 threads is too low",
    "10% higher occupancy",
    "20% more occupancy did not help",
    "L2 hit rate improved by 10%",
    "L2 hit rate 10% higher than before",
    "2x occupancy",
    "occupancy of 2 blocks per SM",
    "65536 registers per SM",
    "registers of 32 bits",
    "hold 8 registers for the accumulator",
    "registers per thread reported for kernel 3",
    "BLOCK_SIZE = 1024",
    "block size 128 with 4 warps",
    "num_warps=8 and num_stages=4",
    "8-way bank conflicts",
    "bank conflicts with a stride of 32 floats",
    "bank conflicts in 32 banks",
    "what is a warp of 32 threads",
    "H100 with 132 SMs",
    "H200 has 4.8 TB/s",
    "A100 80 GB",
    "sm_90a wgmma m64n256k16",
    "cp.async with 3 stages",
    "speedup of 1.3x over cuBLAS",
    "30% faster than cuBLAS",
    "tensor cores give 8x",
    "tensor cores since sm_70",
    "tensor cores for 8 bit integers",
    "fp8 e4m3 with 2 scales",
    "DRAM burst of 64 bytes",
    "DRAM has 5 stacks",
    "HBM3e on 2 dies",
    "kernel takes 3 arguments",
    "kernel duration grows with 30 epochs",
    "duration 3 hours",
    "error 700 an illegal memory access",
    "OutOfResources: shared memory, Required: 264192, Hardware limit: 232448",
    "ptxas error: uses too much shared data (0x19000 bytes, 0xc000 max)",
    "top-k with k = 50",
    "layer norm of 768 channels",
    "split-k of 4 for a skinny matmul",
    "swizzle of 128B in TMA",
    "waves of 132 blocks",
    "wave quantization with 133 blocks on 132 SMs",
    "stalls since version 3.2",
    "barrier 1 of 16 named barriers",
    "barrier after every 4 iterations",
    "attention with 32 heads of 128",
    "sequence length 8192 OOM at 80 GB",
    "loss differs by 0.3 %",
    "relative error 1e-3",
    "unroll 4 times",
    "vectorized loads of 16 bytes",
    "bandwidth of NVLink is 900 GB",
    "CUDA 12.4 and Triton 3.2",
    "from 4 to 8 pipeline stages",
    "L2 is 50 MB",
    "the L2 hit rate formula in chapter 7",
    "grid of 1024 blocks",
    "memory bandwidth matters in 3 ways",
    "sectors are 32 bytes",
    "sm__cycles_active min 198k max 3190k",
    "L2 hit rate max 60%",
    "sm_throughput 90% max",
    "1184 bytes stack frame, 1184 bytes spill stores, 2040 bytes spill loads",
]


def read(text):
    return read_mentions(text).metrics


@pytest.mark.parametrize(("text", "expected"), STATED)
def test_a_metric_with_its_value_is_read(text, expected):
    named = {find_metric(alias).name: value for alias, value in expected.items()}
    assert read(text) == pytest.approx(named)


@pytest.mark.parametrize("text", SILENT)
def test_other_numbers_are_left_alone(text):
    assert read(text) == {}


def test_a_bound_is_not_the_value_itself():
    """`below 60 %` meets a gate `< 60`, which 60 does not."""
    (value,) = read("L2 hit rate below 60%").values()
    assert 59.999 < value < 60
    (value,) = read("waves per SM > 1").values()
    assert 1 < value < 1.001


def test_words_of_a_metric_that_was_read_name_nothing_else():
    rest = read_mentions("low achieved_occupancy 31 in occupancy tuning").rest
    assert "achieved" not in rest
    assert rest.endswith("occupancy tuning")


@pytest.mark.parametrize(
    "text",
    ["L2 hit rate min " + "1 max " * 3000, "1 of " * 5000 + "L2 hit rate",
     "L2 hit rate " * 2000, "30% " * 5000, "7" * 20_000, "L2 hit rate " + "is " * 6000 + "30%",
     "from 1 to " * 2500, "dram__" * 3000, "1,000," * 3000, "L2 hit rate 30% " * 1200],
)  # fmt: skip
def test_reading_takes_time_in_proportion_to_the_text(text):
    started = time.process_time()
    read(text[:20_000])
    assert time.process_time() - started < 1.0
