"""Functions' scores are corrected by fitted weights of their names, their words and their roles."""

import numpy as np
import pytest
from support import HashingEmbedder, TinyCorpus, function, searcher

from ingest.pipeline import Request, ingest
from kb.embedders import load_embedder
from kb.search import functions
from kb.search.functions import FEATURES, Candidates, FunctionWeighing
from kb.search.models import Filters
from kb.search.weights import Weights, read_weights

CODE = Filters(kinds=["code"])
NORMS = "\n\n".join(function(name) for name in ("group_norm_bwd", "group_norm_bwd_launch", "copy"))
KERNELS = """
import triton
import triton.language as tl


@triton.jit
def {name}(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, {body}, mask=offsets < n)
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    place = tmp_path_factory.mktemp("functions")
    corpus = TinyCorpus(place / "corpus")
    code = place / "code"
    for path, text in {
        "norms.py": NORMS,
        "again.py": function("repeated") + "\n\n" + function("repeated", lines=9),
        "sizes.py": "\n".join(f'SIZE_{i} = "group norm {i}"' for i in range(12)),
        "swiglu.py": KERNELS.format(name="swiglu_forward", body="x * tl.sigmoid(x)"),
        "plain.py": KERNELS.format(name="scaled_copy", body="x * 2.0"),
        "guide.md": "# Norms\n\nThe group norm of a tensor, and how its backward pass is made.\n",
    }.items():
        (code / path).parent.mkdir(parents=True, exist_ok=True)
        (code / path).write_text(text)
    ingest([Request(corpus.root), Request(code)], place / "index", HashingEmbedder())
    found = searcher(place / "index")
    yield found
    found.close()
    found.generation.close()


def rows_of(one):
    """Symbol → the rows that define it."""
    symbols = one.generation.columns["symbols"]
    rows: dict[str, list[int]] = {}
    for row in range(one.generation.columns.count):
        for symbol in symbols.of(row):
            rows.setdefault(symbol, []).append(row)
    return rows


def features(one, query):
    """Feature → its value for every chunk."""
    generation = one.generation
    rows = np.arange(generation.columns.count)
    tokens = generation.lexical.query_tokens(query)
    flat = np.zeros(len(rows))
    weighing = FunctionWeighing(generation)
    candidates = Candidates(rows, flat, flat, flat)
    found = weighing.features(tokens, candidates)
    assert found.shape == (len(FEATURES), len(rows))
    return dict(zip(FEATURES, found, strict=True))


def with_weights(one, monkeypatch, **weights):
    """The searcher's functions weighed by these; the hashing embedder has none that are shipped."""
    features = {name: weights.get(name.replace(" ", "_"), 0.0) for name in FEATURES}
    given = Weights(one.generation.manifest.embedder, features)
    monkeypatch.setattr(functions, "read_weights", lambda _name: given)
    monkeypatch.setattr(one, "_functions", FunctionWeighing(one.generation))


def test_there_is_a_weight_for_every_feature_and_they_are_of_the_shipped_embedder():
    weights = read_weights("function_weights.yaml")
    assert set(weights.features) == set(FEATURES)
    assert weights.embedder == load_embedder().name
    assert any(weights.features.values())


def test_a_name_counts_by_what_it_shares_with_the_query(one):
    found = features(one, "backward of the group norm")
    [whole] = rows_of(one)["group_norm_bwd"]
    [longer] = rows_of(one)["group_norm_bwd_launch"]
    [other] = rows_of(one)["copy"]
    assert found["covered by name"][whole] == pytest.approx(1.0)
    assert found["name covered"][whole] == pytest.approx(1.0)
    assert found["covered by name"][longer] == pytest.approx(1.0)
    assert 0 < found["name covered"][longer] < 1
    assert found["name covered"][other] == found["covered by name"][other] == 0


def test_words_are_covered_wherever_they_stand_and_unknown_ones_never(one):
    [row] = rows_of(one)["group_norm_bwd"]
    assert features(one, "group norm offset")["covered"][row] == pytest.approx(1.0)
    assert 0 < features(one, "group norm xylophone")["covered"][row] < 1


def test_a_second_chunk_of_one_name_in_a_file_is_a_later_part(one):
    later = features(one, "norm")["later part"]
    first, second = rows_of(one)["repeated"]
    assert (later[first], later[second]) == (0.0, 1.0)
    assert later[rows_of(one)["copy"]] == 0


def test_distinct_terms_are_those_of_the_index(one):
    lexical = one.generation.lexical
    rows = np.arange(one.generation.columns.count)
    held = np.bincount(lexical._rows, minlength=len(rows))
    assert (held == lexical.distinct).all()
    assert np.allclose(features(one, "norm")["distinct terms"], np.log1p(held))


def test_weights_order_code_and_leave_its_best_score_as_it_was(one, monkeypatch):
    query = "group norm backward"

    def found():
        return one.rank(query, 50, Filters()).hits

    def kind(hit):
        return one.generation.columns["kinds"].of(hit.row)[0]

    plain = {hit.row: hit for hit in found()}
    with_weights(one, monkeypatch, covered_by_name=0.5, name_covered=0.5)
    weighed = found()
    code = [hit for hit in weighed if kind(hit) == "code"]
    assert code[0].row == rows_of(one)["group_norm_bwd"][0]
    best = max(hit.score for row, hit in plain.items() if kind(hit) == "code")
    assert code[0].score == pytest.approx(best)
    assert any("name and coverage" in hit.parts for hit in code)
    for hit in weighed:
        if kind(hit) != "code":
            assert hit.score == pytest.approx(plain[hit.row].score)
            assert "name and coverage" not in hit.parts


def test_weights_of_another_embedder_are_not_used(one):
    weighing = FunctionWeighing(one.generation)
    assert not weighing.applies
    hits = one.rank("group norm backward", 20, CODE).hits
    assert hits
    assert not any("name and coverage" in hit.parts for hit in hits)


def test_a_pasted_kernel_finds_what_is_called_alike(one):
    pasted = KERNELS.format(name="_fwd_swiglu_tiled", body="x * 2.0")
    alike = one._functions.alike
    [named], [other] = rows_of(one)["swiglu_forward"], rows_of(one)["scaled_copy"]
    rows = np.array([named, other])
    # `tiled` is all that the names do not share
    values = alike(["_fwd_swiglu_tiled"], rows)
    assert 0.5 < values[0] < 1
    assert values[1] == 0
    assert alike(["forward_swiglu"], rows)[0] == pytest.approx(1.0)
    assert alike([], rows).tolist() == [0, 0]
    hits = one.rank(pasted, 10, CODE).hits
    assert hits[0].row == named
    assert all(hit.parts["name and coverage"] < 0 for hit in hits[1:])
