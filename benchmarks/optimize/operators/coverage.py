"""`python -m benchmarks.optimize.operators.coverage`: which kernels `recipe` has for each operator.

Needs no GPU: graphs are exported on fake tensors, and kernels are adapted but not run.
"""

import argparse
import sys
from pathlib import Path

from agent.optimize.candidate import Judged, Outcome, ProblemInfo, Proposal, SearchState, Stage
from agent.optimize.starting import candidate_of, eager_start
from agent.problem.source import ProblemFile
from agent.recipe.graph import Graph, export_graph
from agent.recipe.proposer import RecipeProposer
from agent.recipe.stock import Shelf, shelf_of
from agent.sandbox.launch import Zygote
from benchmarks.optimize.asking import ended
from benchmarks.optimize.operators.cases import Operator, load
from kb.errors import KbError
from kb.search.opening import open_searcher

ARCHITECTURE, GPU = "sm_90a", "H200"


def main(arguments: list[str] | None = None) -> int:
    """Print a line an operator."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.optimize.operators.coverage")
    made.add_argument("--only", nargs="+", metavar="NAME")
    made.add_argument("--index", type=Path, help="index folder (default: the shipped corpus)")
    options = made.parse_args(arguments)
    missing = 0
    # Who names an index wants that one, or to be told that it is none.
    shelf = shelf_of(None if options.index is None else open_searcher(options.index))
    with Zygote(interpret=True) as zygote:
        for operator in load(options.only):
            proposals, notes = proposed(operator, shelf, zygote)
            missing += not proposals
            told = "; ".join(each.note for each in proposals) or "nothing"
            print(f"{operator.name:<20}{operator.family:<14}{len(proposals):>3}  {told}")
            for note in notes:
                print(f"{'':<37}  {note}")
    print(f"{missing} without a kernel")
    return 0


def proposed(
    operator: Operator, shelf: Shelf, zygote: Zygote | None
) -> tuple[list[Proposal], tuple[str, ...]]:
    """What `recipe` proposes for an operator, and what stood in the way."""

    def export(source: str, name: str, dtype: str | None) -> Graph:
        return export_graph(source, name, dtype, zygote)

    proposer = RecipeProposer(shelf, export)
    try:
        return list(proposer.propose(state_of(operator))), proposer.notes
    except KbError as error:
        return [], (str(error),)


def state_of(operator: Operator) -> SearchState:
    """A search on an H200 that has begun with eager PyTorch."""
    file = ProblemFile.read(operator.path)
    problem = ProblemInfo(name=operator.path.name, source=file.text, sha256=file.sha256)
    candidate = candidate_of(eager_start(file.text))
    start = Judged(candidate=candidate, outcome=Outcome(candidate=candidate.id, stage=Stage.DONE))
    return SearchState(
        problem=problem,
        dtype=operator.dtype,
        device="cuda:0",
        gpu=GPU,
        architecture=ARCHITECTURE,
        round=1,
        beam=(start,),
        leader=start,
        start=start,
    )


if __name__ == "__main__":
    sys.exit(ended(main))
