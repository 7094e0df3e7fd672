"""The published figure on kernel extents, and the independent scanner it rests on."""

import json
from pathlib import Path

import pytest

from benchmarks.chunking import extents
from benchmarks.chunking.extents import RESULTS, Score, is_held_whole
from benchmarks.chunking.truth import kernel_extents
from ingest.chunkers import chunk_file
from ingest.chunkers.cpp import definitions

ROOT = Path(__file__).parents[2]
SOURCE = b"""\
#define NOT __global__ void macro() {}
// __global__ void comment() {}
const char* text = "__global__ void literal() {}";
__global__ void declared(int);
namespace n {
template <int N>
__global__ void __launch_bounds__(256, (N > 1 ? 2 : 1))
first(int* x) {
#if A
  if (*x) {
#else
  if (N) {
#endif
    *x = '}';
  }
}
}
template __global__ void n::first<1>(int*);
static __global__ void second() {}
"""


def test_the_scanner_finds_bodies_and_nothing_else() -> None:
    found = kernel_extents(SOURCE)
    assert [extent.name for extent in found] == ["first", "second"]
    first, second = (SOURCE[extent.start : extent.end].decode() for extent in found)
    assert first.startswith("template <int N>")
    assert first.endswith("  }\n}")
    assert second == "static __global__ void second() {}"


def test_the_chunker_agrees_with_the_scanner() -> None:
    kernels = [(d.start, d.end) for d in definitions(SOURCE) if d.is_kernel]
    assert kernels == [(extent.start, extent.end) for extent in kernel_extents(SOURCE)]


@pytest.mark.parametrize("path", sorted((ROOT / "corpus").rglob("*.cu")), ids=lambda p: p.stem)
def test_the_kernels_of_the_corpus_come_out_whole(path: Path) -> None:
    source = path.read_bytes()
    found = kernel_extents(source)
    assert found
    pieces = chunk_file(path, source.decode())
    assert all(is_held_whole(pieces, source, extent) for extent in found)


def test_the_score_tells_a_wrong_end_from_a_miss(monkeypatch) -> None:
    score = Score()
    shifted = [d for d in definitions(SOURCE) if d.symbol == "n::first"]
    shifted[0] = type(shifted[0])(
        shifted[0].start, shifted[0].end - 1, shifted[0].body, shifted[0].symbol, True
    )
    monkeypatch.setattr(extents, "definitions", lambda _: shifted)
    score.add(Path("a.cu"), SOURCE, kernel_extents(SOURCE))
    assert (score.kernels, score.found, score.exact) == (2, 1, 0)
    assert score.reasons == {"ends elsewhere": 1, "not found": 1}


def test_the_published_figure_holds_97_percent() -> None:
    record = json.loads((RESULTS / "extents-flashinfer-python.json").read_text())
    shipped = record["score"]
    assert shipped["kernels"] > 2_000
    assert shipped["exact"] >= 0.97 * shipped["kernels"]
    assert record["whole_in_pieces"] >= 0.97 * shipped["kernels"]
