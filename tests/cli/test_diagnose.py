"""`kb diagnose`: one line says what limits the kernel, within 80 columns; mistakes are one line."""

import io
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from support import KB, kb

from judge.profile.profiler import has_gpu
from kb.gpus import all_specs

ROOT = Path(__file__).resolve().parents[2]
POOR = {
    "sm_throughput": 9.1, "memory_throughput": 17.0, "dram_throughput": 16.2,
    "achieved_occupancy": 23.9, "theoretical_occupancy": 50, "waves_per_sm": 0.48,
    "grid_size": 2048, "block_size": 32, "stall_long_scoreboard": 71, "issue_slots_busy": 6.5,
    "tensor_utilization": 0, "duration": 5600000, "dram_bytes_read": 4.3e9,
    "dram_bytes_write": 12000, "my_counter": 1,
}  # fmt: skip
ROOF = {"dram_throughput": 87.4, "sm_throughput": 31, "memory_throughput": 88, "duration": 1.8e6}
EVALUATION = {
    "problem": "rmsnorm.py", "problem_sha256": "a", "kernel": "k.py", "kernel_sha256": "b",
    "language": "triton", "dtype": "bfloat16", "precision": "ieee", "device": "cuda:0",
    "interpreted": False, "gpu": "NVIDIA H200", "versions": {}, "date": "2026-11-22",
    "verdict": "correct", "reasons": [], "seconds": 1.0,
    "timings": [{"contender": "candidate", "method": "events", "median_ms": 1.82, "p10_ms": 1.8,
                 "p90_ms": 1.9, "launches": 9}],
    "floor": {"read_bytes": 3758096384, "write_bytes": 3758096384, "flops": 0, "ms": 1.76,
              "bound": "memory"},
    "ceilings": {"read_bps": 4.4e12, "write_bps": 4.1e12, "copy_bps": 4.27e12,
                 "measured_at": "2026-11-22"},
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def to(name, content):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return to


@pytest.fixture
def poor(write):
    return write("poor.json", POOR)


def test_a_poor_kernel_is_told_what_limits_it_and_where_to_read_on(cli, poor):
    done = cli("diagnose", poor, "--gpu", "H200")
    assert done.status == 0, done.err
    lines = done.out.splitlines()
    assert "underutilizing the GPU" in lines[0]
    assert any(line.startswith("Roofline (H200): 768 GB/s of 4.8 TB/s (16%") for line in lines)
    assert sum(line.startswith(("1. ", "2. ")) for line in lines) == 2
    assert "kb show split-k" in done.out
    assert "launch__waves_per_multiprocessor" in done.out
    assert "unknown metrics, ignored: my_counter" in " ".join(done.out.split())


@pytest.mark.parametrize("columns", ["80", "200", "50"])
def test_no_line_is_wider_than_eighty_columns_or_the_terminal(cli, poor, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = cli("diagnose", poor, "--gpu", "H200")
    # A metric's name is never broken: it stands alone where the terminal is narrower than it.
    width = max(min(80, int(columns)), 72)
    assert max(len(line) for line in done.out.splitlines()) <= width
    assert not [line for line in done.out.splitlines() if line != line.rstrip()]


def test_json_holds_the_whole_diagnosis(cli, poor):
    answer = cli("diagnose", poor, "--gpu", "H200", "--json").json()
    assert answer["bottleneck"] == "underutilized"
    assert answer["gpu"] == "H200"
    assert answer["ignored"] == ["my_counter"]
    assert len(answer["findings"]) == 2
    for finding in answer["findings"]:
        assert {"cause", "category", "severity", "evidence", "techniques"} <= finding.keys()
        for each in finding["evidence"]:
            assert each.keys() == {"metric", "label", "value", "unit", "meaning"}


def test_a_pipe_is_read_and_gives_the_same_answer(poor, cli, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(POOR).encode())))
    piped = cli("diagnose", "-", "--gpu", "H200", "--json").out
    assert piped == cli("diagnose", poor, "--gpu", "H200", "--json").out


