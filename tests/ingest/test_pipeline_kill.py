"""A kill at any moment of an ingest leaves the old index or the new one, whole.

One child imports everything, then forks a grandchild for each point, which is killed at its n-th
file operation (an audit hook counts them), or after a share of the time that an ingest takes.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

POINTS = 20
TIMES = 4
HARNESS = Path(__file__).with_name("killing.py")


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> list[dict[str, object]]:
    place = tmp_path_factory.mktemp("kills")
    done = subprocess.run(
        [sys.executable, HARNESS, place, str(POINTS), str(TIMES)],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_kill_struck_and_the_points_cover_the_whole_ingest(outcomes):
    by_count = [each for each in outcomes if each["how"] == "operation"]
    assert len(by_count) == POINTS
    assert all(each["killed"] for each in by_count)
    reached = {str(each["event"]) for each in by_count}
    assert len(reached) >= 3, reached
    assert sum(each["how"] == "batch" and bool(each["killed"]) for each in outcomes) == 4


def test_after_a_kill_the_index_is_the_old_one_or_the_new_one_and_sound(outcomes):
    for each in outcomes:
        assert each["stamps"] in (["old"], ["new"]), each
        assert each["problems"] == [], each
        assert each["found"] == each["stamps"][0], each


def test_kills_hit_before_and_after_the_switch_of_the_pointer(outcomes):
    assert {tuple(each["stamps"]) for each in outcomes} == {("old",), ("new",)}


def test_the_next_ingest_succeeds_and_embeds_only_what_was_not_acknowledged(outcomes):
    for each in outcomes:
        assert each["again"] == ["new"], each
        assert each["embedded"] == each["missing"], each
        assert each["generations"] == 1, each
        assert each["staging"] is False, each
    assert len({int(each["missing"]) for each in outcomes}) > 3, "kills struck between batches"
