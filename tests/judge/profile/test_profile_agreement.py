"""The comparison with ncu's own text: it can fail, and does where a value differs."""

from benchmarks.judge.profile_agreement import agrees, compare, read_text
from judge.profile.report import profile_kernels
from judge.profile.result import Profile
from kb.profiles.launches import Launch

DURATION = "gpu__time_duration.sum"
HITS = "lts__t_sector_hit_rate.pct"
WAVES = "launch__waves_per_multiprocessor"
TEXT = """[4711] python3@127.0.0.1
  void softmax<float, (int)4>(T1 *) (4096, 1, 1)x(1024, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Command line profiler metrics
    ---------------------------------- ----------- ------------
    Metric Name                        Metric Unit Metric Value
    ---------------------------------- ----------- ------------
    gpu__time_duration.sum                      ns      123,456
    launch__waves_per_multiprocessor                      15.52
    lts__t_sector_hit_rate.pct                   %    48.123457
    ---------------------------------- ----------- ------------

  matmul (32, 32, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: Command line profiler metrics
    gpu__time_duration.sum                      ns       10,000
    lts__t_sector_hit_rate.pct                              n/a
"""


def found(**changes):
    first = {DURATION: 123456.0, WAVES: 15.515152, HITS: 48.1234567} | changes
    launches = [
        Launch(0, "void softmax<float, (int)4>(T1 *)", (), (), first),
        Launch(1, "matmul", (), (), {DURATION: 10000.0}),
    ]
    return Profile(problem="p", kernel="k", gpu="g", kernels=profile_kernels(launches))


def test_equal_values_agree_to_the_digits_that_are_printed():
    result = compare(found(), read_text(TEXT))
    assert result["different"] == []
    assert (result["launches"], result["present"]) == (2, 4)


def test_another_value_name_or_number_of_launches_is_found():
    assert compare(found(**{HITS: 48.2}), read_text(TEXT))["different"]
    assert compare(found(**{"dram__bytes_read.sum": 5.0}), read_text(TEXT))["different"]
    assert compare(found(), read_text(TEXT.replace("matmul", "matvec")))["different"]
    assert compare(found(), read_text(TEXT)[:1])["different"]


def test_missing_agrees_with_missing_only():
    assert agrees(None, "n/a")
    assert agrees(None, None)
    assert not agrees(0.0, None)
    assert not agrees(None, "0")
    assert not agrees(15.6, "15.52")