def test_a_family_of_cards_is_taken_for_one_of_them_and_that_is_said(cli, poor):
    text = " ".join(cli("diagnose", poor, "--gpu", "H100").out.split())
    assert "Roofline (H100-SXM)" in text
    assert "'H100' is read as H100-SXM: its roofs apply; other GPUs: --gpu H100-PCIe" in text


def test_a_saturated_kernel_with_its_evaluation_is_at_the_roof(cli, write):
    profile, evaluation = write("p.json", ROOF), write("e.json", EVALUATION)
    done = cli("diagnose", profile, "--evaluation", evaluation)
    text = " ".join(done.out.split())
    assert "at the memory roof" in text
    assert "little is left" in text
    assert "97% of the floor" in text  # the card is that of the evaluation
    assert "(H200)" in text


def test_the_kernels_source_adds_what_only_it_shows(cli, poor, write):
    source = write(
        "k.cu",
        "__global__ void f(const float* x, float* y) {\n"
        "  for (int i = threadIdx.x; i < 8; i += blockDim.x) y[i] = x[i];\n}\n",
    )
    shown = {"sm_throughput": 50, "memory_throughput": 50, "dram_throughput": 50, "block_size": 256}
    answer = cli("diagnose", write("p.json", shown), "--kernel", source, "--json").json()
    (finding,) = answer["findings"]
    assert finding["rule"] == "idle-threads"
    assert any("only one finding" in note for note in answer["notes"])


def test_techniques_come_from_the_index_where_there_is_one(cli, poor, filled):
    answer = cli("diagnose", poor, "--gpu", "H200", "--json").json()
    assert not any("shipped corpus" in note for note in answer["notes"])
    slugs = {each["slug"] for finding in answer["findings"] for each in finding["techniques"]}
    assert slugs <= {"pid-swizzling", "software-pipelining", "persistent-kernel"}
    assert "software-pipelining" in slugs


def test_a_users_card_is_diagnosed_against(cli, poor, write):
    spec = write(
        "own.yaml",
        "My Card: {architecture: sm_90, sms: 100, boost_mhz: 1000, memory_gib: 16, "
        "memory_gbps: 1000, l2_mib: 30, shared_kib_per_sm: 228, shared_kib_per_block: 227, "
        "threads_per_sm: 2048, blocks_per_sm: 32, dense_tflops: {fp32: 25.6}}\n",
    )
    done = cli("diagnose", poor, "--gpu-spec", spec)
    assert "Roofline (My Card): 768 GB/s of 1 TB/s (77%" in " ".join(done.out.split())


def test_an_unknown_gpu_stops_with_the_names_and_the_way_to_add_one(cli, poor, write):
    line = cli("diagnose", poor, "--gpu", "Voodoo 2").error()
    assert all(name in line for name in all_specs())
    assert "--gpu-spec" in line
    seen = {"problem": "p", "kernel": "k", "gpu": "Voodoo 3", "kernels": []}
    assert "unknown GPU 'Voodoo 3'" in cli("diagnose", write("v.json", seen)).error()


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ([], 2, "Missing argument"),
        (["a", "b", "c"], 2, "one profile, or a problem and a kernel"),
        (["none.json"], 1, "cannot read none.json"),
        (["p.json", "--gpu", "h101"], 1, "unknown GPU 'h101'"),
        (["p.json", "--gpu-spec", "none.yaml"], 1, "cannot read none.yaml"),
        (["p.json", "--evaluation", "p.json"], 1, "is not a valid evaluation"),
        (["p.json", "--kernel", "none.py"], 1, "cannot read none.py"),
        (["a.py", "b.py", "--kernel", "c.py"], 2, "--kernel needs a profile"),
        (["p.json", "--base-url", "http://x"], 2, "--base-url needs --model"),
        (["p.json", "--dtype", "float16"], 2, "--dtype needs PROBLEM KERNEL"),
        (["-", "k.py"], 2, "not standard input"),
        (["-", "--kernel", "-"], 2, "only one file"),
        (["bad.json"], 1, "bad.json is not JSON"),
        (["p.json", "--model", "m"], 1, "needs OPENAI_API_KEY"),
    ],
)
def test_a_mistake_is_one_line(cli, tmp_path, monkeypatch, write, arguments, status, says):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    write("p.json", POOR)
    write("bad.json", "{")
    assert says in cli("diagnose", *arguments).error(status)


