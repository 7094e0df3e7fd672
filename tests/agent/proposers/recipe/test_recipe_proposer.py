"""What is proposed comes from the index, and only what fits; without one, it is said."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.optimize.candidate import ProblemInfo, Proposal, SearchState
from agent.optimize.dedupe import digest
from agent.optimize.proposers import Spending
from agent.proposers.recipe.adapt import CannotAdaptError
from agent.proposers.recipe.carry import Recipe
from agent.proposers.recipe.catalog import CorpusCatalog, EmptyCatalog, IndexCatalog
from agent.proposers.recipe.proposer import RecipeProposer
from judge.evaluate.result import Verdict
from judge.graph import Graph
from judge.sandbox.launch import Zygote
from kb.search.opening import open_searcher
from tests.agent.proposers.llm import search_states
from tests.agent.proposers.recipe import problems as p


def _export(source: str, name: str, dtype: str | None) -> Graph:
    del name
    return p.graph_of(source, dtype)


def _state(source: str, **changed: Any) -> SearchState:
    info = ProblemInfo(name="little.py", source=source, sha256="1" * 64)
    return search_states.state(problem=info, **changed)


def _slugs(proposer: RecipeProposer, state: SearchState) -> list[str]:
    return [each.note.partition(": ")[2].partition(";")[0] for each in proposer.propose(state)]


def test_kernels_come_from_the_index_with_their_chunks(shipped_index: Path) -> None:
    searcher = open_searcher(shipped_index)
    proposer = RecipeProposer(IndexCatalog(searcher), _export)
    state = _state(p.MATVEC)
    assert _slugs(proposer, state) == ["matvec-split-k", "matvec-plain"]
    first = proposer.propose(state)[0]
    assert first.family == "split-k"
    assert first.proposer == "recipe"
    store = searcher.generation.store
    (chunk,) = first.chunks
    found = store.find(chunk)
    assert found is not None
    assert "matvec" in found.path
    # What was tried is not offered again, and the rest still is.
    tried = frozenset({digest(first.source)})
    assert _slugs(proposer, _state(p.MATVEC, tried=tried)) == ["matvec-plain"]


def test_attention_with_scores_of_its_own_comes_first_and_needs_no_catalog() -> None:
    source = (p.ROOT / "tests" / "fixtures" / "scores" / "packed_documents.py").read_text()
    for catalog in (CorpusCatalog(), EmptyCatalog()):
        first, *rest = RecipeProposer(catalog, _export).propose(_state(source, dtype="bfloat16"))
        assert first.note == "attention with scores of its own: scores"
        assert first.family == "kernel-fusion"
        assert bool(rest) == isinstance(catalog, CorpusCatalog)


def test_without_kernels_nothing_is_proposed_and_it_is_said_once() -> None:
    proposer = RecipeProposer(EmptyCatalog(), _export)
    with pytest.raises(CannotAdaptError, match="the knowledge base has no kernel of matvec"):
        proposer.propose(_state(p.MATVEC))
    assert proposer.propose(_state(p.MATVEC, round_=2)) == []


def test_what_a_screening_says_is_said_in_its_round_alone() -> None:
    class Slow:
        notes: tuple[str, ...] = ()
        spent = Spending()

        def screen(self, state: SearchState, proposals: Sequence[Proposal]) -> list[Proposal]:
            self.notes = ("matvec-plain: 9 ms at best",)
            return list(proposals[:1])

    proposer = RecipeProposer(CorpusCatalog(), _export, Slow())
    assert len(proposer.propose(_state(p.MATVEC))) == 1
    assert "matvec-plain: 9 ms at best" in proposer.notes
    assert len(proposer.propose(_state(p.MATVEC, round_=2))) == 1
    assert proposer.notes == ()


def test_an_unknown_operator_is_named() -> None:
    proposer = RecipeProposer(CorpusCatalog(), _export)
    with pytest.raises(CannotAdaptError, match=r"no proposals: .*index\.Tensor"):
        proposer.propose(_state(p.benchmark("judge/embedding")))


class _Shuffled:
    """The corpus's kernels under each other's families."""

    def kernels(self, family: str, architecture: str | None, gpu: str | None) -> Sequence[Recipe]:
        other = {"softmax": "silu-mul", "silu-mul": "softmax", "matvec": "rmsnorm"}[family]
        found = CorpusCatalog().kernels(other, architecture, gpu)
        return [replace(each, op=family) for each in found]


def test_a_wrong_kernel_is_left_to_the_judge_or_does_not_fit() -> None:
    # The same arguments: only running it tells. Other arguments: it cannot be called.
    assert _slugs(RecipeProposer(_Shuffled(), _export), _state(p.SOFTMAX)) == ["silu-mul-fused"]
    with pytest.raises(CannotAdaptError, match=r"rmsnorm-[\w-]+: it (needs|does not take) "):
        RecipeProposer(_Shuffled(), _export).propose(_state(p.MATVEC))


def test_kernels_for_newer_cards_and_other_dtypes_are_left_out() -> None:
    proposer = RecipeProposer(CorpusCatalog(), _export)
    product = p.benchmark("judge/matmul")
    assert "matmul-tma-host" in _slugs(proposer, _state(product))
    assert "matmul-tma-host" not in _slugs(proposer, _state(product, architecture="sm_80"))
    with pytest.raises(CannotAdaptError, match="it does not take float64"):
        proposer.propose(_state(product, dtype="float64"))


def test_a_product_without_a_kernel_for_its_activation_is_still_a_product() -> None:
    class Plain:
        def kernels(self, family: str, *rest: str | None) -> Sequence[Recipe]:
            found = CorpusCatalog().kernels(family, *rest)
            return [each for each in found if each.slug == "matmul-plain"]

    proposer = RecipeProposer(Plain(), _export)
    (only,) = proposer.propose(_state(p.GELU_LINEAR))
    assert only.note == "matmul: matmul-plain; fused after: bias, gelu"
    notes = [
        e.note for e in RecipeProposer(CorpusCatalog(), _export).propose(_state(p.GELU_LINEAR))
    ]
    assert "fused after: gelu" in notes[0], "what fuses it goes first"
    assert "matmul: matmul-bias-gelu" in notes


def test_a_chain_of_elementwise_operators_is_one_kernel(
    interpreting: Zygote, tmp_path: Path
) -> None:
    (only,) = RecipeProposer(CorpusCatalog(), _export).propose(_state(p.ADD_GELU))
    assert only.note.startswith("elementwise: sub, leaky_relu, add, gelu in one kernel")
    assert only.source.count("tl.store") == 1
    found = p.judged(p.ADD_GELU, only.source, tmp_path, interpreting)
    assert found.verdict is Verdict.CORRECT, found.reasons
    with pytest.raises(CannotAdaptError):
        RecipeProposer(EmptyCatalog(), _export).propose(_state(p.ADD_GELU))


def test_the_graph_is_exported_in_a_sandbox_by_default() -> None:
    (first, *_) = RecipeProposer(CorpusCatalog()).propose(_state(p.SOFTMAX))
    assert "softmax" in first.note
