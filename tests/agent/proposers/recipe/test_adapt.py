"""Adapted kernels are right by the judge, in Triton's interpreter; what cannot be is refused."""

from pathlib import Path

import pytest

from agent.proposers.recipe.adapt import AdaptedFile, CannotAdaptError, adapt, fits
from agent.proposers.recipe.carry import Recipe, signature
from agent.proposers.recipe.catalog import CorpusCatalog
from agent.proposers.recipe.core import Core
from agent.proposers.recipe.operators import recognise
from agent.proposers.tune.parameters import find_parameters
from judge.evaluate.result import Verdict
from judge.sandbox.launch import Zygote
from tests.agent.proposers.recipe import problems as p


@pytest.fixture(scope="module")
def shelf() -> CorpusCatalog:
    return CorpusCatalog()


def _stock(shelf: CorpusCatalog, slug: str) -> Recipe:
    families = ("matmul", "matvec", "rmsnorm", "softmax", "silu-mul", "add-rmsnorm", "quantize")
    return next(s for f in families for s in shelf.kernels(f, None, None) if s.slug == slug)


def _takes(core: Core, stock: Recipe) -> bool:
    return core.op == stock.op and fits(core, stock) is None


def _adapted(shelf: CorpusCatalog, source: str, *slugs: str) -> AdaptedFile:
    graph = p.graph_of(source)
    chosen = [_stock(shelf, slug) for slug in slugs]
    cores = recognise(graph, lambda core: any(_takes(core, each) for each in chosen)).cores
    assert [core.op for core in cores] == [stock.op for stock in chosen]
    return adapt(graph, list(zip(cores, chosen, strict=True)), "A little problem")


JUDGED = {
    "matvec-split-k": p.MATVEC,
    "rmsnorm-register-cached": p.RMSNORM,
    "softmax-register-cached": p.SOFTMAX,
    "matmul-bias-gelu": p.GELU_LINEAR,
    "silu-mul-fused": p.SILU_MUL,
    "matmul-plain": p.RELU_LINEAR,
}


@pytest.mark.parametrize("slug", JUDGED)
def test_an_adapted_kernel_is_right(
    slug: str, shelf: CorpusCatalog, interpreting: Zygote, tmp_path: Path
) -> None:
    found = p.judged(
        JUDGED[slug], _adapted(shelf, JUDGED[slug], slug).source, tmp_path, interpreting
    )
    assert found.verdict is Verdict.CORRECT, found.reasons


def test_what_was_measured_can_be_tuned(shelf: CorpusCatalog) -> None:
    adapted = _adapted(shelf, p.MATVEC, "matvec-split-k")
    told = signature(_stock(shelf, "matvec-split-k"))
    assert told is not None
    assert len(told.tunables) >= 4
    start = find_parameters(adapted.source).start
    assert {name: repr(value) for name, value in start.items()} == told.tunables


def test_two_kernels_share_a_file(shelf: CorpusCatalog) -> None:
    source = p.benchmark("kernels/silu_mul_nvfp4_8x256x7168")
    adapted = _adapted(shelf, source, "silu-mul-fused", "nvfp4-quantize-emulated")
    names = find_parameters(adapted.source).start
    assert names["block_silu_mul_fused"] == 1024
    assert names["block_nvfp4_quantize_emulated"] == 128
    assert adapted.source.count("From the knowledge base: ") == 2


def test_the_source_and_its_licence_are_named(shelf: CorpusCatalog) -> None:
    text = _adapted(shelf, p.SOFTMAX, "softmax-three-pass").source
    assert "# From the knowledge base: softmax-three-pass." in text
    assert "Apache-2.0" in text
    assert "def reference" not in text
    assert "def make_inputs" not in text


def test_elementwise_work_beside_the_kernel_is_told(shelf: CorpusCatalog) -> None:
    adapted = _adapted(shelf, p.benchmark("judge/linear"), "matmul-plain")
    assert adapted.fused == ("bias", "relu")
    assert adapted.beside == ()
    # A norm over the channels is taken where it lies.
    channels = _adapted(shelf, p.benchmark("judge/rms_norm"), "rmsnorm-dim-tiled")
    assert channels.beside == ()


def test_heavy_work_beside_the_kernel_is_pytorch_s_and_named(shelf: CorpusCatalog) -> None:
    adapted = _adapted(shelf, p.benchmark("judge/attention"), "softmax-dim-online")
    assert "matmul" in adapted.beside


@pytest.mark.parametrize(
    ("parts", "alone"),
    [
        ("x[:, : x.shape[1] // 2], x[:, x.shape[1] // 2 :]", True),
        ("x[:, :-1], x[:, 1:]", False),
        ("self.linear(x)[:, :12], self.linear(x)[:, 12:]", False),
    ],
)
def test_a_slice_at_a_place_of_the_input_s_own_holds_for_its_shape(
    shelf: CorpusCatalog, parts: str, alone: bool
) -> None:
    forward = (
        "def __init__(self):\n    super().__init__()\n    self.linear = nn.Linear(18, 24)\n"
        f"def forward(self, x):\n    a, b = {parts}\n    return torch.softmax(a.sin() * b, 1)"
    )
    source = p.problem("ROWS, COLUMNS = 6, 18", forward, "torch.randn(ROWS, COLUMNS)")
    assert ("only in shape" in _adapted(shelf, source, "softmax-register-cached").source) == alone


def test_constants_and_unequal_parts_are_written_out(
    shelf: CorpusCatalog, interpreting: Zygote, tmp_path: Path
) -> None:
    parts = "a, b = x[:, [0, 2, 1, 4, 3, 5, 7, 6]].split(5, -1)"
    y = "torch.cat([b, torch.empty_like(a).copy_(a)], 1).softmax(-1)"
    forward = f"def forward(self, x):\n    {parts}\n    return {y}"
    source = p.problem("ROWS, COLUMNS = 6, 8", forward, "torch.randn(ROWS, COLUMNS)")
    adapted = _adapted(shelf, source, "softmax-register-cached")
    found = p.judged(source, adapted.source, tmp_path, interpreting)
    assert found.verdict in {Verdict.LIBRARY, Verdict.SPECIALISED}, found.reasons


def test_random_numbers_beside_the_kernel_are_refused(shelf: CorpusCatalog) -> None:
    random = p.SOFTMAX.replace("x.softmax(-1)", "(x + torch.rand_like(x)).softmax(-1)")
    assert random != p.SOFTMAX
    with pytest.raises(CannotAdaptError, match=r"rand_like.* cannot be called beside the kernel"):
        _adapted(shelf, random, "softmax-dim-online")


def test_a_kernel_with_an_activation_of_its_own_does_not_fit(shelf: CorpusCatalog) -> None:
    own, plain = _stock(shelf, "matmul-bias-gelu"), _stock(shelf, "matmul-plain")
    (product,) = recognise(p.graph_of(p.benchmark("judge/matmul"))).cores
    (gelu,) = recognise(p.graph_of(p.GELU_LINEAR), lambda core: _takes(core, own)).cores
    assert fits(product, own) == "it needs bias"
    assert fits(gelu, own) is None
    assert fits(gelu, plain) == "it does not take bias"


def test_a_file_of_another_form_is_no_stock() -> None:
    for code in ("def f(x): return x", "def kernel_function(*a): return a", "not python("):
        assert signature(Recipe("a", "softmax", code, ("float32",))) is None
