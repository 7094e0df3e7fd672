"""Shelves that give something else than what is asked for, and figures over arms."""

import pytest

from agent.proposers.recipe.stock import CorpusShelf
from benchmarks.optimize.records import counted
from benchmarks.optimize.retrieval import ARMS, OtherFamily, families, speedup, summary


def test_no_family_comes_to_itself_and_the_same_seed_to_the_same_one():
    known = families()
    assert len(known) > 3
    shelf = CorpusShelf()
    for seed in range(5):
        shuffled = OtherFamily(shelf, known, seed)
        assert set(shuffled.instead) == set(shuffled.instead.values()) == set(known)
        assert all(family != other for family, other in shuffled.instead.items())
        assert shuffled.instead == OtherFamily(shelf, list(reversed(known)), seed).instead
        for family in known:
            given = shuffled.kernels(family, None, None)
            assert given
            assert {each.op for each in given} == {shuffled.instead[family]}


def test_each_arm_but_the_index_changes_the_shelf():
    shelf = CorpusShelf()
    changed = [name for name, make in ARMS.items() if make(shelf, 0) is not shelf]
    assert changed == ["empty", "shuffled"]


def record(name, arm, ratio=None, **more):
    over = {} if ratio is None else {"start": {"ratio": ratio}, "compile": {"ratio": ratio / 2}}
    return {
        "name": name, "arm": arm, "ended": "no gain", "dry": False, "better": ratio is not None,
        "over": over, "gpu_seconds": 10.0,
    } | more  # fmt: skip


def test_arms_are_compared_on_the_problems_that_both_have():
    told = summary([
        record("a", "index", 4.0), record("b", "index", 2.0), record("c", "index", 3.0),
        record("a", "empty"), record("b", "empty", 2.01), record("d", "empty", 9.0),
        {"name": "c", "arm": "empty", "failed": "no"},
    ])  # fmt: skip
    empty = told["empty"]
    assert (empty["problems"], empty["compared"], empty["failed"]) == (4, 2, ["c"])
    assert empty["geometric_mean_over_index"] == pytest.approx((1 / 4 * 2.01 / 2) ** 0.5)
    assert empty["gpu_seconds"] == 30.0
    assert told["index"]["geometric_mean_over_index"] == 1.0


def test_what_is_not_known_counts_for_nothing():
    for unknown in ({"failed": "x"}, record("a", "i", ended=None), record("a", "i", dry=True)):
        assert speedup(unknown) is None
        assert counted(unknown) is None
    assert (speedup(record("a", "i")), counted(record("a", "i"))) == (1.0, None)
    eager = {"over": {"compile": {"ratio": 0.7}}, "ms": {"compile": 0.7, "eager": 1.0}}
    assert counted(record("a", "i") | eager) == 0.7, "eager PyTorch, which is given back"
    assert counted(record("a", "i") | eager | {"given_back": "compile"}) == 1.0
    assert (speedup(record("a", "i", 4.0)), counted(record("a", "i", 4.0))) == (4.0, 2.0)
    assert counted(record("a", "i", 4.0) | {"over": {}}) is None
