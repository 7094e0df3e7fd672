"""Profiles as people have them: JSON in several forms, ncu's CSV pages and its console output."""

import contextlib
import json
import stat
import time

import pytest

from kb.errors import InvalidInputError, KbError
from kb.profiles.reading import ignored_words, read_profile
from kb.vocabulary import find_metric

HEAD = '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size"'
DETAILS = HEAD + (
    ',"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value",'
    '"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
)
RAW = HEAD + (
    ',"Grid Size","Device","CC","gpu__time_duration.sum","lts__t_sector_hit_rate.pct",'
    '"dram__bytes_read.sum","smsp__average_warp_latency_per_inst_issued.ratio",'
    '"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio","idc__requests.sum"'
)
RAW_UNITS = '"","","","","","","","","","","","usecond","%","Mbyte","warp","inst","request"'


def row(number, kernel, *cells):
    head = (number, "1", "python", "127.0.0.1", kernel, "1", "7", "(256, 1, 1)", "(1,024, 1, 1)",
            "0", "9.0")  # fmt: skip
    return ",".join(f'"{cell}"' for cell in (*head, *cells))


def named(read):
    """Values by their first alias, which is shorter to write."""
    return {find_metric(name).aliases[0]: value for name, value in read.metrics.items()}


def details():
    rows = [
        ("GPU Speed Of Light Throughput", "Memory Throughput", "%", "88.5"),
        ("GPU Speed Of Light Throughput", "Duration", "us", "12.40"),
        ("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "2,901.5"),
        ("Memory Workload Analysis", "L2 Hit Rate", "%", "30.12"),
        ("Launch Statistics", "Registers Per Thread", "register/thread", "168"),
        ("Launch Statistics", "Dynamic Shared Memory Per Block", "Kbyte/block", "65.54"),
        ("Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"),
        ("Launch Statistics", "# SMs", "SM", "132"),
        ("Scheduler Statistics", "No Eligible", "%", "85"),
    ]
    lines = [row(0, "gemm(float *, int)", *cells, "", "", "", "", "") for cells in rows]
    rule = ("SpeedOfLight", "", "", "", "SOLBottleneck", "OPT", "Memory is busier", "", "")
    lines.append(row(0, "gemm(float *, int)", *rule))
    lines.append(row(1, "copy", *rows[3][:3], "91", "", "", "", "", ""))
    lines.append(row(1, "copy", "GPU Speed Of Light Throughput", "Duration", "us", "3.0"))
    return "\n".join(["the program said this", "==PROF== Connected", DETAILS, *lines])


def test_the_details_page_is_read_with_display_names_and_units():
    read = read_profile(details(), "p.csv")
    assert read.kernel == "gemm(float *, int)"
    assert named(read) == pytest.approx(
        {"memory_throughput": 88.5, "duration": 12400, "dram_bandwidth": 2.9015e12,
         "l2_hit_rate": 30.12, "registers_per_thread": 168, "dynamic_shared_mem_per_block": 65540,
         "issue_slots_busy": 15}
    )  # fmt: skip
    assert read.ignored == ("# SMs",)
    (note,) = read.notes
    assert note == (
        "gemm(float *, int) takes 81% of the time; the other kernels are not judged "
        "(--kernel-name selects one): copy"
    )
    assert named(read_profile(details(), "p.csv", "copy"))["l2_hit_rate"] == 91


def raw(*rows):
    return "\n".join([RAW, RAW_UNITS, *rows])


def test_the_raw_page_is_read_in_base_units_and_launches_are_averaged():
    page = raw(
        row(0, "gemm", "10.0", "20", "4", "20", "13", "7"),
        row(1, "gemm", "30.0", "40", "8", "n/a", "n/a", "7"),
        row(2, "fill", "1.0", "50", "1", "10", "1", "7"),
    )
    read = read_profile(page, "p.csv")
    assert read.kernel == "gemm"
    assert named(read) == pytest.approx(
        {"duration": 20_000, "l2_hit_rate": 35, "dram_bytes_read": 6e6, "stall_long_scoreboard": 65}
    )
    assert read.share == pytest.approx(40 / 41)
    assert read.ignored == ("idc__requests.sum",)
    assert read.notes[1] == "the values of gemm are means over 2 launches"


def test_a_summary_over_launches_has_averages():
    page = (
        '"Kernel Name","Section Name","Metric Name","Metric Unit","Minimum","Maximum","Average"\n'
        '"gemm","Memory Workload Analysis","L2 Hit Rate","%","10","50","31.5"\n'
    )
    assert named(read_profile(page, "p.csv")) == {"l2_hit_rate": 31.5}


CONSOLE = """==PROF== Connected to process 1 (/usr/bin/python3.11)
[1] python3.11@127.0.0.1
  _matmul_kernel (4096, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Frequency                  Ghz         2.62
    Memory Throughput                 %        92.10
    Duration                         us       120.51
    ----------------------- ----------- ------------

    Section: Launch Statistics
    -------------------------------- --------------- ---------------
    Metric Name                          Metric Unit    Metric Value
    -------------------------------- --------------- ---------------
    Block Size                                                   256
    Registers Per Thread             register/thread             168
    -------------------------------- --------------- ---------------

  void fill<int>(T1 *) (8, 1, 1)x(64, 1, 1), Context 1, Stream 7, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    Duration                         us         1.50
"""


def test_what_ncu_prints_on_the_console_is_read_as_well():
    read = read_profile(CONSOLE, "out.txt")
    assert read.kernel == "_matmul_kernel"
    assert named(read) == pytest.approx(
        {"dram_frequency": 2.62e9, "memory_throughput": 92.1, "duration": 120_510,
         "block_size": 256, "registers_per_thread": 168}
    )  # fmt: skip
    assert named(read_profile(CONSOLE, "out.txt", "fill")) == {"duration": 1500}


@pytest.mark.parametrize(
    "data",
    [
        {"L2 Hit Rate": 30, "Registers Per Thread": 168},
        {"l2 hit rate": "30.0", "Registers per thread": "168"},
        {"L2 Hit Rate": "30 %", "registers_per_thread": 168.0},
        {"L2 Hit Rate": {"value": 30, "unit": "%"}, "registers": 168},
        {"lts__t_sector_hit_rate.pct": 30, "launch__registers_per_thread": 168},
        {"gemm": {"lts__t_sector_hit_rate.pct": 30, "launch__registers_per_thread": 168}},
        [{"Kernel Name": "gemm", "ID": 0, "lts__t_sector_hit_rate.pct": 30, "registers": 168}],
        {"kernels": [{"name": "gemm", "metrics": {"l2_hit_rate": 30, "registers": 168}}]},
    ],
)  # fmt: skip
def test_json_is_read_in_the_forms_that_tools_write(data):
    read = read_profile(json.dumps(data), "p.json")
    assert named(read) == {"l2_hit_rate": 30, "registers_per_thread": 168}
    assert read.ignored == ()


def test_one_display_name_is_two_metrics_by_its_unit():
    both = {"Memory Throughput": {"value": 900, "unit": "Gbyte/second"}, "memory_throughput": 40}
    read = named(read_profile(json.dumps(both), "p.json"))
    assert read == {"dram_bandwidth": 9e11, "memory_throughput": 40}
    assert named(read_profile('{"Memory Throughput": 40}', "p")) == {"memory_throughput": 40}


def test_a_file_of_several_kernels_gives_the_longest_and_says_so():
    """As KernelAgent keeps them: kernel → metric → number."""
    times = {"triton_poi_0": 4_000, "triton_red_1": 9_000, "triton_poi_2": 1_000}
    data = {
        name: {"gpu__time_duration.sum": time, "L2 Hit Rate": 50} for name, time in times.items()
    }
    read = read_profile(json.dumps(data), "round001_ncu.json")
    assert (read.kernel, round(read.share, 3)) == ("triton_red_1", 0.643)
    assert "triton_red_1 takes 64% of the time; the other kernels are not judged" in read.notes[0]
    assert read_profile(json.dumps(data), "p", "poi_0").kernel == "triton_poi_0"
    both = read_profile(json.dumps(data), "p", "poi")
    assert both.kernel == "triton_poi_0"
    assert both.notes
    del data["triton_poi_0"]["gpu__time_duration.sum"]
    first = read_profile(json.dumps(data), "p")
    assert first.kernel == "triton_poi_0"
    assert "comes first, and not all kernels have a duration" in first.notes[0]


def test_dram_throughput_of_the_gpu_stands_in_where_only_that_was_collected():
    read = named(
        read_profile('{"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 91}', "p")
    )
    assert read["dram_throughput"] == 91


def test_keys_that_are_not_understood_are_named():
    read = read_profile('{"L2 Hit Rate": 30, "Foo": 1, "my_counter": 2}', "p")
    assert ignored_words(read.ignored) == [
        "'Foo', 'my_counter' are not known metrics and were ignored"
    ]
    many = [f"m{number}" for number in range(300)]
    (line,) = ignored_words(many)
    assert line.startswith("300 names are not metrics used here")
    assert len(line) < 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "p is not JSON or `ncu --csv` output"),
        ("[1, 2]", "p must hold one JSON object"),
        ("{}", "p has no metrics"),
        ('{"dram_throughput": -1}', "p: dram_throughput is -1: a metric cannot be negative"),
        ('"ID","Kernel Name"x\n', "has no column"),
        ('"Kernel Name","Metric Name"\n"k","x"\n', "has no column 'Metric Value'"),
        ("[" * 100_000, "p is not JSON"),
        ('"ID","Process ID"\n', "has no column 'Kernel Name'"),
    ],
)
def test_what_is_no_profile_is_refused_in_one_line(text, says):
    with pytest.raises(KbError) as raised:
        read_profile(text, "p")
    assert says in str(raised.value)
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        DETAILS + "\n" + (row(0, "k", "s", "L2 Hit Rate", "%", "3") + "\n") * 20_000,
        "Section: x\nMetric Name\n" + "    L2 Hit Rate" + " " * 300 + "\n" * 50_000,
        "Section: x\nMetric Name\n"
        + "    "
        + "a b " * 90
        + "\n"
        + ("    " + "a  b " * 70 + "\n") * 3000,
        '"ID",' + '"' * 100_000,
        json.dumps({f"k{number}": {"a": number} for number in range(20_000)}),
    ],
)
def test_no_file_stalls_the_reader(text):
    started = time.process_time()
    with contextlib.suppress(KbError):
        read_profile(text, "p")
    assert time.process_time() - started < 3.0


