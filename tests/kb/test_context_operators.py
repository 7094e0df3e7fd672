"""A context shows the kernels of the operators that a question or a pasted kernel names."""

import re

import pytest

from kb.context.budget import Budget
from kb.context.build import build_context
from kb.context.materials import COMPARISON, Section
from kb.context.models import ContextRequest
from kb.context.packing import pack_sections
from kb.search.opening import open_searcher

STENCIL = """// 13-point stencil of a wave
__global__ void wave3d(const float* u, float* un, int nx) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    un[i] = -7.5f * u[i] + 1.33f * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx]);
}
"""
RMS_FP8 = """import triton
import triton.language as tl
@triton.jit
def rms_fp8_kernel(x_ptr, q_ptr, s_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + cols, cols < N, 0.0).to(tl.float32)
    y = x / tl.sqrt(tl.sum(x * x, 0) / N)
    scale = tl.max(tl.abs(y), 0) / 448.0
    tl.store(s_ptr + row, scale)
    tl.store(q_ptr + row * N + cols, (y / scale).to(tl.float8e4nv), cols < N)
"""


@pytest.fixture(scope="module")
def ask(shipped_index):
    searcher = open_searcher(shipped_index)

    def asked(query=None, tokens=3000, **more):
        return build_context(ContextRequest(query=query, max_tokens=tokens, **more), searcher)

    return asked


def shown(response):
    return re.findall(r"^## Example: .* \(([a-z0-9-]+)\)$", response.text, re.MULTILINE)


def test_where_all_kernels_of_an_operator_are_slower_the_best_is_a_start(ask):
    response = ask("top-k of each row, 128k vocabulary", language="triton")
    assert shown(response) == ["topk-rows-select"]
    assert "0.72x as fast as the vendor library: call that first" in response.text


def test_an_operator_without_a_kernel_is_named_and_hides_no_other(ask):
    response = ask("RoPE on q and k, then an FFT of each row", language="triton")
    assert shown(response)[0] == "rope-heads"
    assert "The knowledge base has no kernel for these operators: fft." in response.text


@pytest.mark.parametrize(
    "request_", [{"query": "RMSNorm with per-token FP8 quantization"}, {"kernel": RMS_FP8}]
)
def test_each_operator_named_has_an_example_before_one_has_two(ask, request_):
    assert set(shown(ask(**request_))) == {"rmsnorm-register-cached", "fp8-quantize-rows"}
    assert len(shown(ask(**request_, tokens=1800))) == 1


def test_the_closest_kind_comes_before_its_family(ask):
    response = ask("int4_gemv")
    assert shown(response)[0] == "matmul-int4-fused"
    assert "Not shown: matvec-split-k" in response.text


def test_a_kernel_of_the_other_language_is_named(ask):
    response = ask("maximum of values, segment max by offsets", language="triton", tokens=1500)
    told = "The knowledge base has no Triton kernel for segment-max: segment-max-"
    assert told in response.text
    assert "(`kb show segment-max-" in response.text
    assert not any("segment" in slug for slug in shown(response))


def test_a_kernel_for_newer_cards_only_is_said_to_be_missing_on_this_one(ask):
    response = ask("matrix vector product", language="cuda", gpu="A100")
    assert "has no CUDA kernel for matvec that runs on A100: matvec-split-k is in" in response.text
    response = ask("tune a triangular matmul", gpu="A100")
    assert "has no kernel for matmul-triangular that runs on A100." in response.text


def test_a_kernel_of_another_operator_is_shown_as_such(ask):
    response = ask("FFT of each row in shared memory", tokens=3000)
    assert "no kernel for these operators: fft" in response.text
    examples = response.text.count("## Example: ")
    assert response.text.count("\nNot the same operation; it shows a technique: ") == examples


def test_a_pasted_kernel_gets_examples_in_its_language(ask):
    response = ask(kernel=STENCIL, gpu="A100", tokens=3000)
    assert "no kernel for these operators: stencil" in response.text
    assert all(slug.endswith("-cuda") for slug in shown(response))


def test_an_example_for_a_kernel_of_unknown_operator_says_what_it_is_chosen_by(ask):
    nameless = STENCIL.replace("stencil", "update").replace("wave3d", "advance")
    response = ask(kernel=nameless, profile={"l2_hit_rate": 20.0}, tokens=4000)
    assert shown(response)
    assert response.text.count("\nChosen by technique (") == len(shown(response))


def test_cuda_in_an_error_message_asks_for_no_language(ask):
    response = ask("CUDA out of memory in F.cross_entropy(logits.float(), labels)")
    assert shown(response)[0] == "cross-entropy-online"


CODE = "```python\n" + "x = 1\n" * 200 + "```"


@pytest.mark.parametrize(
    ("section", "kept"),
    [
        (
            Section("", ["It helps.", "Use when:", "- " + "one more " * 200], 0),
            "# Head\n\nIt helps.",
        ),
        (Section(COMPARISON, ["Both compute a sum. Before, it is slow.", CODE], 0), "# Head"),
        (
            Section("## Pitfalls", ["Mind the end.", CODE], 0),
            "# Head\n\n## Pitfalls\n\nMind the end.",
        ),
    ],
)
def test_an_introduction_goes_with_what_it_introduces(section, kept):
    assert pack_sections("# Head", [section], Budget(300, len)) == kept
    whole = pack_sections("# Head", [section], Budget(9000, len))
    assert whole is not None
    assert all(block in whole for block in section.blocks)
