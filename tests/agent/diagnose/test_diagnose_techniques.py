"""From findings to techniques: through the entries' gates, for the card and the language."""

import pytest
from diagnose_cases import (
    B200,
    H200,
    POOR_MATVEC,
    POOR_MATVEC_WIDE,
    SATURATED_RMSNORM,
    SOUND,
    facts,
    static,
)
from support import TinyCorpus

from agent.diagnose.diagnose import diagnose
from agent.diagnose.rules_grid import RULES
from agent.diagnose.techniques import catalog_from_corpus, catalog_from_index
from agent.optimize.candidate import Context
from agent.optimize.events import Advised
from agent.optimize.progress import lines_of
from judge.evaluate.result import Floor
from kb.corpus.loader import load_shipped_corpus
from kb.errors import IndexUnavailableError
from kb.gpus import find_spec
from kb.vocabulary import find_metric


@pytest.fixture(scope="module")
def shelf():
    return catalog_from_corpus()


def slugs(diagnosis):
    return [advice.slug for finding in diagnosis.findings for advice in finding.techniques]


@pytest.mark.parametrize("values", [POOR_MATVEC, POOR_MATVEC_WIDE])
def test_a_poor_matvec_leads_to_splitting_coarsening_or_vectorizing(shelf, values):
    answer = diagnose(facts(values), shelf)
    assert answer.bottleneck == "underutilized"
    assert not answer.empty
    assert "underutilizing" in answer.headline
    first = answer.findings[0].techniques
    assert first[0].slug in {"split-k", "thread-coarsening", "vectorized-access"}
    assert any("Waves per SM" in reason or "DRAM" in reason for reason in first[0].reasons)


def test_a_saturated_rmsnorm_is_told_that_little_is_left(shelf):
    answer = diagnose(facts(SATURATED_RMSNORM), shelf)
    assert "at the memory roof" in answer.headline
    assert "little is left" in answer.headline
    assert "pid-swizzling" not in slugs(answer)  # its gates hold, but a stream reuses no tiles
    assert "vectorized-access" not in slugs(answer)


def test_the_same_facts_give_the_same_answer(shelf):
    known = facts(POOR_MATVEC)
    answers = {diagnose(known, shelf).model_dump_json() for _ in range(3)}
    backwards = dict(reversed(list(POOR_MATVEC.items())))
    answers.add(diagnose(facts(backwards), catalog_from_corpus()).model_dump_json())
    assert len(answers) == 1


def test_what_does_not_run_on_the_card_is_not_advised(shelf):
    emulated = static(architecture="sm_100a", instructions=500)
    known = {"static": emulated, "words": "nvfp4_quantize"}
    assert "fp4-intrinsics" in slugs(diagnose(facts(SOUND, spec=B200, **known), shelf))
    assert "fp4-intrinsics" not in slugs(diagnose(facts(SOUND, spec=H200, **known), shelf))
    on_a100 = diagnose(facts(POOR_MATVEC, spec=find_spec("A100-SXM4-80GB")), shelf)
    assert not {slug for slug in slugs(on_a100) if slug.startswith("tma")}


@pytest.fixture
def tiny(tmp_path):
    return TinyCorpus(tmp_path / "tiny")


def test_language_leaves_out_what_is_not_for_it(tiny):
    tiny.technique("split-k", "utilization", languages="[cuda]")
    shelf = catalog_from_corpus(tiny.root)
    known = facts(POOR_MATVEC)
    assert "split-k" in slugs(diagnose(known, shelf))
    assert "split-k" in slugs(diagnose(known, shelf, language="cuda"))
    assert "split-k" not in slugs(diagnose(known, shelf, language="triton"))


GATE = "[{{metric: waves_per_sm, op: '{op}', value: 1, because: The wave tells.}}]"


def test_gates_decide_between_techniques_that_answer_the_same_finding(tiny):
    tiny.technique("split-k", "utilization", when=GATE.format(op=">"), avoid_when="")
    tiny.technique("stream-k", "utilization", when=GATE.format(op="<"), avoid_when="")
    answer = diagnose(facts(POOR_MATVEC), catalog_from_corpus(tiny.root))
    best, other = answer.findings[0].techniques[:2]
    assert (best.slug, other.slug) == ("stream-k", "split-k")
    assert best.reasons[0] == "Waves per SM is 0.48 waves (< 1 waves): The wave tells."
    assert other.against == ("1 of its 1 measured conditions do not hold",)


