"""CUDA kernels of the knowledge base as candidates."""

import shutil
from pathlib import Path

import pytest
import yaml

from agent.proposers.recipe.carry import Recipe, identifier, inlined_source
from agent.proposers.recipe.catalog import CorpusCatalog
from agent.proposers.recipe.proposer import choices
from ingest.corpus_source import corpus_state
from judge.evaluate.scan import scan
from judge.problem.kernel import Form, KernelFile, Language
from kb.corpus.loader import shipped_corpus
from kb.index.state import parse_entries

GPU = "NVIDIA H200"
SLUG = "streaming-scale-cuda"
PLAIN = "scale-plain"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A copy of the shipped corpus that can be changed."""
    return Path(shutil.copytree(shipped_corpus(), tmp_path / "corpus"))


def _set_fraction(path: Path, fraction: float | None) -> None:
    """Have all of an entry's records say so."""
    head, front, rest = path.read_text(encoding="utf-8").split("---\n", 2)
    entry = yaml.safe_load(front)
    for record in entry.get("verified", ()):
        record["gpu"] = GPU
        record["date"] = str(record["date"])
        if fraction is None:
            record.pop("floor_fraction", None)
        else:
            record["floor_fraction"] = fraction
    path.write_text(f"{head}---\n{yaml.safe_dump(entry)}---\n{rest}", encoding="utf-8")


def _shelved(corpus: Path) -> list[Recipe]:
    return list(CorpusCatalog(corpus).kernels("scale", "sm_90a", GPU))


def test_a_cuda_kernel_measured_as_the_best_stands_first(corpus: Path) -> None:
    _set_fraction(corpus / "kernels/cuda/streaming_scale.cu", 1.2)
    found = _shelved(corpus)
    assert found[0].slug == SLUG
    assert "extern" in found[0].cuda
    assert "slug:" not in found[0].cuda
    assert "def kernel_function" in found[0].code
    assert PLAIN in [each.slug for each in found]


@pytest.mark.parametrize("fraction", [0.001, None])
def test_a_cuda_kernel_that_is_not_the_best_is_no_candidate(
    corpus: Path, fraction: float | None
) -> None:
    _set_fraction(corpus / "kernels/cuda/streaming_scale.cu", fraction)
    found = _shelved(corpus)
    assert found
    assert not any(each.cuda for each in found)


def test_launch_code_brings_its_cuda_source_along(corpus: Path) -> None:
    _set_fraction(corpus / "kernels/cuda/streaming_scale.cu", 1.2)
    stock = _shelved(corpus)[0]
    text, name = inlined_source(stock, alone=True), identifier(stock.slug)
    assert name == "streaming_scale_cuda"
    entry = f"def kernel_function(x, factor):\n    return {name}(x, factor)\n"
    source = f"import torch\n\n\n{text}\n\n\n{entry}"
    file = KernelFile.parse(source)
    assert (file.form, file.language) == (Form.KERNEL_FUNCTION, Language.CUDA)
    assert "__file__" not in text
    assert "Path" not in text
    kept = {}
    exec("CUDA_" + text.rpartition("\n\n\nCUDA_")[2], kept)
    assert kept["CUDA_streaming_scale_cuda"].strip() == _shelved(corpus)[0].cuda.strip()
    assert not [each for each in scan(source, "kernel.py") if each.severity == "cheat"]


def test_an_index_keeps_the_launch_code_of_cuda_kernels() -> None:
    state = corpus_state(shipped_corpus())
    kernels = parse_entries(state.entries_json()).kernels
    cuda = [each for each in kernels if each.entry.language == "cuda"]
    assert cuda
    assert all("def kernel_function" in each.launcher for each in cuda)
    assert not any(each.launcher for each in kernels if each.entry.language == "triton")


def test_one_file_of_several_cores_does_without_cuda_kernels() -> None:
    """A CUDA kernel may refuse a size at run time; with two cores no other file would be whole."""
    best = Recipe("best-cuda", "scale", "", ("float32",), cuda="x")
    other = Recipe("other", "scale", "", ("float32",))
    assert choices([[best, other], [best, other]]) == [
        [best, best], [other, other], [other, best], [best, other],
    ]  # fmt: skip
    assert choices([[best, other]]) == [[best], [other]]
    assert choices([[best], [other]]) == [[best, other]]


@pytest.mark.parametrize(
    ("op", "call"),
    [
        ("matmul-int4", "_weight_int4pack_mm"),
        ("matmul-scaled", "_scaled_mm"),
        ("top-k", "torch.topk"),
        ("grouped-matmul", "_grouped_mm"),
    ],
)
def test_the_library_that_a_kernel_is_compared_with_is_not_carried_along(
    op: str, call: str
) -> None:
    stocks = list(CorpusCatalog(shipped_corpus()).kernels(op, "sm_90a", GPU))
    assert any(call in each.code for each in stocks)
    for stock in stocks:
        text, name = inlined_source(stock, alone=True), identifier(stock.slug)
        assert f"def {name}" in text
        assert call not in text
        assert "_repacked" not in text
