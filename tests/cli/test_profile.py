"""`kb profile`: text of 80 columns, JSON that a context takes, one-line errors."""

import importlib.util
import json

import pytest

from judge.profile import profiler
from judge.profile.render import WIDTH, quantity, render
from judge.profile.report import profile_kernels
from judge.profile.result import Profile, SanitizerReport, StaticFacts
from kb.profiles.launches import Launch
from kb.vocabulary import all_metrics, metric_sections

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2
def get_inputs():
    return [torch.rand(1 << 28)]
def get_init_inputs():
    return []
"""
KERNEL = """
import torch
import triton
import triton.language as tl
@triton.jit
def double(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
def kernel_function(x):
    y = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), 1024)
    return y
"""
FACTS = StaticFacts(
    function="double", name="double", origin="triton", architecture="sm_90a", registers=26,
    spill_store_bytes=16, spill_load_bytes=32, stack_bytes=16, shared_bytes=0,
    threads_per_block=128, instructions=60, mix={"global_load": 2, "global_store": 2},
    widths={"global_load": {128: 2}, "global_store": {32: 1, 128: 1}},
)  # fmt: skip


@pytest.fixture
def files(tmp_path):
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL)
    return tmp_path / "problem.py", tmp_path / "kernel.py"


def a_profile():
    values = {metric.name: 12.5 for metric in all_metrics() if not metric.varies}
    values |= {"gpu__time_duration.sum": 125_000.0, "dram__bytes_read.sum": 4.29e9}
    del values["lts__t_sector_hit_rate.pct"]
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::Functor<float>>(int, T2)"
    small = {"gpu__time_duration.sum": 1e3}
    kernels = profile_kernels(
        [
            Launch(0, "double", (1,), (128,), values),
            Launch(1, name, (1,), (128,), small),
        ]
    )
    first = kernels[0].model_copy(update={"static": FACTS})
    return Profile(
        problem="/a/problem.py", kernel="/a/kernel.py", gpu="NVIDIA H200", ncu_version="2025.3",
        calls=1, kernels=(first, *kernels[1:]), static=(FACTS,),
        sanitizer=(SanitizerReport(tool="memcheck", errors=0, detail="0 errors"),),
    )  # fmt: skip


def test_without_a_gpu_the_machine_code_is_shown(cli, files, monkeypatch):
    monkeypatch.setattr(profiler, "has_gpu", lambda: False)
    done = cli("profile", *files, "--arch", "sm_90a", "--dtype", "bfloat16")
    assert done.status == 0, done.err
    assert "no GPU on this machine: static facts only" in done.out
    assert "Machine code (triton, sm_90a)" in done.out
    assert "128 bit" in done.out
    assert all(len(line) <= WIDTH for line in done.out.splitlines())


def test_json_holds_the_profile_that_a_context_takes_and_the_details(cli, files, monkeypatch):
    monkeypatch.setattr("judge.profile.profiler.profile", lambda _: a_profile())
    done = cli("profile", *files, "--json")
    found = json.loads(done.out)
    assert found["profile"] == found["kernels"][0]["metrics"]
    assert found["profile"]["gpu__time_duration.sum"] == 125_000.0
    assert "lts__t_sector_hit_rate.pct" in found["kernels"][0]["missing"]
    assert found["kernels"][0]["static"]["widths"]["global_load"] == {"128": 2}


def test_the_profile_of_the_json_is_accepted_by_a_context(cli, files, monkeypatch):
    from kb.context.models import ContextRequest

    monkeypatch.setattr("judge.profile.profiler.profile", lambda _: a_profile())
    found = json.loads(cli("profile", *files, "--json").out)
    assert ContextRequest(profile=found["profile"]).profile == found["profile"]


def test_the_json_is_what_diagnose_reads(cli, files, monkeypatch, tmp_path):
    monkeypatch.setattr("judge.profile.profiler.profile", lambda _: a_profile())
    kept = tmp_path / "profile.json"
    kept.write_text(cli("profile", *files, "--json").out)
    done = cli("diagnose", kept, "--json")
    assert done.status == 0, done.err
    assert json.loads(done.out)["kernel"] == a_profile().kernels[0].name


def test_every_section_is_shown_and_missing_metrics_have_no_unit():
    lines = render(a_profile()).splitlines()
    text = "\n".join(lines)
    assert all(f"  {title}" in lines for title in metric_sections().values())
    row, _ = [line for line in lines if line.startswith("    L2 hit rate  ") and "N/A" in line]
    assert row.endswith("N/A")
    assert "Not available on this GPU or in this ncu" in text
    assert "1. double" in text
    assert "99.2% of the time: 1 launch, 125.000 us each" in text
    assert "spills: 16 bytes stored, 32 loaded" in text
    assert "32-128 bit" in text
    assert "compute-sanitizer, memcheck: 0 errors" in text
    assert max(map(len, lines)) <= WIDTH


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (4.29e9, "byte", ("4.29", "Gbyte")),
        (45.0, "%", ("45.00", "%")),
        (8.0, "blocks", ("8", "blocks")),
        (999.0, "inst", ("999", "inst")),
        (1_064_000.0, "ns", ("1.064", "ms")),
        (4.27e12, "byte/s", ("4.27", "Tbyte/s")),
        (0.0, "conflicts", ("0", "conflicts")),
    ],
)
def test_values_are_shown_with_prefixes(value, unit, shown):
    assert quantity(value, unit) == shown


def test_labels_fit_their_column():
    assert max(len(metric.label) for metric in all_metrics()) <= 52


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--arch", "ninety"], "unknown GPU 'ninety'"),
        (["--arch", "sm_ninety"], "is not an architecture"),
        ([], "--arch sm_90a"),
    ],
)
def test_wrong_usage_is_one_line(cli, files, monkeypatch, arguments, said):
    monkeypatch.setattr(profiler, "has_gpu", lambda: False)
    done = cli("profile", *files, *arguments)
    assert done.status == 1
    assert done.out == ""
    assert said in done.err
    assert len(done.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("cuda:2", "no device 'cuda:2': choose from cuda:0 to cuda:1"),
        ("cuda:x", "no device 'cuda:x'"),
        ("gpu:1", "no device 'gpu:1'"),
        ("cpu", "nothing is profiled on a CPU"),
    ],
)
def test_a_device_that_is_not_there_is_one_line(cli, files, monkeypatch, device, said):
    monkeypatch.setattr(profiler, "has_gpu", lambda: True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert said in cli("profile", *files, "--device", device).error()


def test_a_missing_file_is_one_line(cli, tmp_path):
    done = cli("profile", tmp_path / "no.py", tmp_path / "no.py")
    assert done.status == 1
    assert "no.py" in done.err


@pytest.mark.parametrize(
    "arguments", ["profile {0} {1} --static-only --arch sm_90a", "diagnose {0} {1} --gpu H200"]
)
def test_without_pytorch_one_line_says_what_to_install(tmp_path, monkeypatch, cli, arguments):
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "torch" else found(name)
    )
    told = arguments.format(tmp_path / "problem.py", tmp_path / "kernel.py").split()
    assert "profiling needs PyTorch: install it with `pip install" in cli(*told).error()
