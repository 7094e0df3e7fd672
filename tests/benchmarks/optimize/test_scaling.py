"""The published figures of a sweep on all GPUs against one."""

import json
from pathlib import Path


def test_the_published_figures_are_those_of_the_record():
    [record] = Path("benchmarks/optimize/results").glob("scaling-*.json")
    found = json.loads(record.read_text())
    ratio = found["arms"]["all"]["seconds"] / found["arms"]["one"]["seconds"]
    assert found["summary"]["ratio"] == round(ratio, 3) <= found["summary"]["target"]
    assert all(run.get("gpu") for run in found["arms"]["all"]["runs"].values())
    page = Path("docs/optimize.md").read_text()
    assert record.name in page
    assert f"**{found['summary']['ratio']}** of the time" in page
    for arm in found["arms"].values():
        assert f"{arm['seconds']:.1f} s on" in page
        assert len(arm["runs"]) == found["problems"] == 16
