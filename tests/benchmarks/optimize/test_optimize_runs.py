"""The benchmarks of the optimizer with the real search and a judge that needs no GPU."""

import json
from pathlib import Path

import pytest
from judged import FakeJudge, Offering, cards

from agent import opening
from agent.cards import local
from agent.cards.local import local_cards
from agent.optimize.events import Continued
from agent.optimize.journal import read_events
from agent.optimize.judge_requests import Evaluate
from benchmarks.optimize import asking, operators, problems
from benchmarks.optimize.records import is_timed
from benchmarks.tasks import done, load, main, run_tasks
from kb.errors import KbError

OFFERED = {"mish.py": [0.5, 0.6], "layer_norm.py": [1.0], "matvec.py": [0.7]}


@pytest.fixture(autouse=True)
def _proposers(monkeypatch, tmp_path):
    """One proposer, whose kernels are those of `OFFERED`; baselines are cached for this test."""
    monkeypatch.setattr(asking, "PROPOSERS", ("recipe",))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def offering(parts):
        return Offering(OFFERED.get(parts.config.problem.name, []))

    monkeypatch.setitem(opening._FACTORIES, "recipe", offering)


def asked(module, *arguments):
    return module._options([*arguments, "--trust"])


def test_operators_are_measured_by_one_process_and_written_one_by_one(tmp_path):
    out = tmp_path / "operators.json"
    judge, seen = FakeJudge(), []
    judge._before = lambda _: seen.append(len(load(out)["records"]))
    options = asked(operators, "--out", str(out), "--only", "mish", "layer_norm", "argmax_rows")
    found = run_tasks(operators.BENCHMARK, options, cards(judge))
    assert judge.runs == 3
    assert sorted(set(seen)) == [0, 1, 2]
    assert found == json.loads(out.read_text())
    mish, norm, argmax = (found["records"][n] for n in ("mish", "layer_norm", "argmax_rows"))
    assert mish["ms"] == {"eager": 2.0, "compile": 0.8, "start": 2.0, "best": 0.5}
    assert mish["over"]["compile"]["ratio"] == 1.6
    # The operator's family of `families.toml`, and the technique of what was found.
    assert (mish["operator_family"], mish["family"]) == ("elementwise", "family0")
    assert (mish["dtype"], mish["proposer"], mish["floor_fraction"]) == ("float32", "recipe", 0.2)
    assert norm["over"]["compile"]["ratio"] == 0.8
    assert (argmax["better"], argmax["ms"]["best"], argmax["source"]) == (False, 2.0, None)
    # Where torch.compile is faster it is given back: what the search came to is told apart.
    assert argmax["over"]["compile"]["ratio"] == 0.4
    assert [each["given_back"] for each in (mish, norm, argmax)] == [None, "compile", "compile"]
    told = found["summary"]
    assert told["share_at_or_above_compile"] == 1.0
    assert told["geometric_mean_over_compile"] == pytest.approx(1.6 ** (1 / 3))
    assert told["given_back"] == {"compile": ["argmax_rows", "layer_norm"]}
    assert (told["below_compile"], told["nothing_better"]) == ([], ["argmax_rows"])
    kernels = told["of_those_found"]
    assert kernels["geometric_mean_over_compile"] == pytest.approx(1.28**0.5)
    assert (kernels["at_or_above_compile"], kernels["below_compile"]) == (1, ["layer_norm"])
    given = Path(tmp_path, "operators-runs", "layer_norm", "best.py").read_text()
    assert given.startswith("# Returned by `kb optimize layer_norm.py`: the problem's own model")
    assert given.endswith("        self.compile(dynamic=False)\n")
    table = (tmp_path / "operators.md").read_text()
    assert "| mish | 2 | 0.8 | - | 0.5 | 20% | 1.600 (1.584 to 1.616) | recipe | 40 |" in table
    assert "| compile | 30 |" in table
    assert "nothing better" in table
    assert (tmp_path / "operators-runs" / "mish" / "report.html").exists()
    assert Path(tmp_path, "operators-runs", "mish", "best.py").read_text().endswith("MS = 0.5\n")


def test_compiled_baselines_are_compiled_once_a_run_and_not_counted(tmp_path):
    judge = FakeJudge()
    options = asked(operators, "--out", str(tmp_path / "o.json"), "--only", "mish")
    record = run_tasks(operators.BENCHMARK, options, cards(judge))["records"]["mish"]
    forms = [each.baselines for each in judge.asked if isinstance(each, Evaluate)]
    assert forms.count(("eager", "compile")) == 1
    # Eager PyTorch is the start itself, and is not timed beside itself.
    assert set(forms) == {(), ("eager",), ("eager", "compile")}
    assert record["baseline_seconds"] == 30.0
    # The start, two candidates and the last session; nothing is profiled.
    assert record["gpu_seconds"] == 40.0


