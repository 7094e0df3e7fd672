"""Reports of runs that are whole, interrupted, dry, or full of hostile text."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import html5lib
import pytest
from example_runs import (
    AUTOTUNE,
    HOSTILE,
    Example,
    candidate,
    failed,
    right,
    whole_run,
)

from agent.optimize.candidate import Stage
from agent.optimize.events import Closed, Confirmed, Proposed, WasJudged
from agent.optimize.summary import Row
from agent.report.figure import ticks
from agent.report.gather import gather
from agent.report.report import write_report
from agent.report.words import change, visible
from judge.evaluate.result import Verdict
from kb.errors import KbError


def test_the_contenders_are_told_with_intervals_and_noise_as_none(tmp_path: Path) -> None:
    made = whole_run(tmp_path / "run")
    report = gather(tmp_path / "run")
    rows = {each.name: each for each in report.contenders}
    assert list(rows) == ["eager", "torch.compile", "max-autotune", "start", "best"]
    assert rows["start"].gain == "2.000× (1.990 to 2.010)"
    assert rows["max-autotune"].gain == "none (1.002 to 1.022: inside the noise)"
    assert rows["best"].verdict == "correct"
    assert rows["best"].disclosures == ("no atomics are used",)
    assert report.best is not None
    assert report.best.id == made["gain"].id
    assert "none (1.002 to 1.022: inside the noise) over max-autotune" in report.headline


def test_a_loss_is_called_slower_and_two_sessions_have_no_interval() -> None:
    row = Row(name="start", median_ms=1.0, ratio=1.5, significant=True)
    slower = row.model_copy(update={"ratio": 0.8, "low": 0.79, "high": 0.81})
    unsure = row.model_copy(update={"low": 0.9, "high": 2.5, "significant": False})
    assert change(slower) == "0.800×, slower (0.790 to 0.810)"
    assert change(row) == "1.500× (two sessions)"
    assert change(unsure).startswith("none")


def test_every_candidate_is_told_with_its_fate_and_reason(tmp_path: Path) -> None:
    made = whole_run(tmp_path / "run")
    report = gather(tmp_path / "run")
    fates = {each.judged.id: each for telling in report.rounds for each in telling.attempts}
    assert fates[made["gain"].id].fate == "new leader"
    assert fates[made["gain"].id].tested.endswith("100, 100 expected, 25 before")
    assert fates[made["wrong"].id].fate == (
        f"failed at compile, wrong; repaired as {made['fixed'].id}"
    )
    assert fates[made["cheat"].id].fate == "failed at verify, cheat"
    assert fates[made["same"].id].gain.startswith("none")
    assert [each.gain for each in report.running] == ["+100.0%", "none"]
    assert report.rounds[1].retired == ("fusion",)
    assert report.citations == ["CUDA guide, https://example.org/guide (MIT)"]
    depths = {each.judged.id: each.depth for each in report.lineage}
    assert depths[made["start"].id] == 0
    assert depths[made["fixed"].id] == depths[made["wrong"].id] + 1
    assert len(depths) == 7
    assert ("GPU time", "52.0 s") in report.accounting
    metrics = {each.label: each for each in report.metrics}
    assert metrics["DRAM throughput"].change == "+110%"


def test_the_figure_marks_failures_and_lines_on_a_log_axis(tmp_path: Path) -> None:
    made = whole_run(tmp_path / "run", HOSTILE)
    figure = gather(tmp_path / "run").figure
    assert figure is not None
    root = ET.fromstring(figure)
    svg = "{http://www.w3.org/2000/svg}"
    points = root.findall(f"{svg}circle/{svg}title/..")
    assert len(points) == 5  # all that is right: the start, gain, fixed, slow, same
    crosses = root.findall(f"{svg}path/{svg}title/..")
    assert [made["wrong"].id in (each[0].text or "") for each in crosses] == [True, False]
    labels = [each.text for each in root.iter(f"{svg}text")]
    assert {"eager 1.9", f"max-autotune {AUTOTUNE}", "floor 0.7", "failed"} <= set(labels)
    assert "median time, ms (log scale)" in labels
    y = {each[0].text[:8]: float(each.attrib["cy"]) for each in points}  # type: ignore[index]
    halved = y[made["gain"].id] - y[made["start"].id]
    # 1.6 to 0.8 ms is as far as 1.2 to 0.6 ms would be: equal ratios, equal distances.
    quarter = y[made["slow"].id] - y[made["gain"].id]
    assert quarter / halved == pytest.approx(-0.3219, abs=0.01)  # log2(0.8)


def test_ticks_are_round_and_never_fewer_than_three_for_close_times() -> None:
    assert ticks(0.09, 12) == pytest.approx([0.1, 0.2, 0.5, 1, 2, 5, 10])
    assert len(ticks(0.8, 1.3)) >= 3


def test_hostile_text_stays_text_in_every_form(tmp_path: Path) -> None:
    whole_run(tmp_path / "run", HOSTILE)
    written = write_report(tmp_path / "run")
    assert len(list((tmp_path / "run" / "notes").glob("*.md"))) == 6
    page = written.html.read_text()
    tree = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    assert not tree.findall(".//script")
    addresses = [each.get("href", "") for each in tree.iter("a")]
    assert all(re.match(r"https://example\.org/|#k-[0-9a-f]{8}$", each) for each in addresses)
    assert not any(name.startswith("on") for each in tree.iter() for name in each.attrib)
    loaded = [n for e in tree.iter() for n in e.attrib if n in ("src", "srcset", "data")]
    assert loaded == []
    assert "⟨U+202E⟩" in page
    for text in (page, written.markdown.read_text()):
        assert "\u202e" not in text
        assert "\x00" not in text
    told = written.markdown.read_text()
    outside = re.sub(r"```.*?```", "", told, flags=re.DOTALL)
    assert "<script" not in outside.replace(r"\<", "")
    assert "](javascript" not in outside
    # No cell is split: every row of a table has as many columns as its head.
    for block in re.findall(r"(?:^\|.*\n)+", told, flags=re.MULTILINE):
        columns = {len(re.findall(r"(?<!\\)\|", row)) for row in block.splitlines()}
        assert len(columns) == 1, block


def test_a_kernel_cannot_close_its_fence(tmp_path: Path) -> None:
    run = Example(tmp_path / "run")
    start = candidate("start\n```\n# not a heading\n````", "baseline", 0, proposer="start")
    run.begin(start)
    run.folder.close()
    told = write_report(run.root).markdown.read_text()
    assert "`````python" in told


@pytest.mark.parametrize("lines", range(20))
def test_a_run_that_was_killed_anywhere_has_a_report(tmp_path: Path, lines: int) -> None:
    whole_run(tmp_path / "run")
    journal = tmp_path / "run" / "journal.jsonl"
    kept = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(kept[:lines]) + b"".join(kept[lines:])[:40])
    (tmp_path / "run" / "environment.json").unlink()
    written = write_report(tmp_path / "run")
    page = written.html.read_text()
    assert ("Not finished" in page) == (lines < len(kept))
    if lines == 0:
        assert "interrupted before its start was judged" in page
    if 4 <= lines < 12:
        assert "Round 1 (interrupted)" in page


def test_the_start_is_given_back_where_the_gain_is_inside_the_noise(tmp_path: Path) -> None:
    run = Example(tmp_path / "run")
    start = candidate("start", "baseline", 0, proposer="start")
    run.begin(start)
    better = candidate("better", "coalesced-access", 1, start.id)
    run.add(Proposed, round=1, candidates=(better,))
    seemed = right(better, 1.4, {"leader": 1.6})
    run.add(WasJudged, round=1, position=0, judged=seemed)
    run.add(Closed, round=1, leader=better.id, beam=(better.id,), retired=(), gain=0.14)
    run.add(Confirmed, judged=right(better, 1.59, {"start": 1.6}), baselines={})
    run.folder.close()
    report = gather(run.root)
    assert report.summary is not None
    assert not report.summary.better
    # The start, and of the model's own forms the one that is faster than it.
    assert report.headline.startswith(
        "Returned: the problem's own model, run with torch.compile with"
    )
    assert [each.name for each in report.contenders][-1] == "start"
    assert report.contenders[-1].gain == ""
    assert report.best is not None
    assert report.best.id == start.id


def test_a_dry_run_says_that_nothing_was_timed(tmp_path: Path) -> None:
    run = Example(tmp_path / "run", interpret=True)
    start = candidate("start", "baseline", 0, proposer="start")
    untimed = right(start, 1.0, {}, median_ms=None, floor_fraction=None)
    run.begin(start, start=untimed, baselines={}, gpu=None, floor=None, ceilings=None)
    broken = candidate("broken", "tune", 1, start.id)
    run.add(Proposed, round=1, candidates=(broken,))
    wrong = failed(broken, Stage.VERIFY, Verdict.WRONG, "off")
    run.add(WasJudged, round=1, position=0, judged=wrong)
    run.folder.close()
    written = write_report(run.root)
    assert written.figure is None
    assert "Nothing was timed." in written.markdown.read_text()
    assert "dry run" in written.html.read_text()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KbError, match="not a run folder"):
        write_report(tmp_path)


def test_what_cannot_be_seen_is_spelled_out() -> None:
    assert visible("a\u202eb\x1b[31m\ud800\tc\n") == "a⟨U+202E⟩b⟨U+001B⟩[31m⟨U+D800⟩\tc\n"
