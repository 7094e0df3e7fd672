"""Result files: what a kill leaves, how figures stand to their targets, and what a page says."""

import json

import pytest

from benchmarks.results import Figure, figure_table, load, machine, publish, save


def test_a_record_is_replaced_as_a_whole(tmp_path):
    path = tmp_path / "results" / "a.json"
    assert load(path) == {}
    save(path, {"a": 1})
    with pytest.raises(TypeError):
        save(path, {"a": object()})
    assert load(path) == {"a": 1}


def test_a_figure_is_met_at_its_target_and_missed_beyond_it():
    figures = [
        Figure("ratio", 2.0, 2.0, at_least=True),
        Figure("errors", 1, 0, at_least=False, unit="errors"),
    ]
    assert [each.met for each in figures] == [True, False]
    assert figure_table(figures).splitlines()[2:] == [
        "| ratio | ≥ 2× | 2× | met |",
        "| errors | ≤ 0 errors | 1 errors | MISSED |",
    ]


def test_a_page_says_what_was_measured_and_on_what(tmp_path, capsys):
    where = machine()
    figures = [Figure("ratio", 2.0, 2.0, at_least=True)]
    publish(tmp_path / "a", "python -m it", "All of it.", {"machine": where, "x": 1}, figures)
    page = (tmp_path / "a.md").read_text()
    assert capsys.readouterr().out.strip() == page.strip()
    assert page.startswith("| figure |")
    assert "\n\nAll of it.\n\nMeasured " in page
    assert f"by `python -m it` on {where['processor']}, {where['cores']} cores" in page
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["figures"][0]["met"] is True
    assert (record["x"], record["command"]) == (1, "python -m it")