FAKE_NCU = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in --import) report="$2";; --log-file) output="$2";; esac
  shift
done
grep -q broken "$report" && { echo "==ERROR== Failed to load report file"; exit 1; }
cat "$PAGE" > "$output"
"""


@pytest.fixture
def report(tmp_path, monkeypatch):
    """A report, and an `ncu` on the path that prints its raw page."""
    page = tmp_path / "page.csv"
    page.write_text(raw(row(0, "gemm", "10.0", "20", "4", "20", "13", "7")))
    program = tmp_path / "bin" / "ncu"
    program.parent.mkdir()
    program.write_text(FAKE_NCU)
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PAGE", str(page))
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    path = tmp_path / "run.ncu-rep"
    path.write_bytes(b"NVR\x00\xff\xfe report")
    return path


def test_a_report_is_read_by_ncu_where_there_is_one(report, filled, cli):
    done = cli("diagnose", report)
    assert done.status == 0, done.err
    assert "Stalled on global or local memory: 65 %" in done.out
    done = cli("context", "--profile", report, "--max-chars", "300", "--json")
    assert done.status == 0, done.err
    assert "pid-swizzling" in {each["slug"] for each in done.json()["techniques"]}
    report.write_bytes(b"NVR\x00 broken")
    assert "ncu could not read" in cli("diagnose", report).error()


def test_a_report_without_ncu_is_refused_with_the_way_out(report, filled, cli, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr("judge.profile.ncu.Path.glob", lambda *_: [])
    monkeypatch.setattr("os.access", lambda *_: False)
    said = cli("diagnose", report).error()
    assert "ncu --import" in said
    assert "--csv --page raw" in said


def test_a_context_and_a_diagnosis_read_a_profile_alike(tmp_path, filled, cli):
    path = tmp_path / "details.csv"
    path.write_text(details())
    done = cli("context", "--profile", path, "--kernel-name", "gemm", "--json")
    assert done.status == 0, done.err
    answer = done.json()
    assert "pid-swizzling" in {each["slug"] for each in answer["techniques"]}
    assert answer["ignored"] == ["# SMs"]
    assert "'# SMs' is not a known metric" in done.err
    assert "--kernel-name" in cli("context", "x", "--kernel-name", "gemm").error(2)
    assert "no kernel called 'nope'" in cli("diagnose", path, "--kernel-name", "nope").error()


def test_bytes_that_are_no_text_are_refused(tmp_path, filled, cli):
    path = tmp_path / "p.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert "it is not UTF-8 text" in cli("context", "--profile", path).error()
    with pytest.raises(InvalidInputError):
        read_profile("null", "p")
