"""Puts a run together from its config: judge, advisor, proposers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from agent.optimize.advice import IndexAdvisor
from agent.optimize.beam import TUNE
from agent.optimize.config import RunConfig
from agent.optimize.gpu_judge import GpuJudge
from agent.optimize.judge_process import JudgeProcess
from agent.optimize.loop import Search
from agent.optimize.progress import Progress
from agent.optimize.proposers import Proposer
from agent.optimize.record import Record
from agent.optimize.replay import ReplayAdvisor, ReplayJudge, ReplayProposer
from agent.optimize.run import RunFolder, read_run
from kb.errors import InvalidInputError, KbError
from kb.gpus import GpuSpec
from kb.search.engine import Searcher
from kb.search.opening import open_searcher

if TYPE_CHECKING:
    from agent.recipe.stock import Shelf
    from agent.tune.screener import Screener

LLM: Final = "llm"


@dataclass(frozen=True, slots=True)
class Parts:
    """What proposers are made of."""

    config: RunConfig
    run: Path
    """The run folder."""
    searcher: Searcher | None = None
    """Of the index; None where there is none."""
    price: Any = None
    """Of the model (`agent.llm.accounting.Price`), or None."""
    shelf: "Shelf | None" = None
    """Of `recipe`, in place of the index."""


def _tune(parts: Parts) -> Proposer:
    from agent.tune.proposer import TuneProposer  # noqa: PLC0415 (each where it takes part)

    proposer = TuneProposer(trust=parts.config.trust)
    if not parts.config.interpret:
        proposer.prepare()
    return proposer


def _recipe(parts: Parts) -> Proposer:
    from agent.optimize.exporting import ExportAhead  # noqa: PLC0415
    from agent.recipe.proposer import RecipeProposer  # noqa: PLC0415
    from agent.recipe.stock import shelf_of  # noqa: PLC0415

    shelf = parts.shelf or shelf_of(parts.searcher)
    return RecipeProposer(shelf, ExportAhead(parts.config), _screener(parts.config))


def _screener(config: RunConfig) -> "Screener | None":
    """Where kernels may be tuned they are screened as well."""
    if config.interpret or TUNE not in config.proposers:
        return None
    from agent.tune.screener import Screener  # noqa: PLC0415

    screener = Screener(trust=config.trust)
    screener.prepare()
    return screener


def _llm(parts: Parts) -> Proposer:
    from agent.llm.proposer import open_proposer as open_llm  # noqa: PLC0415

    config = parts.config
    # Prompts hold times: where these are measured anew they differ from the recorded ones.
    return open_llm(
        config, parts.run, parts.searcher, price=parts.price, exact=config.replay_verdicts
    )


_MAKERS: Final = {"tune": _tune, "recipe": _recipe, LLM: _llm}
NAMES: Final = tuple(_MAKERS)
"""Of all proposers; this module is the one place that knows them."""


@contextmanager
def opened(
    folder: RunFolder,
    index: Path,
    *,
    specs: Sequence[GpuSpec] = (),
    price: Any = None,
    progress: Progress | None = None,
    start_process: Callable[[], JudgeProcess] = JudgeProcess,
    shelf: "Shelf | None" = None,
) -> Iterator[Search]:
    """A search that is ready to run.

    Parameters
    ----------
    folder
        Of the run.
    index
        Folder of the index that context comes from.
    specs
        Cards beside those of `kb.gpus`.
    price
        Of the model (`agent.llm.accounting.Price`), or None.
    progress
        Is told what happens.
    start_process
        Makes a judging process; several runs may share one.
    shelf
        Where `recipe` takes kernels from, in place of the index: for what it is worth.

    Raises
    ------
    KbError
        A proposer cannot be made, or the run was begun on another card.
    """
    config = folder.config
    searcher = searcher_or_none(index)
    try:
        parts = Parts(config, folder.root, searcher, price, shelf)
        recorded = _recorded(config)
        if recorded is not None and config.replay_verdicts:
            proposers = _repeating(parts, recorded)
            replayed = ReplayJudge(recorded), ReplayAdvisor(recorded)
            yield Search(folder, *replayed, proposers, progress=progress)
            return
        proposers = [open_proposer(name, parts) for name in config.proposers]
        real = GpuJudge(folder, specs=specs, start_process=start_process)
        try:
            if folder.record.standing is not None and not config.interpret:
                real.require_same(folder.record.standing)
            advisor = IndexAdvisor(folder, index, specs, searcher)
            yield Search(folder, real, advisor, proposers, progress=progress)
        finally:
            real.close()
    finally:
        if searcher is not None:
            searcher.close()


def open_proposer(name: str, parts: Parts) -> Proposer:
    """One proposer.

    Raises
    ------
    KbError
        There is none of this name, or it cannot be made.
    """
    if name not in _MAKERS:
        raise InvalidInputError(f"no proposer '{name}': there are {', '.join(NAMES)}")
    return _MAKERS[name](parts)


def _recorded(config: RunConfig) -> Record | None:
    if config.replayed is None:
        if config.replay_verdicts:
            raise InvalidInputError("--replay-verdicts needs --model replay:RUN")
        return None
    known, record = read_run(Path(config.replayed).expanduser())
    if known.problem.sha256 != config.problem.sha256:
        raise InvalidInputError(
            f"{config.replayed} is a run on another problem ({known.problem.name})"
        )
    return record


def _repeating(parts: Parts, record: Record) -> list[Proposer]:
    """The model's replies come through its own code; what others did is taken as it was."""
    return [
        open_proposer(name, parts) if name == LLM else ReplayProposer(name, record)
        for name in parts.config.proposers
    ]


def searcher_or_none(index: Path) -> Searcher | None:
    """Of the index; None where there is none that can be opened, which the advisor tells."""
    try:
        return open_searcher(index)
    except KbError:
        return None
