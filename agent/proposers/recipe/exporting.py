"""Exports a problem's graph in a judging process, which has loaded torch already."""

from agent.optimize.judge_requests import JudgeState, Request
from judge.graph import request_graph
from judge.progress import Say
from judge.worker import messages as m


class ExportGraph(Request[m.Graph]):
    """Export the model of a problem file as operators."""

    reply = m.Graph

    source: str
    name: str
    dtype: str | None = None
    interpret: bool = False
    """Use the process that the run's workers fork from in a dry run."""

    def answer(self, kept: JudgeState, say: Say) -> m.Graph:  # noqa: ARG002 (see `Request`)
        """See `Request.answer`."""
        zygote = kept.zygote(interpret=self.interpret)
        return request_graph(self.source, self.name, self.dtype, zygote)
