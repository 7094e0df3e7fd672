"""ncu's raw page as CSV: kept apart by kernel, weighted by time, with what is missing said."""

import json

import pytest
from raw_page import raw_page

from judge.profile.report import profile_kernels
from kb.errors import InvalidInputError
from kb.profiles.launches import DURATION, is_total
from kb.profiles.ncu_tables import parse_csv, parse_number
from kb.vocabulary import all_metrics, find_metric

LOAD = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"
READ = "dram__bytes_read.sum"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
REGISTERS = "launch__registers_per_thread"


def test_launches_are_kept_apart_by_kernel_and_weighted_by_time():
    page = raw_page(
        [
            {"kernel": "void copy<float, 4>(float *)", "metrics": {DURATION: 1000, SM: 10.0}},
            {"kernel": "_matmul", "metrics": {DURATION: 8000, SM: 90.0}},
            {"kernel": "void copy<float, 4>(float *)", "metrics": {DURATION: 3000, SM: 50.0}},
        ]
    )
    big, small = profile_kernels(parse_csv(page))
    assert (big.name, big.launches, big.time_ns, big.share) == ("_matmul", 1, 8000, 8 / 12)
    assert (small.name, small.launches, small.time_ns) == ("void copy<float, 4>(float *)", 2, 4000)
    assert small.metrics[SM] == pytest.approx((10 * 1000 + 50 * 3000) / 4000)
    assert small.metrics[DURATION] == 2000
    assert [launch.metrics[SM] for launch in small.each] == [10.0, 50.0]
    assert [launch.index for launch in small.each] == [0, 2]


def test_bytes_over_duration_is_the_rate_over_all_launches():
    page = raw_page(
        [
            {"kernel": "k", "metrics": {DURATION: 1000, READ: 4_000_000}},
            {"kernel": "k", "metrics": {DURATION: 9000, READ: 8_000_000}},
        ]
    )
    [kernel] = profile_kernels(parse_csv(page))
    assert kernel.metrics[READ] / kernel.metrics[DURATION] == pytest.approx(12_000_000 / 10_000)


def test_template_instances_are_kernels_of_their_own():
    page = raw_page(
        [
            {"kernel": "void k<4>(int)", "metrics": {DURATION: 1}},
            {"kernel": "void k<8>(int)", "metrics": {DURATION: 1}},
        ]
    )
    assert len(profile_kernels(parse_csv(page))) == 2


@pytest.mark.parametrize("text", ["n/a", "", "nan", "inf", "(!) n/a", "no data", "-", "1 (2; 3)"])
def test_what_is_no_finite_number_is_missing_and_not_zero(text):
    page = raw_page([{"kernel": "k", "metrics": {DURATION: 10, SM: text, REGISTERS: 32}}])
    [kernel] = profile_kernels(parse_csv(page))
    assert SM in kernel.missing
    assert SM not in kernel.metrics
    assert kernel.metrics[REGISTERS] == 32
    assert set(kernel.missing) | set(kernel.metrics) == {m.name for m in all_metrics()}


def test_a_metric_that_only_some_launches_have_is_the_mean_over_those():
    page = raw_page(
        [
            {"kernel": "k", "metrics": {DURATION: 10, SM: 40.0}},
            {"kernel": "k", "metrics": {DURATION: 90, SM: "n/a"}},
        ]
    )
    [kernel] = profile_kernels(parse_csv(page))
    assert kernel.metrics[SM] == pytest.approx(40.0)


def test_prefixed_units_are_brought_to_base():
    units = {DURATION: "usecond", READ: "Mbyte", "dram__bytes.sum.per_second": "Gbyte/second",
             "sm__cycles_elapsed.avg.per_second": "cycle/nsecond", SM: "%"}  # fmt: skip
    metrics = {DURATION: 2.5, READ: 3.5, "dram__bytes.sum.per_second": 1.5,
               "sm__cycles_elapsed.avg.per_second": 1.75, SM: 12.5}  # fmt: skip
    [launch] = parse_csv(raw_page([{"kernel": "k", "metrics": metrics}], units=units))
    assert launch.values == pytest.approx(
        {
            DURATION: 2500.0,
            READ: 3.5e6,
            "dram__bytes.sum.per_second": 1.5e9,
            "sm__cycles_elapsed.avg.per_second": 1.75e9,
            SM: 12.5,
        }
    )


def test_base_units_stay_as_they_are_and_separators_are_read():
    units = {DURATION: "ns", READ: "byte", REGISTERS: "register/thread"}
    metrics = {DURATION: 1_234_567, READ: 9_876_543_210, REGISTERS: 255}
    [launch] = parse_csv(raw_page([{"kernel": "k", "metrics": metrics}], units=units))
    assert launch.values == metrics
    assert (launch.grid, launch.block) == ((16384, 1, 1), (256, 1, 1))


def test_lines_of_ncu_before_the_table_are_skipped():
    page = raw_page(
        [{"kernel": "k", "metrics": {DURATION: 5}}],
        before='==PROF== Connected to process 1\n==WARNING== "something"\n',
    )
    assert len(parse_csv(page)) == 1


def test_without_a_table_the_error_says_so():
    with pytest.raises(InvalidInputError, match="no launch"):
        parse_csv("==WARNING== No kernels were profiled.\n")


def test_a_launch_whose_number_is_none_is_no_launch():
    page = raw_page([{"kernel": "k", "metrics": {DURATION: 5}}])
    assert parse_csv(page.replace('"0"', '"²"', 1)) == []
    with pytest.raises(InvalidInputError, match="a number of 5000 digits"):
        parse_csv(page.replace('"0"', f'"{"1" * 5000}"', 1))


def test_the_profile_of_the_dominant_kernel_is_what_a_context_takes():
    from judge.profile.result import Profile
    from kb.context.models import ContextRequest

    page = raw_page([{"kernel": "k", "metrics": {DURATION: 5, SM: 12.5, "made__up.sum": 3}}])
    profile = Profile(problem="p", kernel="k", gpu=None, kernels=profile_kernels(parse_csv(page)))
    assert profile.metrics == {DURATION: 5.0, SM: 12.5}
    request = ContextRequest(profile=json.loads(json.dumps(profile.metrics)))
    assert request.profile is not None
    assert all(find_metric(name) is not None for name in request.profile)


def test_amounts_are_told_from_rates():
    assert is_total("dram__bytes_read.sum")
    assert is_total("sm__cycles_active.avg")
    assert is_total("sm__cycles_elapsed.max")
    assert not is_total("dram__bytes.sum.per_second")
    assert not is_total(LOAD)
    assert not is_total(REGISTERS)


def test_numbers():
    assert parse_number("1,234,567.25") == 1234567.25
    assert parse_number("0") == 0.0
    assert parse_number("1e-05") == 1e-05
    assert parse_number("12 %") is None
