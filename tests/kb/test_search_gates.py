"""Numbers of a question against the gates of techniques."""

import pytest
from support import TinyCorpus, add, searcher

from kb.search.models import Filters

LOW = "[{metric: l2_hit_rate, op: '<', value: 60, because: Tiles are read again.}]"
HIGH = "[{metric: l2_hit_rate, op: '>', value: 45, because: A second pass hits.}]"
BOTH = (
    "[{metric: l2_hit_rate, op: '>', value: 45, because: A second pass hits.}, "
    "{metric: stall_long_scoreboard, op: '>', value: 30, because: Loads are waited for.}]"
)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    """Techniques whose words are alike, and whose gates are not."""
    place = tmp_path_factory.mktemp("gates")
    corpus = TinyCorpus(place / "corpus")
    for slug, when, avoid in (
        ("pid-swizzling", LOW, HIGH.replace("45", "85")),
        ("register-caching", HIGH, ""),
        ("software-pipelining", BOTH, ""),
        ("persistent-kernel", "[{metric: waves_per_sm, op: '>', value: 1, because: Waves.}]", ""),
    ):
        corpus.technique(
            slug, {"software-pipelining": "latency", "persistent-kernel": "utilization"}.get(
                slug, "memory"), when=when, avoid_when=avoid, examples="[]",
            bottlenecks="[memory, latency, utilization]", languages="[triton, cuda]",
            architectures="[sm_80]",
        )  # fmt: skip
    add(corpus.root, place / "index")
    return searcher(place / "index")


def ranked(one, query):
    results = one.search(query, 20, Filters(kinds=["technique"])).results
    return [each.techniques[0] for each in results]


def test_a_technique_that_a_number_contradicts_stands_behind_all_that_it_does_not(one):
    """However well its words fit: here they are the question's own."""
    order = ranked(one, "caching trick of a register, part of a second pass; l2_hit_rate 30")
    assert set(order[-2:]) == {"register-caching", "software-pipelining"}
    order = ranked(one, "swizzling of tiles by pid: lts__t_sector_hit_rate.pct 92")
    assert order[-1] == "pid-swizzling"


def test_one_condition_that_holds_is_enough_where_the_others_are_symptoms_too(one):
    order = ranked(one, "tiles, l2_hit_rate 30, stall_long_scoreboard 50")
    assert order.index("software-pipelining") < order.index("register-caching")


def test_who_names_a_technique_gets_it_and_is_told(one):
    first = one.search("register caching at an L2 hit rate of 30%", 5).results[0]
    assert first.techniques == ["register-caching"]
    assert [each.speaks for each in first.gates] == ["against"]
    assert first.gates[0].words == "your 30 %: misses L2 hit rate > 45 %."


def test_every_result_says_how_the_numbers_stand_to_its_gates(one):
    results = {
        each.techniques[0]: each
        for each in one.search("tiles, l2_hit_rate is 92", 20, Filters(kinds=["technique"])).results
    }
    words = [each.words for each in results["pid-swizzling"].gates]
    assert words == [
        "your 92 %: misses L2 hit rate < 60 %.",
        "your 92 %: avoid it at L2 hit rate > 85 %. A second pass hits.",
    ]
    assert [each.words for each in results["register-caching"].gates] == [
        "your 92 %: meets L2 hit rate > 45 %. A second pass hits."
    ]
    assert results["persistent-kernel"].gates == []


def test_an_answer_tells_which_numbers_it_understood(one):
    response = one.search("tiles reread, L2 hit rate 30 gemm, dram throughput 1.2 TB/s", 5)
    assert [each.words for each in response.metrics] == [
        "L2 hit rate 30 % (lts__t_sector_hit_rate.pct)",
        "DRAM bandwidth 1.2 TB/s (dram__bytes.sum.per_second)",
    ]
    assert one.search("tiles of 30 rows", 5).metrics == []
