"""A run as a source: its verified outcomes become notes, and nothing else does."""

import json
import shutil

import pytest
from example_runs import HOSTILE, Example, candidate, failed, right, whole_run
from support import HashingEmbedder

from agent.optimize.candidate import Stage
from agent.optimize.events import Proposed, WasJudged
from agent.report.notes import write_notes
from ingest.pipeline import Request, ingest
from ingest.rebuild import rebuild
from judge.evaluate.result import Verdict
from kb.errors import KbError
from kb.index.reader import open_generation


@pytest.fixture
def run(tmp_path):
    return tmp_path / "a-run", whole_run(tmp_path / "a-run", HOSTILE)


def notes_of(index):
    generation = open_generation(index)
    return {c.path: c for c in generation.store.all() if c.kind == "note"}


def test_each_verified_outcome_is_one_note_with_its_technique_and_architecture(run, tmp_path):
    root, made = run
    write_notes(root)
    ingest([Request(root)], tmp_path / "index", HashingEmbedder())
    notes = notes_of(tmp_path / "index")
    wanted = {name: made[name].id for name in ("gain", "wrong", "cheat", "fixed", "slow", "same")}
    assert set(notes) == {f"notes/{each}.md" for each in wanted.values()}
    gain = notes[f"notes/{made['gain'].id}.md"]
    assert gain.techniques == ("coalesced-access",)
    assert gain.bottlenecks == ("memory",)
    assert gain.architectures == ("sm_90a",)
    assert gain.dtypes == ("float32",)
    assert gain.op == "rmsnorm"
    assert "16x64x512x512" in gain.text
    assert "2.000x faster (95 % interval 1.990 to 2.010)" in gain.text
    assert "from 25 to 100 %" in gain.text
    lines = (root / gain.path).read_text().splitlines()
    assert "\n".join(lines[gain.start_line - 1 : gain.end_line]) == gain.text
    assert "slower" in notes[f"notes/{made['slow'].id}.md"].title
    same = notes[f"notes/{made['same'].id}.md"]
    assert "no change beyond the noise" in same.title
    assert same.techniques == ()
    wrong = notes[f"notes/{made['wrong'].id}.md"]
    assert "Kind of error: OutOfResources." in wrong.text
    assert f"A repair of it, {made['fixed'].id}, is right." in wrong.text


def test_no_word_of_a_model_or_a_kernel_enters(run):
    root, _ = run
    text = "\n".join(path.read_text() for path in write_notes(root))
    for claim in ("ninety", "script", "ignore all", "trust me", "paid", "returns its input"):
        assert claim not in text


def test_what_is_not_verified_is_no_note(tmp_path):
    run = Example(tmp_path / "run")
    start = candidate("start", "baseline", 0, proposer="start")
    run.begin(start)
    unsure = candidate("unsure", "coalesced-access", 1, start.id)
    crashed = candidate("crashed", "coalesced-access", 1, start.id)
    alone = candidate("alone", "coalesced-access", 1, start.id)
    waiting = candidate("waiting", "coalesced-access", 1, start.id)
    run.advise(1, start.id, ("coalesced-access",))
    run.add(Proposed, round=1, candidates=(unsure, crashed, alone, waiting))
    judged = (
        failed(unsure, Stage.VERIFY, Verdict.INCONCLUSIVE, "too few cases count"),
        failed(crashed, Stage.TIME, None, "the judge was lost"),
        right(alone, 0.1, {}),  # fast, but compared with nothing in its session
    )
    for position, each in enumerate(judged):
        run.add(WasJudged, round=1, position=position, judged=each)
    run.folder.close()
    assert write_notes(run.root) == []
    with pytest.raises(KbError, match="without notes"):
        ingest([Request(run.root)], tmp_path / "index", HashingEmbedder())


def test_a_dry_run_teaches_nothing(tmp_path):
    run = Example(tmp_path / "run", interpret=True)
    start = candidate("start", "baseline", 0, proposer="start")
    run.begin(start)
    broken = candidate("broken", "coalesced-access", 1, start.id)
    run.add(Proposed, round=1, candidates=(broken,))
    wrong = failed(broken, Stage.VERIFY, Verdict.WRONG, "off")
    run.add(WasJudged, round=1, position=0, judged=wrong)
    run.folder.close()
    assert write_notes(run.root) == []


def test_ingesting_again_embeds_nothing_and_a_note_that_is_refuted_goes(run, tmp_path):
    root, made = run
    index, embedder = tmp_path / "index", HashingEmbedder()
    write_notes(root)
    first = ingest([Request(root)], index, embedder)
    assert first.embedded == 6
    stale = root / "notes" / "00000000.md"
    stale.write_bytes((root / "notes" / f"{made['gain'].id}.md").read_bytes())
    write_notes(root)
    assert not stale.exists()
    again = ingest([Request(root)], index, embedder)
    assert (again.embedded, again.published) == (0, False)
    assert again.sources[0].unchanged_files == 6
    rebuilt = rebuild(index, embedder)
    assert rebuilt.embedded == 0
    assert len(notes_of(index)) == 6


def test_patterns_and_a_malformed_note_are_refused(run, tmp_path):
    root, made = run
    write_notes(root)
    with pytest.raises(KbError, match="ingested whole"):
        ingest([Request(root, include=("*.py",))], tmp_path / "index", HashingEmbedder())
    path = root / "notes" / f"{made['gain'].id}.md"
    path.write_text(path.read_text().replace("sm_90a", "fast"))
    with pytest.raises(KbError, match=rf"notes/{path.name}:\d+: .*architecture"):
        ingest([Request(root)], tmp_path / "index", HashingEmbedder())


def test_the_command_takes_a_run_and_its_technique_shows_the_evidence(
    run, tmp_path, shipped_index, cli
):
    root, made = run
    index = tmp_path / "index"
    shutil.copytree(shipped_index, index)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    bare = cli("--index", index, "ingest", root)
    assert "kb report" in bare.err
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    write_notes(root)
    done = cli("--index", index, "ingest", root)
    assert done.status == 0, done.err
    again = cli("--index", index, "ingest", root, "--json")
    assert json.loads(again.out)["embedded"] == 0
    found = cli("--index", index, "query", "RMSNorm coalesced on H200", "--kind", "note", "--json")
    results = json.loads(found.out)["results"]
    assert results
    assert {each["kind"] for each in results} == {"note"}
    assert f"notes/{made['gain'].id}.md" in {each["path"] for each in results}
    entry = json.loads(cli("--index", index, "show", "coalesced-access", "--json").out)
    assert [each["title"] for each in entry["evidence"]] == [
        "RMSNorm on H200: Coalesced global-memory access, 2.000x faster"
    ]
    shown = cli("--index", index, "show", "coalesced-access")
    assert "Verified in runs" in shown.out
    assert entry["evidence"][0]["id"] in shown.out
