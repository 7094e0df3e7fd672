"""The position under the roofs: right arithmetic, and None where a value is missing."""

import pytest
from diagnose_cases import B200, CEILINGS, H200, SATURATED_RMSNORM, SOUND, facts, floor

from agent.diagnose.roofline import roofline
from kb.gpus import find_spec

MATMUL = {"duration": 1e6, "dram_bytes_read": 1.5e9, "dram_bytes_write": 0.5e9,
          "tensor_utilization": 60.0}  # fmt: skip


def test_intensity_and_attained_rates_against_the_data_sheet():
    product = floor(1.5e9, 0.5e9, flops=4e11)
    at = roofline(facts(MATMUL, floor=product, dtype="bfloat16"))
    assert at.seconds == pytest.approx(1e-3)
    assert at.bytes == 2e9
    assert at.intensity == pytest.approx(200)
    assert at.attained_bps == pytest.approx(2e12)
    assert at.attained_flops == pytest.approx(4e14)
    assert at.memory_roof.value == 4.8e12
    assert at.compute_roof.value == 989.5e12
    assert at.ridge == pytest.approx(989.5e12 / 4.8e12)
    assert at.region == "memory"
    assert at.memory_fraction == pytest.approx(2 / 4.8)
    assert at.compute_fraction == pytest.approx(4e14 / 989.5e12)


def test_measured_ceilings_come_before_printed_ones():
    at = roofline(facts(MATMUL, floor=floor(1.5e9, 0.5e9, flops=4e11), dtype="bfloat16",
                        ceilings=CEILINGS))  # fmt: skip
    assert (at.memory_roof.name, at.memory_roof.value) == ("DRAM copy", 4.27e12)
    assert at.memory_roof.source == at.compute_roof.source == "measured"
    assert at.compute_roof.value == 7.5e14


@pytest.mark.parametrize(
    ("read", "written", "name"),
    [(1e9, 1e3, "DRAM read"), (1e3, 1e9, "DRAM write"), (1e9, 1e9, "DRAM copy")],
)
def test_the_bandwidth_roof_is_that_of_the_kernels_own_mix(read, written, name):
    values = {"duration": 1e6, "dram_bytes_read": read, "dram_bytes_write": written}
    assert roofline(facts(values, ceilings=CEILINGS)).memory_roof.name == name


def test_operations_are_counted_where_no_evaluation_gives_them():
    at = roofline(facts(SATURATED_RMSNORM))
    assert at.flops == 1e9 + 2e9 + 2 * 1e9
    assert at.compute_roof.name == "fp32"
    assert at.region == "memory"
    without = {k: v for k, v in SATURATED_RMSNORM.items() if k != "ffma_thread_inst"}
    assert roofline(facts(without)).flops is None


def test_counted_scalar_operations_are_not_taken_for_a_tensor_kernels_work():
    values = SATURATED_RMSNORM | {"tensor_utilization": 40.0}
    assert roofline(facts(values)).flops is None
    at = roofline(facts(values | {"tensor_bf16_ops": 9e12}))
    assert at.flops == pytest.approx(9.005e12)
    assert at.compute_roof.value == 989.5e12


@pytest.mark.parametrize(
    ("dtype", "tf32", "rate"),
    [("float32", False, 67e12), ("float32", True, 494.5e12), ("float16", False, 989.5e12)],
)
def test_tf32_is_a_choice_that_changes_the_roof(dtype, tf32, rate):
    at = roofline(facts(MATMUL, floor=floor(1e9, 1e9, flops=4e11), dtype=dtype, tf32=tf32))
    assert at.compute_roof.value == rate


def test_a_type_the_card_lacks_has_no_roof():
    product = floor(1e8, 1e8, flops=4e11)
    assert roofline(facts(MATMUL, floor=product, dtype="nvfp4")).compute_roof is None
    on_b200 = roofline(facts(MATMUL, floor=product, dtype="nvfp4", spec=B200))
    assert on_b200.compute_roof.value == 9000e12


def test_traffic_is_compared_with_the_least_bytes():
    at = roofline(facts(SATURATED_RMSNORM, floor=floor(1.88e9, 1.88e9), median_ms=1.82))
    assert at.traffic_ratio == pytest.approx(2.0)
    assert at.floor_fraction == pytest.approx(1 / 1.82)


def test_a_problem_that_fits_in_l2_says_nothing_of_traffic():
    values = {"duration": 5e3, "dram_bytes_read": 1e8, "dram_bytes_write": 0.0}
    small = floor(1e7, 1e7)
    assert roofline(facts(values, floor=small)).traffic_ratio is None
    assert roofline(facts(values, floor=small, spec=find_spec("A10"))).traffic_ratio == 5.0


def test_a_kernel_that_is_a_part_of_the_call_is_not_given_the_problems_work():
    product = floor(1.5e9, 0.5e9, flops=4e11)
    at = roofline(facts(MATMUL, floor=product, median_ms=2.0, share=0.5))
    assert at.seconds == pytest.approx(1e-3)
    assert at.flops is None
    assert at.traffic_ratio is None


def test_without_a_card_only_percentages_are_known():
    at = roofline(facts(SOUND, spec=None))
    assert at.memory_roof is None
    assert at.memory_fraction == pytest.approx(0.55)
    assert at.attained_bps is None


def test_nothing_is_known_from_nothing():
    at = roofline(facts({}, spec=None))
    assert all(value is None for name, value in at.model_dump().items() if name != "at_memory_roof")
    assert not at.at_memory_roof
    assert roofline(facts({})).memory_roof.value == H200.memory_bps


def test_the_card_of_a_family_is_the_one_that_ncus_percentage_agrees_with():
    values = {"dram_throughput": 70.0, "dram_bandwidth": 1.43e12}
    at = roofline(facts(values, spec=find_spec("A100-SXM4-40GB")))
    assert at.memory_roof.name == "DRAM of A100-SXM4-80GB"
    assert at.memory_fraction == pytest.approx(0.70, abs=0.01)
    assert not at.at_memory_roof
    agreed = roofline(facts(values, spec=find_spec("A100-SXM4-80GB")))
    assert (agreed.memory_roof.name, agreed.memory_roof.value) == ("DRAM", 2.039e12)


def test_a_data_sheet_that_ncus_percentage_contradicts_is_no_roof():
    at = roofline(facts({"dram_throughput": 40.0, "dram_bandwidth": 4.4e12}))
    assert at.memory_roof is None
    assert at.memory_fraction == pytest.approx(0.40)
    assert not at.at_memory_roof


def test_nothing_attains_more_than_its_roof():
    fast = {"duration": 1e6, "dram_bytes_read": 5e9, "dram_bytes_write": 0.0}
    assert roofline(facts(fast)).memory_fraction == 1
    assert roofline(facts(fast, ceilings=CEILINGS)).memory_fraction == 1
    assert roofline(facts({"dram_throughput": 103.0}, spec=None)).memory_fraction == 1


def test_ncus_percentage_decides_whether_the_printed_roof_is_reached():
    """81 % of the printed bandwidth is what a copy reaches; the percentage is just below."""
    values = {"dram_throughput": 80.0, "dram_bandwidth": 0.82 * H200.memory_bps}
    assert not roofline(facts(values)).at_memory_roof
    assert roofline(facts({"dram_bandwidth": 0.82 * H200.memory_bps})).at_memory_roof
