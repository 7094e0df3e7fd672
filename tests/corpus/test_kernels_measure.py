"""Measuring kernels: what can be checked without a GPU, and records written into entries."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.kernels import timing, tuning
from benchmarks.kernels.records import (
    floor_ms,
    has_technique,
    kernel_records,
    with_records,
    write_records,
)
from kb.corpus.entries import Verified
from kb.corpus.loader import load_corpus, load_shipped_corpus, shipped_corpus
from kb.errors import KbError

ROOT = Path(__file__).parents[2]

KERNEL = '''"""
---
slug: {slug}
title: A kernel for a test
op: elementwise-add
language: triton
architectures: [sm_80]
dtypes: [float32]
{derived}sources: [{{title: A source, url: https://example.org, licence: Apache-2.0}}]
sizes: {{check: [[8, 4], [7, 5]], bench: [64, 64]}}
check_params: {{block: 32}}
# a comment that stays
---

The text of the kernel.
"""

import torch

TUNABLES = {{"block": [16, 32]}}

def kernel_function(a, b, block=16):
    {body}

def reference(a, b):
    return a + b

def make_inputs(size, dtype, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, generator=generator).to(device, dtype) for _ in range(2)]
'''


def write_corpus(root):
    folder = root / "kernels" / "triton"
    folder.mkdir(parents=True)
    (root / "corpus.yaml").write_text("name: t\nversion: '1'\nlicence: Apache-2.0\n")
    bodies = {
        "add-plain": "return a + b",
        "add-better": "return b + a",
        "add-wrong": "return a - b",
        "add-crashes": "__import__('os').abort()",
    }
    for slug, body in bodies.items():
        derived = "" if slug == "add-plain" else "derived_from: add-plain\n"
        text = KERNEL.format(slug=slug, derived=derived, body=body)
        (folder / f"{slug.replace('-', '_')}.py").write_text(text)


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A dry run over a small corpus in which one kernel is wrong and one crashes."""
    folder = tmp_path_factory.mktemp("measure")
    write_corpus(folder / "corpus")
    command = [sys.executable, "-m", "benchmarks.kernels.measure", "--dry-run"]
    done = subprocess.run(
        [*command, "--corpus", folder / "corpus", "--out", folder / "results"],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    path = folder / "results" / "dry-run.json"
    assert path.is_file(), done.stderr
    return folder / "corpus", path, done


def test_a_wrong_and_a_crashing_kernel_are_recorded_and_the_rest_is_measured(measured):
    _, path, done = measured
    kernels = json.loads(path.read_text())["records"]
    assert done.returncode == 1
    assert "2 kernels measured, 2 failed" in done.stdout
    assert kernels["add-wrong"]["failed"].startswith(
        "RuntimeError: no configuration is right: wrong"
    )
    assert kernels["add-crashes"]["failed"] == "the judging process died with status -6"
    better = kernels["add-better"]
    assert set(better["times"]) == {"kernel", "add-plain", "eager"}
    assert better["bytes"] == 3 * 8 * 4 * 4
    assert "failed" not in better


def test_kernels_of_two_cards_are_gathered_in_one_file(tmp_path, measured):
    root, one_card, _ = measured
    command = [sys.executable, "-m", "benchmarks.kernels.measure", "--dry-run", "--gpus", "2"]
    done = subprocess.run(
        [*command, "--corpus", root, "--out", tmp_path],
        capture_output=True, text=True, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert "2 kernels measured, 2 failed" in done.stdout, done.stderr
    found = json.loads((tmp_path / "dry-run.json").read_text())
    expected = json.loads(one_card.read_text())["records"]
    assert {slug: each.get("failed") for slug, each in found["records"].items()} == {
        slug: each.get("failed") for slug, each in expected.items()
    }
    assert all("floors" in record for record in found["records"].values() if "times" in record)
    assert found["environment"]["gpu"] == "dry run"


def test_a_record_stands_against_the_floor_of_its_own_card():
    kernel = {
        "size": [8], "dtype": "float32", "bytes": 1000, "flops": 0,
        "times": {"kernel": {"median_ms": 1.0}, "eager": {"median_ms": 2.0}},
    }  # fmt: skip
    environment = {
        "gpu": "NVIDIA H200", "driver": "580.1", "toolkit": "13.0", "torch": "2.11.0",
        "triton": "3.6.0", "date": "2026-11-22",
    }  # fmt: skip
    common = {"copy_bytes_per_s": 2e6, "matmul_flop_per_s": 1.0}
    own = {**kernel, "floors": {**common, "copy_bytes_per_s": 1e6}}
    other = {**kernel, "floors": common}
    records = [kernel_records(environment, each)[0] for each in (other, own)]
    assert [each.floor_fraction for each in records] == [0.5, 1.0]


def test_records_are_written_in_place_and_everything_else_stays(measured):
    root, path, _ = measured
    file = root / "kernels" / "triton" / "add_better.py"
    before = file.read_text()
    untouched = (root / "kernels" / "triton" / "add_wrong.py").read_text()
    changed = write_records(path, root)
    assert {each.name for each in changed} == {"add_better.py", "add_plain.py"}
    after = file.read_text()
    at = after.index("verified:\n")
    end = after.index("---\n\nThe text")
    assert after[:at] + after[end:] == before
    assert (root / "kernels" / "triton" / "add_wrong.py").read_text() == untouched
    kernels = {kernel.entry.slug: kernel.entry for kernel in load_corpus(root).kernels}
    assert [r.baseline for r in kernels["add-better"].verified] == ["add-plain", "eager"]
    assert write_records(path, root) == []  # the same results change nothing


def test_a_technique_takes_no_record_of_a_gpu_that_lacks_it():
    techniques = {each.entry.slug: each.entry for each in load_shipped_corpus().techniques}
    tensor_memory = techniques["blackwell-tcgen05"]
    assert not has_technique(tensor_memory, "NVIDIA H200")
    assert has_technique(tensor_memory, "NVIDIA B200")
    assert has_technique(techniques["tma-multicast"], "NVIDIA H200")
    assert not has_technique(techniques["tma-multicast"], "NVIDIA A100-SXM4-80GB")
    assert has_technique(tensor_memory, "a card that nobody knows")
    for technique in techniques.values():
        assert all(has_technique(technique, record.gpu) for record in technique.verified)


def test_a_technique_takes_the_records_of_pairs_that_differ_in_it_alone(tmp_path):
    root = Path(shutil.copytree(shipped_corpus(), tmp_path / "corpus"))
    times = {"kernel": 1.0, "eager": 3.0}
    pairs = {"matmul-swizzled": "matmul-plain", "histogram-shared-cuda": "histogram-global-cuda"}
    results = {
        "environment": {
            "gpu": "NVIDIA H200", "driver": "580.1", "toolkit": "13.0", "torch": "2.11.0",
            "triton": "3.6.0", "date": "2026-11-25",
        },
        "records": {
            slug: {
                "size": [8], "dtype": "bfloat16", "bytes": 1000, "flops": 0,
                "floors": {"copy_bytes_per_s": 1e6, "matmul_flop_per_s": 1.0},
                "times": {
                    name: {"median_ms": ms} for name, ms in {**times, plain: 2.0}.items()
                },
            }
            for slug, plain in pairs.items()
        },
    }  # fmt: skip
    (tmp_path / "results.json").write_text(json.dumps(results))
    write_records(tmp_path / "results.json", root)
    corpus = load_corpus(root)
    techniques = {each.entry.slug: each.entry for each in corpus.techniques}
    assert "matmul-swizzled 8" in [r.shape for r in techniques["pid-swizzling"].verified]
    # Counting in shared memory gained that, and over a kernel that PyTorch beats.
    assert techniques["loop-unrolling"].verified == ()
    assert techniques["atomics-privatization"].verified == ()
    # What was measured against another plain version than today's goes.
    path = root / "kernels" / "triton" / "matmul_pipelined.py"
    other = path.read_text().replace("derived_from: matmul-plain", "derived_from: matmul-swizzled")
    path.write_text(other)
    write_records(tmp_path / "results.json", root)
    corpus = load_corpus(root)
    kernels = {each.entry.slug: each.entry for each in corpus.kernels}
    baselines = {each.baseline for each in kernels["matmul-pipelined"].verified}
    assert baselines == {"eager", "torch.compile"}
    techniques = {each.entry.slug: each.entry for each in corpus.techniques}
    assert techniques["software-pipelining"].verified == ()


def test_results_without_a_kernel_are_refused(tmp_path):
    write_corpus(tmp_path / "corpus")
    with pytest.raises(KbError, match="holds no measured kernel"):
        write_records(tmp_path / "none.json", tmp_path / "corpus")


def record(**changes):
    values = {
        "gpu": "NVIDIA H200", "date": "2026-11-21", "shape": "8x8", "dtype": "bfloat16",
        "baseline": "eager", "baseline_ms": 2.0, "measured_ms": 1.0, "speedup": 2.0,
    }  # fmt: skip
    return Verified(**{**values, **changes})


def test_a_verified_key_in_the_middle_is_replaced_with_all_its_lines():
    text = "---\nslug: a\nverified:\n- gpu: old\n  date: 2020-01-01\n\nsources: []\n---\nbody\n"
    after = with_records(text, "a.md", [record()])
    assert "old" not in after
    assert after.startswith("---\nslug: a\nverified:\n- gpu: NVIDIA H200\n")
    assert after.endswith("sources: []\n---\nbody\n")


def test_the_floor_is_the_larger_of_memory_and_matrix_time():
    common = {"floors": {"copy_bytes_per_s": 1e12, "matmul_flop_per_s": 1e14}, "flops": 0}
    assert floor_ms(common | {"bytes": 1e9, "dtype": "bfloat16"}) == pytest.approx(1.0)
    many = {"bytes": 1e6, "flops": 1e12, "dtype": "float16"}
    assert floor_ms(common | many) == pytest.approx(10)
    few = {"bytes": 1e9, "flops": 1e11, "dtype": "float32"}
    assert floor_ms(common | few) == pytest.approx(1.0)


def test_products_of_a_dtype_whose_rate_is_unknown_have_no_floor():
    floors = {"copy_bytes_per_s": 1e12, "matmul_flop_per_s": 1e14}
    many = {"bytes": 1e9, "flops": 1e12, "dtype": "float32"}
    assert floor_ms({"floors": floors} | many) is None
    assert floor_ms({"floors": floors} | many | {"dtype": "float8_e4m3"}) is None


class FakeTimer:
    """Charges a contender the time that it returns."""

    def __init__(self):
        self.calls = []

    def __call__(self, run, inputs):
        ms = run(inputs)
        self.calls.append((ms, inputs))
        return ms


def test_tuning_finds_the_fastest_configuration_and_skips_those_that_cannot_run():
    def kernel(_, block, warps):
        if block == 64:
            raise RuntimeError("out of shared memory")
        return 100 / block + warps

    tunables = {"block": [16, 32, 64], "warps": [4, 8]}
    chosen = tuning.candidates(tunables, {"block": 16, "warps": 8})
    assert chosen[0] == {"block": 16, "warps": 8}
    assert len(chosen) == 6
    ranked = tuning.tune(FakeTimer(), kernel, chosen, [None], limit_s=10)
    assert ranked[0] == ({"block": 32, "warps": 4}, 100 / 32 + 4)


def test_tuning_stops_at_its_time_limit_with_what_it_has():
    chosen = [{"block": block} for block in range(1000)]
    ranked = tuning.tune(FakeTimer(), lambda _, block: 5.0 + block, chosen, [None], limit_s=0)
    assert ranked == [({"block": 0}, 5.0)]


def test_tuning_reports_why_nothing_runs():
    def kernel(_, block):
        raise ValueError("no device")

    with pytest.raises(RuntimeError, match="no configuration runs: no device"):
        tuning.tune(FakeTimer(), kernel, [{"block": 1}], [None], limit_s=1)


def test_contenders_are_interleaved_over_rotating_inputs():
    timer = FakeTimer()
    contenders = {"fast": lambda _: 1.0, "slow": lambda _: 3.0}
    found = timing.interleave(timer, contenders, ["first", "second", "third"], rounds=9)
    assert (found["fast"].median, found["slow"].median) == (1.0, 3.0)
    assert [inputs for _, inputs in timer.calls] == ["first", "second", "third"] * 6
    for at in range(0, 18, 2):  # every round holds both
        assert {timer.calls[at][0], timer.calls[at + 1][0]} == {1.0, 3.0}


def test_input_sets_exceed_the_cache_together():
    assert timing.sets_needed(input_bytes=2**20, l2_bytes=50 * 2**20) == 200
    assert timing.sets_needed(input_bytes=2**30, l2_bytes=50 * 2**20) == 2


def test_the_reference_is_widened_except_where_bits_count():
    from benchmarks.kernels.session import _expected
    from kb.verify.kernel_module import KernelModule

    def module(reference):
        return KernelModule(reference, reference, lambda *_: [], {})

    x = torch.tensor([1.0, 2**-9], dtype=torch.bfloat16)
    (total,) = _expected(module(lambda v: v.cumsum(0)), [x])
    assert total.dtype == torch.bfloat16
    seen = []
    _expected(module(lambda v: seen.append(v.dtype) or v), [x.float()])
    assert seen == [torch.float32, torch.float64]
    seen.clear()
    _expected(module(lambda v: seen.append(v.dtype) or v.to(torch.int32)), [x])
    assert seen == [torch.bfloat16]


def test_the_work_of_attention_counts_shared_heads_and_what_a_causal_mask_leaves():
    from benchmarks.kernels.session import _ATTENTION, _attention_flops

    flash = _attention_flops(_ATTENTION["_scaled_dot_product_flash_attention"])
    query, key, value = (2, 8, 4, 16), (2, 2, 6, 16), (2, 2, 6, 32)
    assert flash(query, key, value, 0.0, False) == 2 * 2 * 8 * (4 * 6) * (16 + 32)
    assert flash(query, key, value, 0.0, True) == 2 * 2 * 8 * (1 + 2 + 3 + 4) * (16 + 32)
    assert flash(query, key, value, is_causal=True) == flash(query, key, value, 0.0, True)


def test_matrix_products_of_a_reference_are_counted():
    from benchmarks.kernels.session import _flops

    a, b = torch.zeros(4, 8), torch.zeros(8, 3)
    assert _flops(lambda x, y: torch.relu(x @ y), [a, b]) == 2 * 4 * 8 * 3
