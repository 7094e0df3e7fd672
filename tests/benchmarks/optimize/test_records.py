"""What a record of a run counts as."""

from benchmarks.optimize.records import counted_speedup


def record(ratio=None, **more):
    over = {} if ratio is None else {"compile": {"ratio": ratio}}
    return {
        "name": "a", "ended": "no gain", "dry": False, "better": ratio is not None, "over": over,
    } | more  # fmt: skip


def test_what_is_not_known_counts_for_nothing():
    for unknown in ({"failed": "x"}, record(ended=None), record(dry=True), record()):
        assert counted_speedup(unknown) is None
    eager = {"over": {"compile": {"ratio": 0.7}}, "ms": {"compile": 0.7, "eager": 1.0}}
    assert counted_speedup(record() | eager) == 0.7, "eager PyTorch, which is given back"
    assert counted_speedup(record() | eager | {"given_back": "compile"}) == 1.0
    assert counted_speedup(record(2.0)) == 2.0
    assert counted_speedup(record(2.0) | {"over": {}}) is None
