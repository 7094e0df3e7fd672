"""What the shipped corpus answers to real questions, and what it leaves unanswered."""

import json
from pathlib import Path

import pytest
import yaml

from kb.context.build import build_context
from kb.context.models import ContextRequest
from kb.search.opening import open_searcher

QUESTIONS = yaml.safe_load(
    (Path(__file__).parents[2] / "benchmarks/abstention/questions.yaml").read_text()
)["held_out"]


@pytest.fixture(scope="module")
def searcher(shipped_index):
    report = json.loads(shipped_index.with_suffix(".json").read_text())
    assert report["embedded"] == 0, "the shipped vectors are stale: run `make embeddings`"
    return open_searcher(shipped_index)


def techniques(searcher, query):
    """Slugs of the techniques that answer a query, best first."""
    results = searcher.search(query, 10).results
    return [result.techniques[0] for result in results if result.kind == "technique"]


@pytest.mark.parametrize(
    ("query", "slug", "within"),
    [
        ("use TMA for memory optimization", "tma-host-descriptor", 1),
        ("my matmul rereads the same tiles from DRAM and L2 hit rate is 30%", "pid-swizzling", 3),
        ("tl.make_tensor_descriptor", "tma-device-descriptor", 1),
        ("__launch_bounds__", "occupancy-tuning", 1),
        ("__nv_cvt_float2_to_fp4x2", "fp4-intrinsics", 1),
        ("global_load_efficiency 12.5", "coalesced-access", 1),
        ("the last wave of thread blocks leaves most SMs idle", "wave-quantization", 1),
        ("softmax reads its input three times from memory", "register-caching", 2),
        ("K is 16384 but M and N are 64, only four blocks are launched", "split-k", 2),
        ("fuse bias and GELU into the matmul epilogue", "kernel-fusion", 2),
        ("float32 matmul is slow on A100, how to use TF32", "tensor-cores", 2),
        ("prefetch the next tile while computing the current one", "software-pipelining", 2),
        ("loads are 32-bit in the SASS", "vectorized-access", 2),
        ("triton.autotune key and prune_configs_by", "autotuning", 1),
    ],
)
def test_a_question_finds_its_technique(searcher, query, slug, within):
    assert slug in techniques(searcher, query)[:within]


def test_a_technique_is_the_first_result_where_one_is_asked_for(searcher):
    first = searcher.search("use TMA for memory optimization", 5).results[0]
    assert first.kind == "technique"
    assert first.techniques[0].startswith("tma-")


def test_a_technique_comes_before_its_examples_where_no_operator_is_named(searcher):
    names = [
        record.entry.aliases[0] if record.entry.aliases else record.entry.title
        for record in searcher.generation.techniques.values()
    ]
    first = {name: searcher.search(f"how do I use {name}", 3).results for name in names}
    assert {name: found[:1] for name, found in first.items() if not found} == {}
    assert [name for name, found in first.items() if found[0].kind != "technique"] == []


def test_nine_of_ten_questions_about_other_things_are_not_answered(searcher):
    asked = QUESTIONS["unanswerable"]
    refused = [question for question in asked if searcher.search(question).abstained]
    assert "best pasta recipe" in refused
    assert len(refused) >= 0.9 * len(asked), sorted(set(asked) - set(refused))


def test_nine_of_ten_questions_about_kernels_are_answered(searcher):
    asked = QUESTIONS["answerable"]
    refused = [question for question in asked if searcher.search(question).abstained]
    assert len(refused) <= 0.1 * len(asked), refused


def test_a_small_context_holds_text_and_a_citation_and_names_the_example(searcher):
    request = ContextRequest(
        query="use TMA for memory optimization", max_chars=2000, max_examples=1
    )
    response = build_context(request, searcher)
    assert len(response.text) <= 2000
    assert "\n---\n" in response.text
    assert f"(Showing 0 of {response.examples_available} examples)" in response.text
    assert "kb show " in response.text
    assert response.citations
    assert response.citations[0].url in response.text


def test_a_context_with_room_for_it_holds_a_whole_example(searcher):
    request = ContextRequest(
        query="use TMA for memory optimization", max_chars=9000, max_examples=1
    )
    response = build_context(request, searcher)
    assert f"(Showing 1 of {response.examples_available} examples)" in response.text
    example = response.text[response.text.index("## Example: ") :]
    assert "```python" in example
    assert "def kernel_function" in example


def test_a_profile_alone_finds_a_technique_by_its_gates(searcher):
    profile = {"l2_hit_rate": 30, "dram_throughput": 92, "waves_per_sm": 6}
    response = build_context(ContextRequest(profile=profile), searcher)
    assert "pid-swizzling" in [each.slug for each in response.techniques]
    reasons = {each.slug: each.reason for each in response.techniques}
    assert "L2 hit rate is 30 %" in reasons["pid-swizzling"]


def test_what_does_not_run_on_the_gpu_is_left_out(searcher):
    query = "use TMA for memory optimization"
    on_hopper = build_context(ContextRequest(query=query, gpu="H100"), searcher)
    on_ampere = build_context(ContextRequest(query=query, gpu="A100"), searcher)
    assert any(each.slug.startswith("tma-") for each in on_hopper.techniques)
    assert not any(each.slug.startswith("tma-") for each in on_ampere.techniques)
