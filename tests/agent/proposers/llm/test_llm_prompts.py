"""What prompts say: the judge's bounds, the card, the techniques that fit, and nothing twice."""

import re

import pytest
import torch
from scripted_endpoint import says, text_of
from search_states import DRAM, L2, START, a_plan, code, judged, kernel, plans, state

from agent.optimize.candidate import Context, ProblemInfo
from agent.optimize.starting import candidate_of, eager_start
from agent.proposers.llm.conditions import LIMITS, TF32_LIMITS, conditions
from agent.proposers.llm.offered import offered
from agent.proposers.llm.prompting import flat, quoted, shortened
from agent.proposers.llm.proposer import LlmProposer
from judge.evaluate.tolerance import candidate_limits

LINEAR = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return torch.relu(self.linear(x))

batch, size = 1024, 4096

def get_inputs():
    return [torch.rand(batch, size)]

def get_init_inputs():
    return [size]
"""
INFO = ProblemInfo(name="linear.py", source=LINEAR, sha256="0")


@pytest.mark.parametrize("dtype", list(LIMITS))
def test_the_bounds_in_prompts_are_those_of_the_judge(dtype):
    bounds = candidate_limits(getattr(torch, dtype))
    assert LIMITS[dtype] == pytest.approx((bounds.norm, bounds.worst), rel=0.05)


def test_the_bounds_with_tf32_are_those_of_the_judge():
    bounds = candidate_limits(torch.float32, "tf32")
    assert pytest.approx((bounds.norm, bounds.worst), rel=0.05) == TF32_LIMITS


def test_conditions_name_policy_shapes_card_and_versions():
    told = "\n".join(conditions(state(problem=INFO, versions={"torch": "2.11.0"})))
    for words in ("tf32x3", "float32 results", "132 SMs", "227 KiB a block", "torch 2.11.0",
                  "65,536 registers", "batch"):  # fmt: skip
        assert words in told
    assert "may use TF32" in "\n".join(conditions(state(problem=INFO, tf32=True)))
    assert "0.001 for float16 results" in "\n".join(conditions(state(dtype="fp16")))
    assert "7.5e-03" in "\n".join(conditions(state(dtype="bfloat16"))).replace("0.0075", "7.5e-03")


def test_techniques_are_those_of_the_operator_and_the_card():
    slugs = {slug for slug, _ in offered(LINEAR, "sm_90a", frozenset({"split-k"}), when=True)}
    assert {"tensor-cores", "kernel-fusion", "other"} <= slugs
    assert slugs.isdisjoint({"split-k", "implicit-gemm", "parallel-scan", "fp4-intrinsics"})
    assert "blackwell-tcgen05" not in slugs
    assert "tma-host-descriptor" not in {
        s for s, _ in offered(LINEAR, "sm_80", frozenset(), when=True)
    }
    lines = dict(offered(LINEAR, None, frozenset(), when=True))
    assert "When: " in lines["tensor-cores"]
    assert "When: " not in dict(offered(LINEAR, None, frozenset(), when=False))["tensor-cores"]
    assert len(offered("x = 1", None, frozenset(), when=True)) > len(slugs)


def test_nothing_is_cut_within_a_word():
    assert shortened("one two three", 9) == "one two …"
    assert shortened("one two three", 13) == "one two three"
    assert len(shortened("x" * 50, 20)) <= 20
    assert flat("32 MiB output " * 100, 60).endswith(" …")
    text = quoted("first line\nsecond line\nthird", most=25)
    assert "first line\nsecond line\n[cut: " in text


@pytest.fixture
def prompts(live, endpoint):
    """The planner's and the coder's prompt for a state."""

    def ask(told, plan=None):
        server = endpoint(planner=[says(plans(plan or a_plan(evidence=["source"], metric=None)))],
                          coder=[says(code("9"))])  # fmt: skip
        LlmProposer(live(server)).propose(told)
        return [text_of(each) for each in server.requests]

    return ask


def test_the_reference_stands_in_a_prompt_once(prompts):
    eager = candidate_of(eager_start(LINEAR))
    start = judged(eager.source, proposer="start")
    told = state(problem=INFO, beam=(start,), start=start, context=Context())
    for text in prompts(told, a_plan(parent=start.id, evidence=["source"], metric=None)):
        assert text.count("self.linear = nn.Linear") == 1
        assert "there is no kernel yet" in text
        assert "<<<<<<< SEARCH" not in text  # there is nothing to edit
        assert "expect it to be bound by compute" in text
        assert "Same outputs as `Model`" in text
        assert not re.search(r": ,|\bNone\b|\{\{|\{%|, \.", text)


def test_a_coder_gets_its_own_parents_evidence_and_may_edit(prompts):
    other = judged(kernel("2.5"), "fast-math", 2.5, profile={DRAM: 77.0})
    told = state(beam=(START, other))
    _, coder = prompts(told, a_plan(parent=other.id, evidence=["source"], metric=None))
    assert "77" in coder.split("# Evidence on ")[1]
    assert "31" not in coder.split("# Evidence on ")[1].split("# ")[0]
    assert f"{L2} |" not in coder
    assert "<<<<<<< SEARCH" in coder


def test_attempts_are_told_with_errors_and_what_ran(prompts):
    near = judged("x = 1\n", "split-k", 3.0)
    outcome = near.outcome.model_copy(update={"error_share": 0.8, "language": "python"})
    near = near.model_copy(update={"outcome": outcome})
    planner, _ = prompts(state(history=(START, near)))
    assert "error 0.8 of what is allowed" in planner
    assert "ran without a kernel of its own" in planner


@pytest.mark.parametrize("spelled", ["bfloat16", "bf16"])
def test_a_run_in_another_dtype_is_counted_in_it(prompts, spelled):
    planner, _ = prompts(state(problem=INFO, dtype=spelled))
    facts = planner[planner.index("What can be read of it") :].split("\n\n#")[0]
    assert "bfloat16" in facts
    assert "float32" not in facts


def test_a_plan_is_told_to_cite_only_what_it_can_read(prompts):
    told = "# Swizzle (pid-swizzling)\nSort the programs.\n\n(Showing 1 of 2)\nNot shown: skinny."
    context = Context(text=told, chunks=("chunk-1",), techniques=("pid-swizzling", "split-k"))
    planner, _ = prompts(state(context=context))
    assert "pid-swizzling, source (`source` is" in planner
    assert "chunk-1" not in planner
