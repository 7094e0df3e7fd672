"""What contexts tell of measured kernels: times, settings, losses."""

import ast

import pytest

from kb.context.assuming import Assumptions
from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.context.results import result_lines, settings
from kb.context.shortening import short_form
from kb.search.opening import open_searcher

ROWS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.{call}(x, dim={dim})

def get_inputs():
    return [torch.rand({shape})]

def get_init_inputs():
    return []
"""
GEMM = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gemm = nn.Linear(8192, 8192)
        self.norm = nn.GroupNorm(512, 8192)

    def forward(self, x):
        return torch.min(self.norm(self.gemm(x)), dim=1, keepdim=True)[0]

def get_inputs():
    return [torch.rand(1024, 8192)]

def get_init_inputs():
    return []
"""
LONG = ROWS.format(call="softmax", dim=1, shape="4096, 393216")


@pytest.fixture
def searcher(shipped_index):
    return open_searcher(shipped_index)


def test_figures_come_with_settings_and_what_lost(searcher):
    slugs = ["matmul-tma-fused", "matmul-warp-specialized", "matmul-plain"]
    head, best, lost = result_lines(slugs, searcher.generation, "H200")
    assert head.startswith("Measured on NVIDIA H200 (")
    assert best.startswith("- matmul-tma-fused (tma-host-descriptor, persistent-kernel, ")
    assert ", 8192x4096x4096x2 = [M, N, K, order], bfloat16: " in best
    assert "block_m=128, block_n=256, block_k=64" in best
    assert "num_warps=8, num_stages=3." in best
    assert "matmul-warp-specialized, " in lost and "where matmul-plain takes" in lost
    assert lost.count("matmul-warp-specialized") == 1
    # Not that one form of descriptor is slower: both have the same.
    assert "matmul-tma-host 0.474 ms where matmul-tma-fused takes 0.3535 by persistent-ker" in lost
    assert "another design" not in head


def test_a_kernel_far_from_its_floor_is_no_pattern(searcher):
    head, *rest = result_lines(["conv-tma"], searcher.generation, "H200")
    assert "(46%)" in rest[0]
    assert "Below 60%, look for another design" in head


def test_figures_of_another_card_say_so(searcher):
    lines = result_lines(["softmax-dim-online"], searcher.generation, "L40S")
    assert lines[0].startswith("Measured on NVIDIA H100")
    assert result_lines([], searcher.generation, "H200") == []


def test_sentences_with_times_are_whole(searcher):
    lines = result_lines(["softmax-dim-online"], searcher.generation, "H200")
    told = [line.strip() for line in lines if line.startswith("  ")]
    assert any("32 warps" in line for line in told)
    assert all(line.endswith(".") and line[0].isupper() for line in told)


def test_settings_are_the_defaults_of_what_can_be_tuned():
    code = "TUNABLES = {'tile': [1, 2]}\n\ndef kernel_function(x, dim=-1, tile=2): pass\n"
    assert settings(code) == "tile=2"
    assert not settings("def other(): pass")
    assert not settings("not python(")


def test_figures_stand_before_techniques_and_cost_no_example(searcher):
    request = ContextRequest(problem=LONG, gpu="H200", dtype="bf16", max_tokens=3000)
    answer = build_context(request, searcher)
    assert answer.text.index("- softmax-dim-online ") < answer.text.index("\n# ")
    assert answer.examples


def test_figures_of_what_is_excluded_are_not_told(searcher):
    slugs = ["softmax-dim-online", "softmax-three-pass"]
    request = ContextRequest(problem=LONG, gpu="H200", max_tokens=3000, exclude=slugs)
    assert "softmax-dim-online" not in build_context(request, searcher).text


def test_a_reduction_behind_groups_in_a_tile_gets_the_product_that_reduces(searcher):
    request = ContextRequest(problem=GEMM, gpu="H200", dtype="bf16", max_tokens=4000)
    text = build_context(request, searcher).text
    assert "(matmul-row-reduce)" in text
    assert "Put group_norm on the tile of the product, before its reduction." in text
    code = text.split("```python\n")[1].split("\n```")[0]
    assert "logsumexp" not in code and "LOG2_E" not in code
    assert "_merge_kernel" in code


@pytest.mark.parametrize("last", [True, False])
def test_code_is_cut_to_the_dimension_that_is_worked_along(searcher, last):
    code = searcher.generation.kernels["softmax-dim-online"].code
    assumed = Assumptions(gpu=True, itemsize=2, sized=True, contiguous=True, last=last)
    form = short_form(code, (), assumed)
    assert form is not None
    ast.parse(form.code)
    assert "ROWS" not in form.code
    assert "RuntimeError" not in form.code
    assert ("squeeze(2)" in form.code) is last
    whole = short_form(code)
    assert whole is not None and len(form.code) < len(whole.code) - 300
