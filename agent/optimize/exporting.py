"""Exports the problem's graph while the start is judged: loading torch for it takes seconds."""

import contextlib
import threading
from collections.abc import Callable

from agent.optimize.config import RunConfig
from agent.recipe.graph import Graph, export_graph

Export = Callable[[str, str, str | None], Graph]


class ExportAhead:
    """An export that began when it was made, for a run's problem; any other begins when asked for.

    Parameters
    ----------
    config
        Holds the problem and its dtype.
    export
        Does it.
    """

    def __init__(self, config: RunConfig, export: Export = export_graph) -> None:
        self._export = export
        self._asked = (config.problem.source, config.problem.name, config.dtype)
        self._found: Graph | None = None
        # A daemon: a run that ends early does not wait for it.
        self._thread = threading.Thread(target=self._begin, name="export", daemon=True)
        self._thread.start()

    def _begin(self) -> None:
        # What goes wrong is told when it is asked for, which tries again.
        with contextlib.suppress(Exception):
            self._found = self._export(*self._asked)

    def __call__(self, source: str, name: str, dtype: str | None) -> Graph:
        """See `agent.recipe.graph.export_graph`."""
        self._thread.join()
        if self._found is not None and (source, name, dtype) == self._asked:
            return self._found
        return self._export(source, name, dtype)