def test_a_reason_against_is_shown_and_weighs(tiny):
    tiny.technique("split-k", "utilization", avoid_when=GATE.format(op="<"))
    tiny.technique("stream-k", "utilization", when=GATE.format(op="<"), avoid_when="")
    shelf = catalog_from_corpus(tiny.root)
    answer = diagnose(facts(POOR_MATVEC), shelf)
    best, other = answer.findings[0].techniques[:2]
    assert (best.slug, other.slug) == ("stream-k", "split-k")
    assert other.against == ("Waves per SM is 0.48 waves (< 1 waves): The wave tells.",)


def test_what_the_kernel_does_already_comes_last(tiny):
    tiny.technique("split-k", "utilization", when=GATE.format(op="<"), avoid_when="")
    tiny.technique("stream-k", "utilization", when=GATE.format(op="<"), avoid_when="")
    shelf = catalog_from_corpus(tiny.root)
    first = [advice.slug for advice in diagnose(facts(POOR_MATVEC), shelf).findings[0].techniques]
    assert first == ["split-k", "stream-k"]
    source = "import triton\n\n@triton.jit\ndef split_k_kernel(x):\n    pass\n\nsplit_k_sum(1)\n"
    answer = diagnose(facts(POOR_MATVEC, source), shelf)
    best, other = answer.findings[0].techniques
    assert (best.slug, other.slug) == ("stream-k", "split-k")
    assert other.against[0] == "the kernel already uses it"


def test_examples_are_kernels_that_fit(tiny):
    tiny.technique("split-k", "utilization")
    tiny.kernel("shows-it", "split-k")
    tiny.kernel("too-new", "split-k", architectures="[sm_100a]")
    answer = diagnose(facts(POOR_MATVEC), catalog_from_corpus(tiny.root))
    advice = next(a for f in answer.findings for a in f.techniques if a.slug == "split-k")
    assert advice.examples == ("shows-it",)


def test_a_finding_without_an_entry_says_so_rather_than_inventing_one(tiny):
    values = SOUND | {"stall_barrier": 60.0}
    answer = diagnose(facts(values), catalog_from_corpus(tiny.root))
    assert answer.findings[0].rule == "barrier-stalls"
    assert answer.findings[0].techniques == ()


def test_techniques_come_from_an_index_as_from_the_corpus(built, tmp_path):
    from_index = catalog_from_index(built / "index")
    from_corpus = catalog_from_corpus(built / "corpus")
    assert from_index.techniques == from_corpus.techniques
    assert from_index.kernels == from_corpus.kernels
    with pytest.raises(IndexUnavailableError):
        catalog_from_index(tmp_path / "none")


def test_every_advised_technique_exists(shelf):
    known = {entry.slug for entry in shelf.techniques}
    for values in (POOR_MATVEC, SATURATED_RMSNORM, SOUND | {"local_load_inst": 1e7}):
        assert set(slugs(diagnose(facts(values), shelf))) <= known


def test_nothing_known_says_that_nothing_can_be_said(shelf):
    answer = diagnose(facts({}, spec=None), shelf)
    assert "no diagnosis" in answer.headline
    assert answer.empty
    told = {"wall": 0.0, "at": "now", "round": 1, "leader": "start", "context": Context()}
    assert list(lines_of(Advised(diagnosis=answer, **told))) == ["round 1"]
    assert answer.bottleneck is None
    assert answer.findings == ()
    assert any("no metric was measured" in note for note in answer.notes)


@pytest.mark.parametrize(("bound", "sets"), [("memory", "traffic"), ("compute", "arithmetic")])
def test_without_a_profile_the_floor_says_how_much_is_left(shelf, bound, sets):
    floor = Floor(read_bytes=8, write_bytes=8, flops=4.0, ms=1.5, bound=bound)
    answer = diagnose(facts({}, floor=floor, median_ms=3.0), shelf)
    assert answer.headline.startswith("The kernel takes 2 times its floor of 1.5 ms, which the ")
    assert sets in answer.headline
    assert not answer.empty
    near = diagnose(facts({}, floor=floor, median_ms=1.52), shelf).headline
    assert "only a profile" not in near
    beyond = diagnose(facts({}, floor=floor, median_ms=1.2), shelf).headline
    assert "times its floor" not in beyond


@pytest.mark.parametrize(("rule", "waves"), [("small-grid", 0.4), ("partial-wave", 1.2)])
def test_a_rule_about_waves_offers_what_helps_at_that_many(rule: str, waves: float) -> None:
    corpus = load_shipped_corpus()
    techniques = {each.entry.slug: each.entry for each in corpus.techniques}
    (offered,) = [each.techniques for each in RULES if each.name == rule]
    metric = find_metric("waves_per_sm")
    assert metric is not None
    for slug in offered:
        against = [gate for gate in techniques[slug].avoid_when if gate.metric == metric.name]
        assert not any(gate.holds(waves) for gate in against), slug
    # 140 tiles on 132 programs still take two rounds.
    assert "persistent-kernel" not in offered