class _Judge(BaseHTTPRequestHandler):
    waves, stall = "launch__waves_per_multiprocessor", "smsp__warp_issue_stalled_long_scoreboard"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        reply = {
            "bottleneck": "underutilized",
            "summary": "Most of the card is empty.",
            "findings": [
                {"cause": "Few blocks.", "category": "underutilized", "severity": 0.9,
                 "evidence": [{"metric": self.waves, "value": 0.48, "meaning": "half a wave"}]},
                {"cause": "Long waits.", "category": "latency", "severity": 0.5,
                 "evidence": [{"metric": f"{self.stall}_per_warp_active.pct", "value": 71,
                               "meaning": "loads"}]},
            ],
            "techniques": ["split-k"],
        }  # fmt: skip
        message = {"role": "assistant", "content": json.dumps(reply)}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m",
                "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}  # fmt: skip
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_):
        pass


def test_a_models_opinion_is_shown_beside_the_rules(cli, poor):
    server = HTTPServer(("127.0.0.1", 0), _Judge)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        done = cli("diagnose", poor, "--gpu", "H200", "--model", "judge", "--base-url", url)
        alone = cli("diagnose", poor, "--gpu", "H200")
    finally:
        server.shutdown()
        server.server_close()
    assert "Opinion of the model judge (not of the rules): underutilized" in done.out
    assert "Most of the card is empty." in done.out
    rules = done.out.split("Opinion of the model")[0]
    assert alone.out.startswith(rules.rstrip())


def test_a_model_that_fails_leaves_what_the_rules_found(cli, poor):
    done = cli(
        "diagnose", poor, "--gpu", "H200", "--model", "m", "--base-url", "http://127.0.0.1:9"
    )
    assert "cannot be reached" in done.error(1)
    assert "kb show split-k" in done.out


def test_a_profile_is_diagnosed_without_torch_and_without_the_openai_package(poor):
    code = (
        "import sys\nfrom cli import main\n"
        "sys.argv = ['kb', 'diagnose', sys.argv[1], '--gpu', 'H200', '--json']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "for name in ('torch', 'triton', 'openai', 'chromadb', 'onnxruntime'):\n"
        "    assert name not in sys.modules, name\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, poor], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bottleneck"] == "underutilized"


def test_the_installed_command_prints_plain_text_into_a_pipe(poor):
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    done = kb("diagnose", poor, "--gpu", "H200", env=environment)
    assert KB.exists()
    assert done.status == 0, done.err
    assert "\x1b" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80


PROBLEM = """
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.rand(4096)]

def get_init_inputs():
    return []
"""
SMALL_TILES = """
import torch
import triton
import triton.language as tl

@triton.jit
def double(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, x * 2, mask=offsets < count)

def kernel_function(x):
    out = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 32),)](x, out, x.numel(), BLOCK=32, num_warps=4)
    return out
"""


@pytest.mark.skipif(has_gpu(), reason="with a GPU the counters decide, not the code alone")
def test_without_a_gpu_a_problem_and_a_kernel_are_judged_by_the_code(cli, write):
    files = write("problem.py", PROBLEM), write("kernel.py", SMALL_TILES)
    assert "name a GPU with --gpu" in cli("diagnose", *files).error()
    # A process of its own: the sandbox forks, and this one may have threads.
    done = kb("diagnose", *files, "--gpu", "H200", "--json")
    answer = done.json()
    assert answer["kernel"] == "double"
    assert answer["bottleneck"] is None
    found = {finding["rule"]: finding for finding in answer["findings"]}
    assert {"idle-threads", "narrow-loads"} <= found.keys()
    (bits,) = [e for e in found["narrow-loads"]["evidence"] if e["metric"].startswith("static.")]
    assert bits["value"] == 32
    assert any("no GPU" in note for note in answer["notes"])
