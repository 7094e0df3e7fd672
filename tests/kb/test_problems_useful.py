"""Floors count what has to be computed: not the zeros of triangles, not what a mask hides."""

import pytest

from kb.problems.analysis import analyse
from kb.problems.facts import fact_lines, gpu_spec
from kb.problems.reading import read_problem

HEAD = "import torch\nimport torch.nn.functional as F\n"


def analysed(result, *inputs, lines=""):
    names = ", ".join("abc"[: len(inputs)])
    text = f"{HEAD}def forward({names}):\n    {lines}\n    return {result}\n"
    text += f"def get_inputs():\n    return [{', '.join(inputs)}]\n"
    return analyse(read_problem(text), gpu_spec("H200"))


def by_counting(left, right, out, n=24):
    def kept(part, row, column):
        return part == 0 or (row >= column if part < 0 else row <= column)

    return 2 * sum(
        kept(left, i, k) and kept(right, k, j) and kept(out, i, j)
        for i in range(n) for j in range(n) for k in range(n)
    )  # fmt: skip


NAMED = {-1: "torch.tril({})", 0: "{}", 1: "torch.triu({})"}


@pytest.mark.parametrize(
    "parts", [(-1, -1, -1), (1, 1, 1), (-1, 0, 0), (0, 1, 0), (-1, 1, 0), (0, 0, -1), (-1, 0, -1)]
)
def test_a_triangular_product_counts_the_multiplications_that_are_not_with_zero(parts):
    n = 1024
    left, right = (NAMED[part].format(f"torch.rand({n}, {n})") for part in parts[:2])
    found = analysed(NAMED[parts[2]].format("a @ b"), left, right)
    assert found.heaviest.name == "triangular_matmul"
    assert found.dense_flops == 2 * n**3
    # Counted at 24, where the diagonal still weighs.
    assert found.tensor_flops / found.dense_flops == pytest.approx(
        by_counting(*parts) / (2 * 24**3), rel=0.15
    )


def test_a_transposed_or_shifted_triangle_is_not_taken_for_one():
    n = "torch.rand(512, 512)"
    assert analysed("a.T @ b", f"torch.tril({n})", n).tensor_flops == 2 * 512**3
    assert analysed("a @ b", f"torch.tril({n}, 7)", n).tensor_flops == 2 * 512**3


CAUSAL = {
    "filled": "s.masked_fill(torch.tril(torch.ones(512, 512)) == 0, float('-inf'))",
    "added": "s + torch.triu(torch.full((512, 512), float('-inf')), diagonal=1)",
    "chosen": "torch.where(torch.tril(torch.ones(512, 512)).bool(), s, -1e9)",
}


@pytest.mark.parametrize("mask", CAUSAL.values(), ids=CAUSAL)
def test_a_causal_mask_is_seen_and_halves_the_work(mask):
    query = "torch.rand(4, 512, 64)"
    found = analysed(
        f"F.softmax({mask}, dim=-1) @ c", query, query, query,
        lines="s = a @ b.transpose(-2, -1) * 0.125",
    )  # fmt: skip
    assert (found.heaviest.name, found.heaviest.shape_class) == ("attention", "causal")
    assert found.tensor_flops / found.dense_flops == pytest.approx(0.5, abs=0.03)
    assert "without what masks or triangles skip" in fact_lines(found, gpu_spec("H200"))[1]
    fused = analysed("F.scaled_dot_product_attention(a, b, c, is_causal=True)", query, query, query)
    assert fused.tensor_flops / fused.dense_flops == pytest.approx(0.5, abs=0.03)


# By class: the scores' product, inputs and the way from scores to weights.
CACHED = {
    "decode": ('"bhgd,bhsd->bhgs", a, b', "4, 2, 4, 64", "4, 2, 4096, 64", "s.softmax(-1)"),
    "paged": ('"bhgd,bshd->bhgs", a, b[d].flatten(1, 2)', "4, 2, 4, 64", "512, 16, 2, 64",
              "s.softmax(-1)"),
    None: ('"bhgd,bhsd->bhgs", a, b', "4, 2, 4096, 64", "4, 2, 4096, 64",
           "(s - torch.logsumexp(s, -1, keepdim=True)).exp()"),
}  # fmt: skip


@pytest.mark.parametrize("kind", CACHED, ids=str)
def test_attention_to_a_cache_is_told_by_what_its_keys_are(kind):
    product, query, keys, weights = CACHED[kind]
    text = f"""{HEAD}
def forward(a, b, d):
    s = torch.einsum({product}) * 0.125
    s = s.masked_fill(torch.arange(s.shape[-1]) >= 3000, float("-inf"))
    return torch.einsum("bhgs,bhsd->bhgd", {weights}, torch.zeros(4, 2, s.shape[-1], 64))
def get_inputs():
    return [torch.rand({query}), torch.rand({keys}), torch.randint(0, 512, (4, 256))]
"""
    found = analyse(read_problem(text), gpu_spec("H200"))
    assert (found.heaviest.name, found.heaviest.shape_class) == ("attention", kind or "masked")


def test_keys_that_all_heads_share_in_two_parts_are_latent():
    shapes = ("4, 128, 512", "4, 4096, 512", "4, 128, 64", "4, 4096, 64")
    text = f"""{HEAD}
def forward(a, b, c, d):
    s = torch.einsum("bhc,bsc->bhs", a, b) + torch.einsum("bhr,bsr->bhs", c, d)
    return torch.einsum("bhs,bsc->bhc", (s * 0.07).softmax(-1), b)
def get_inputs():
    return [{", ".join(f"torch.rand({shape})" for shape in shapes)}]
"""
    found = analyse(read_problem(text), gpu_spec("H200"))
    assert (found.heaviest.name, found.heaviest.shape_class) == ("attention", "latent")


def test_a_bias_on_scores_is_no_causal_mask():
    query = "torch.rand(4, 512, 64)"
    found = analysed(
        "F.softmax(s + a[:, :, :1], dim=-1) @ c", query, query, query,
        lines="s = a @ b.transpose(-2, -1)",
    )  # fmt: skip
    assert found.heaviest.shape_class is None
    assert found.tensor_flops == found.dense_flops


def test_float32_products_are_bound_by_three_tf32_products():
    square = "torch.rand(4096, 4096)"
    card = gpu_spec("H200")
    line = fact_lines(analysed("a @ b", square, square), card)[2]
    three = 3 * 2 * 4096**3 / card.dense_flops("tf32")
    assert f"{three * 1e6:.3g} us by FLOPs in three TF32 products" in line
    assert "on CUDA cores" in line
    assert "if its error of about 1e-3 is allowed" in line
    assert "4.8 TB/s of the datasheet" in line
    measured = "products 51 TFLOP/s in float32 and 413 TFLOP/s in tf32."
    assert line.endswith(f" Measured there: reads 4.66 TB/s, copies 4.24, {measured}")
    halves = fact_lines(analysed("a @ b", f"{square}.half()", f"{square}.half()"), card)[2]
    assert "TF32" not in halves
    # A card whose TF32 rate is that of float32 gains nothing by three products.
    line = fact_lines(analysed("a @ b", square, square), gpu_spec("RTX 4090"))[2]
    assert "in float32" in line
    assert "three" not in line
