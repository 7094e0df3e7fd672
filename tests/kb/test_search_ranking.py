"""What search puts first: definitions, kernel bodies, what fits the format, language and GPU."""

import pytest
from support import HashingEmbedder, TinyCorpus, searcher

from ingest.pipeline import Request, ingest
from kb.search.models import Filters

ROPE = '''
import triton
import triton.language as tl


@triton.jit
def rope_fwd(q_ptr, cos_ptr, sin_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + offsets, mask=offsets < n)
    cos = tl.load(cos_ptr + offsets, mask=offsets < n)
    tl.store(q_ptr + offsets, q * cos, mask=offsets < n)


SIZES = {"rope_fwd": 128, "rope rotary position embedding": 256, "rope cos sin q": 512}
NAMES = ["rope_fwd", "rope_bwd", "rope_cache", "rotary_position_embedding", "apply_rope_fwd"]


def apply_rope(q, cos, sin):
    """Rotate all heads of q in place."""
    heads = q.shape[0] * q.shape[1]
    blocks = triton.cdiv(q.numel(), SIZES["rope_fwd"])
    # One program per block of the flattened heads.
    rope_fwd[(blocks,)](q, cos, sin, q.numel(), BLOCK=SIZES["rope_fwd"])
    return q.view(heads, -1)
'''
USES = '''
def decode_step(model, q, k, cos, sin):
    """Run one step; calls quantize_rows and quantize_rows again, then quantize_rows."""
    q = quantize_rows(apply_rope(q, cos, sin))
    k = quantize_rows(apply_rope(k, cos, sin))
    return quantize_rows(model.attend(quantize_rows(q), quantize_rows(k)))
'''
QUANTIZE = """
def quantize_rows(x):
    scale = x.abs().amax(dim=-1, keepdim=True) / 448.0
    return (x / scale).to(torch.float8_e4m3fn), scale


def narrow_first(x):
    return (x / x.abs().amax(dim=-1, keepdim=True)).to(torch.float8_e4m3fn)


def narrow_other(x):
    return (x / x.abs().amax(dim=-1, keepdim=True)).to(torch.float16)
"""
NORM_TRITON = """
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(x_ptr + offsets, x / tl.sum(x), mask=offsets < n)
"""
NORM_CUDA = """
__global__ void group_norm_cuda(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float total = block_sum(x, n);
  if (i < n) x[i] = x[i] / total;
}
"""
LAYER_NORM = """
def causal_filter_forward(x, weight, bias):
    padded = x.new_zeros(len(x) + len(weight) - 1)
    padded[len(weight) - 1 :] = x
    return padded.unfold(0, len(weight), 1) @ weight + bias


def ln_bwd(dy, x, weight, mean, rstd):
    normed = (x - mean) * rstd
    dw = (dy * normed).sum(0)
    return dy * weight * rstd, dw
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("ranking")
    corpus = TinyCorpus(place / "corpus")
    corpus.technique(
        "softmax-in-registers",
        "memory",
        aliases="[kept row]",
        effect="A row is read once.",
        examples="[softmax-kept]",
    )
    corpus.kernel(
        "softmax-kept", "softmax-in-registers", op="softmax", title="Softmax of rows of a matrix"
    )
    code = place / "code"
    for path, text in {
        "ops/rope.py": ROPE,
        "model/steps.py": USES,
        "ops/quantize.py": QUANTIZE,
        "norm/triton_norm.py": NORM_TRITON,
        "norm/norm.cu": NORM_CUDA,
        "norm/layer.py": LAYER_NORM,
        "blackwell/sm100_gemm.py": "def copy_tiles_to_tmem(tiles):\n" + "    tiles.copy()\n" * 6,
        "ampere/sm80_gemm.py": "def copy_tiles_to_smem(tiles):\n" + "    tiles.copy()\n" * 6,
    }.items():
        target = code / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    maps = [
        f"def tensor_map_stride_{axis}(tensor_map):\n    stride = tensor_map.strides[{number}]\n"
        f"    return stride * {number}\n"
        for number, axis in enumerate("abcdefgh")
    ]
    (code / "maps").mkdir()
    (code / "maps/one.py").write_text("\n\n".join(maps))
    (code / "maps/two.py").write_text(
        "def map_extent(tensor_map, axis):\n    extent = tensor_map.extents[axis]\n"
        "    return max(extent, tensor_map.box[axis])\n"
    )
    for vendor in ("first", "second"):
        target = code / vendor / "copied.py"
        target.parent.mkdir()
        target.write_text(
            "def gather_expert_tokens(tokens, order):\n"
            f"    # as {vendor} has it\n"
            "    sorted_tokens = tokens.index_select(0, order)\n"
            "    counts = order.bincount(minlength=8)\n"
            "    return sorted_tokens, counts.cumsum(0)\n"
        )
    ingest([Request(corpus.root), Request(code)], place / "index", HashingEmbedder(dimensions=256))
    return searcher(place / "index", HashingEmbedder(dimensions=256))


def symbols(one, query, k=10, **filters):
    return [each.symbol for each in one.search(query, k, Filters(**filters)).results]


@pytest.mark.parametrize(
    ("query", "symbol"),
    [
        ("quantize_rows", "quantize_rows"),
        ("ops.quantize.quantize_rows", "quantize_rows"),
        ("apply_rope", "apply_rope"),
        ("tl_helpers.rope_fwd", "rope_fwd"),
        ("group_norm_cuda(x, n)", "group_norm_cuda"),
    ],
)
def test_a_definition_stands_before_its_uses(one, query, symbol):
    assert symbols(one, query)[0] == symbol


def test_a_definition_is_found_even_where_no_word_order_finds_it(one, monkeypatch):
    from kb.search import engine

    monkeypatch.setattr(engine, "CANDIDATES", 1)
    assert "quantize_rows" in symbols(one, "pid.swizzling.quantize_rows")


def test_a_kernel_stands_before_what_launches_it_where_a_kernel_is_asked_for(one):
    found = symbols(one, "rope kernel", kinds=["code"])
    assert found[0] == "rope_fwd"
    assert "apply_rope" in found


def test_constants_that_name_everything_stand_behind_what_does_it(one):
    results = one.search("rotary position embedding rope", 10, Filters(kinds=["code"])).results
    places = {each.symbol: place for place, each in enumerate(results)}
    assert None in places
    assert places["rope_fwd"] < places[None]
    parts = one.search("rope_fwd rotary", 10, Filters(kinds=["code"]), explain=True).results
    assert any(each.explanation.get("role", 0) < 0 for each in parts if each.symbol is None)


def test_the_number_format_of_the_query_decides_between_twins(one):
    query = "narrow x by its amax to {}"
    assert symbols(one, query.format("fp8"), kinds=["code"])[0] == "narrow_first"
    assert symbols(one, query.format("half precision"), kinds=["code"])[0] == "narrow_other"


@pytest.mark.parametrize(
    ("language", "symbol"), [("triton", "group_norm_kernel"), ("CUDA", "group_norm_cuda")]
)
def test_the_language_of_the_query_decides_between_twins(one, language, symbol):
    assert symbols(one, f"group norm in {language}", kinds=["code"])[0] == symbol


def test_a_generation_of_gpus_rules_out_what_does_not_run_on_it(one):
    query = "copy tiles in a gemm on {}"
    assert symbols(one, query.format("Blackwell"), kinds=["code"])[0] == "copy_tiles_to_tmem"
    assert symbols(one, query.format("Ampere"), kinds=["code"])[0] == "copy_tiles_to_smem"


def test_short_forms_and_words_in_full_find_each_other(one):
    assert symbols(one, "backward of the layer norm", kinds=["code"])[0] == "ln_bwd"
    assert symbols(one, "causal_filter fwd", kinds=["code"])[0] == "causal_filter_forward"


def test_copies_of_one_function_are_one_result(one):
    found = symbols(one, "gather the tokens of each expert in order", kinds=["code"])
    assert found.count("gather_expert_tokens") == 1


def test_one_file_does_not_fill_the_page(one):
    results = one.search("stride of the tensor map", 6, Filters(kinds=["code"])).results
    files = [each.path for each in results]
    assert files.count("maps/one.py") == 4
    assert "maps/two.py" in files
    many = one.search("stride of the tensor map", 40, Filters(kinds=["code"])).results
    assert [each.path for each in many].count("maps/one.py") == 8


def test_an_example_that_matches_speaks_for_its_technique(one):
    query = "softmax of the rows of a matrix"
    results = one.search(query, 10, Filters(kinds=["technique"]), explain=True).results
    alone = {each.techniques[0]: each.explanation for each in results}
    assert all("example matches" not in parts for parts in alone.values())
    results = one.search(query, 10, explain=True).results
    techniques = [each for each in results if each.kind == "technique"]
    assert techniques[0].techniques == ["softmax-in-registers"]
    assert techniques[0].explanation["example matches"] > 0


def test_a_list_of_metrics_finds_the_technique_whose_gates_they_meet(one):
    found = one.search("l2_hit_rate: 35, dram_throughput: 91", 5, explain=True).results
    assert found[0].kind == "technique"
    assert found[0].explanation["gates"] > 0
    techniques = Filters(kinds=["technique"])
    against = one.search("l2_hit_rate: 97", 10, techniques, explain=True).results
    gated = [each.explanation.get("gates", 0) for each in against]
    assert gated
    assert max(gated) <= 0


def test_a_pasted_kernel_finds_kernels_like_it_and_what_they_do_better(one):
    pasted = '''"""Ours, commented: pid swizzling, quantize_rows, softmax."""
import triton
import triton.language as tl


@triton.jit
def our_rope_kernel(q_ptr, cos_ptr, n, BLOCK: tl.constexpr):
    # persistent kernel? quantize_rows?
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(q_ptr + offs, mask=offs < n)
    cos = tl.load(cos_ptr + offs, mask=offs < n)
    tl.store(q_ptr + offs, q * cos, mask=offs < n)
'''
    results = one.search(pasted, 5, Filters(kinds=["code"]), explain=True).results
    assert results[0].symbol == "rope_fwd"
    assert results[0].explanation["kernel wanted"] > 0
    used = pasted.replace("    q = tl.load", "    pid_swizzling_(offs)\n    q = tl.load", 1)
    techniques = one.search(used, 50, Filters(kinds=["technique"]), explain=True).results
    parts = {each.techniques[0]: each.explanation for each in techniques}
    assert parts["pid-swizzling"]["already used"] < 0
    assert "already used" not in parts["software-pipelining"]


def test_the_weight_of_a_source_decides_between_equals(tmp_path):
    for name, quality in (("known", 1.0), ("unknown", 0.5)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "f.py").write_text(QUANTIZE.replace("quantize_rows", f"quantize_{name}"))
        ingest(
            [Request(folder, quality=quality)], tmp_path / "index", HashingEmbedder(dimensions=256)
        )
    one = searcher(tmp_path / "index", HashingEmbedder(dimensions=256))
    results = one.search("quantize rows", 10, explain=True).results
    weights = {each.source.name: each.explanation.get("source quality", 0) for each in results}
    assert weights["unknown"] < weights["known"] == 0
    assert results[0].source.name == "known"


def test_the_code_of_a_source_that_is_named_comes_before_other_code(tmp_path):
    corpus = TinyCorpus(tmp_path / "corpus")
    shared = "def rms_norm_rows(x, weight):\n    scale = x.square().mean(-1).rsqrt()\n"
    requests = [Request(corpus.root)]
    for name, more in (("fastnorm-python", "x * scale * weight"), ("torch-plain", "weight * x")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "norm.py").write_text(f"{shared}    {name[:4]} = scale\n    return {more}\n")
        requests.append(Request(folder, name=name))
    ingest(requests, tmp_path / "index", HashingEmbedder(dimensions=256))
    found = searcher(tmp_path / "index", HashingEmbedder(dimensions=256))

    def first(query):
        return found.search(query, 5, Filters(), explain=True).results[0]

    for said, source in (("fastnorm", "fastnorm-python"), ("plain", "torch-plain")):
        result = first(f"rms norm of rows in {said}")
        assert result.source.name == source
        assert result.explanation["source named"] > 0
    # What all packages have in their names names none of them.
    assert "source named" not in first("rms norm of rows in python").explanation