def test_what_is_done_is_skipped_and_what_failed_is_tried_again(tmp_path):
    options = asked(operators, "--out", str(tmp_path / "o.json"), "--only", "mish", "layer_norm")

    def fail(request):
        if "mish" in request.problem.name:
            raise KbError("the card is gone")

    found = run_tasks(operators.BENCHMARK, options, cards(FakeJudge(fail)))
    assert found["records"]["mish"]["failed"] == "the card is gone"
    assert found["summary"]["failed"] == {"mish": "the card is gone"}
    assert found["summary"]["share_at_or_above_compile"] == 0.5, "the one that failed is not"
    assert not done(found, "mish")
    again = FakeJudge()
    found = run_tasks(operators.BENCHMARK, options, cards(again))
    assert {Path(e.problem).name for e in again.asked if isinstance(e, Evaluate)} == {"mish.py"}
    assert found["summary"]["failed"] == {}
    assert found["records"]["mish"]["better"]
    third = FakeJudge()
    assert run_tasks(operators.BENCHMARK, options, cards(third)) == found
    assert third.asked == []


def test_a_run_that_was_interrupted_goes_on_where_it_was(tmp_path):
    options = asked(operators, "--out", str(tmp_path / "o.json"), "--only", "mish")
    judge = FakeJudge()

    def interrupt(request):
        if len([e for e in judge.asked if isinstance(e, Evaluate)]) == 3:
            raise KeyboardInterrupt

    judge._before = interrupt
    with pytest.raises(KeyboardInterrupt):
        run_tasks(operators.BENCHMARK, options, cards(judge))
    assert not (tmp_path / "o.json").exists()
    again = FakeJudge()
    record = run_tasks(operators.BENCHMARK, options, cards(again))["records"]["mish"]
    assert record["ms"]["best"] == 0.5
    # The second candidate and the last session are left.
    assert len([e for e in again.asked if isinstance(e, Evaluate)]) == 2
    events, _ = read_events(tmp_path / "o-runs" / "mish" / "journal.jsonl")
    assert any(isinstance(each, Continued) for each in events)


def test_nothing_is_begun_after_the_limit(tmp_path, capsys):
    options = asked(operators, "--out", str(tmp_path / "o.json"), "--limit", "0.000001")
    judge = FakeJudge()
    assert run_tasks(operators.BENCHMARK, options, cards(judge))["records"] == {}
    assert judge.asked == []
    assert "start again to go on" in capsys.readouterr().out


def test_problems_are_run_from_both_starts_into_one_table(tmp_path):
    judge = FakeJudge()
    options = asked(problems, "--out", str(tmp_path), "--only", "matvec", "max_pool3d")
    found = run_tasks(problems.BENCHMARK, options, cards(judge))
    assert list(found["records"]) == [
        "matvec-start", "matvec-nothing", "max_pool3d-start", "max_pool3d-nothing",
    ]  # fmt: skip
    matvec, pool = found["records"]["matvec-start"], found["records"]["max_pool3d-start"]
    assert problems.at_or_above(matvec)
    assert matvec["over"]["max-autotune"]["ratio"] == 1.0
    assert not problems.at_or_above(pool)
    assert pool["better"] is False
    told = found["summary"]["start"]
    assert told["right_and_faster_than_the_start"] == 1
    assert told["at_or_above_the_better_of_compile_and_max_autotune"] == 1
    assert told["gpu_seconds_most_with_baselines"] - told["gpu_seconds_most"] <= 60
    page = (tmp_path / "results.md").read_text()
    assert "| matvec-start | 2 | 2 | 0.8 | 0.7 | 0.7 |" in page
    assert "nothing better" in page
    assert (tmp_path / "runs" / "matvec-start" / "report.md").exists()
    # From a kernel, the first evaluation is that kernel's.
    first = next(each for each in judge.asked if isinstance(each, Evaluate))
    assert Path(first.kernel).read_text() == problems.start_of("matvec").read_text()
    assert first.dtype == "bfloat16"
    untouched = FakeJudge()
    assert run_tasks(problems.BENCHMARK, options, cards(untouched)) == found
    assert untouched.asked == []


def test_without_a_gpu_nothing_is_begun(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(local, "has_gpu", lambda: False)
    for module in (operators, problems):
        assert main(module.BENCHMARK, ["--out", str(tmp_path / "out.json")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert all(line.startswith("error: no GPU was found; --interpret") for line in said)


@pytest.mark.parametrize("arguments", [["--only", "sorting"], ["--seconds-each", "0"]])
def test_wrong_options_are_usage_errors(tmp_path, arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        operators._options(["--out", str(tmp_path / "o.json"), *arguments])
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


def test_a_dry_run_judges_an_operator_and_claims_no_figure(tmp_path, monkeypatch):
    monkeypatch.setitem(opening._FACTORIES, "recipe", lambda _: Offering([]))
    options = asked(operators, "--out", str(tmp_path / "o.json"), "--only", "mish", "--interpret")
    with local_cards("1", interpret=True) as real:
        found = run_tasks(operators.BENCHMARK, options, real)
    record = found["records"]["mish"]
    assert "failed" not in record, record
    assert (record["verdict"], record["dry"], is_timed(record)) == ("library", True, False)
    assert found["summary"]["share_at_or_above_compile"] == 0.0
    assert found["summary"]["geometric_mean_over_compile"] is None
