"""A problem's graph is exported once, early, and a failure is told where it is asked for."""

import threading

import pytest
from scripted import config

from agent.optimize.exporting import ExportAhead
from agent.recipe.graph import Graph, GraphError

GRAPH = Graph({}, ())


def test_the_graph_is_exported_once_and_before_it_is_asked_for() -> None:
    asked: list[tuple[str, str, str | None]] = []
    begun = threading.Event()

    def export(source: str, name: str, dtype: str | None) -> Graph:
        asked.append((source, name, dtype))
        begun.set()
        return GRAPH

    run = config().model_copy(update={"dtype": "bfloat16"})
    ahead = ExportAhead(run, export)
    assert begun.wait(10)
    mine = (run.problem.source, run.problem.name, "bfloat16")
    assert ahead(*mine) is GRAPH
    assert ahead(*mine) is GRAPH
    assert asked == [mine]
    ahead(*mine[:2], "float32")
    assert asked == [mine, (*mine[:2], "float32")]


def test_what_went_wrong_early_is_tried_again_and_told() -> None:
    def export(*_: object) -> Graph:
        raise GraphError("the problem cannot be exported")

    run = config()
    ahead = ExportAhead(run, export)
    with pytest.raises(GraphError, match="cannot be exported"):
        ahead(run.problem.source, run.problem.name, None)
