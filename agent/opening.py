"""Builds a run from its config: judge, advisor and proposers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from agent.optimize.advice import Advisor, IndexAdvisor
from agent.optimize.beam import TUNE
from agent.optimize.config import RunConfig
from agent.optimize.gpu_judge import GpuJudge
from agent.optimize.judge_pool import JudgePool, Worker
from agent.optimize.judge_process import JudgeProcess
from agent.optimize.loop import Search
from agent.optimize.progress import Progress
from agent.optimize.proposers import Proposer
from agent.optimize.record import Record
from agent.optimize.replay import ReplayAdvisor, ReplayJudge, ReplayProposer
from agent.optimize.run import RunFolder, read_run
from agent.pause import NeedsGpuError
from judge.graph import Graph
from kb.errors import InvalidInputError
from kb.gpus import GpuSpec
from kb.search.engine import Searcher
from kb.search.opening import open_searcher

if TYPE_CHECKING:
    from agent.endpoint.batch import BatchFolder

LLM: Final = "llm"


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Dependencies of proposers."""

    config: RunConfig
    run: Path
    pool: JudgePool
    """The judging processes. Proposers may use them between rounds."""
    searcher: Searcher | None = None
    price: Any = None
    """Price of the model (`agent.proposers.llm.accounting.Price`), or None."""
    batch: "BatchFolder | None" = None


def _make_tune(deps: Dependencies) -> Proposer:
    from agent.proposers.tune.proposer import TuneProposer  # noqa: PLC0415 (each where it takes part)

    return TuneProposer(deps.pool.ask)


def _make_recipe(deps: Dependencies) -> Proposer:
    from agent.proposers.recipe.catalog import EmptyCatalog, catalog_of  # noqa: PLC0415
    from agent.proposers.recipe.exporting import ExportGraph  # noqa: PLC0415
    from agent.proposers.recipe.proposer import RecipeProposer  # noqa: PLC0415

    config, pool = deps.config, deps.pool

    def export(source: str, name: str, dtype: str | None) -> Graph:
        request = ExportGraph(source=source, name=name, dtype=dtype, interpret=config.interpret)
        return Graph.from_export(pool.ask(request))

    screener = None
    # Where kernels may be tuned they are screened as well.
    if not config.interpret and TUNE in config.proposers:
        from agent.proposers.tune.screener import Screener  # noqa: PLC0415

        screener = Screener(pool.ask)
    catalog = catalog_of(deps.searcher) if config.knowledge else EmptyCatalog()
    return RecipeProposer(catalog, export, screener)


def _make_llm(deps: Dependencies) -> Proposer:
    from agent.proposers.llm.proposer import open_proposer as open_llm  # noqa: PLC0415

    config = deps.config
    # Prompts hold times: where these are measured anew they differ from the recorded ones.
    return open_llm(
        config,
        deps.run,
        deps.searcher,
        price=deps.price,
        exact=config.replay_verdicts,
        batch=deps.batch,
    )


_FACTORIES: Final = {"tune": _make_tune, "recipe": _make_recipe, LLM: _make_llm}
NAMES: Final = tuple(_FACTORIES)
"""Names of all proposers. Only this module knows them."""


@contextmanager
def open_search(
    folder: RunFolder,
    index: Path,
    *,
    specs: Sequence[GpuSpec] = (),
    price: Any = None,
    progress: Progress | None = None,
    start_process: Callable[[], Worker] = JudgeProcess,
    processes: int = 2,
    batch: "BatchFolder | None" = None,
    away: bool = False,
    advise: Callable[[RunFolder, Searcher | None], Advisor] | None = None,
) -> Iterator[Search]:
    """A search that is ready to run.

    Parameters
    ----------
    folder, index
        Of the run, and of the index that context comes from.
    specs
        Cards beside those of `kb.gpus`.
    price
        Of the model (`agent.proposers.llm.accounting.Price`), or None.
    start_process
        Makes a judging process; several runs may share one.
    processes
        How many of them check at once in a dry run.
    batch
        Where requests and replies are files; None: the one that the config names, if it does.
    away
        There is no GPU here: the run goes on until it needs one, and then pauses.
    advise
        Makes what advises, in place of the index's own: for what knowledge is worth.

    Raises
    ------
    KbError
        A proposer cannot be made, or the run was begun on another card.
    """
    config = folder.config
    searcher = searcher_or_none(index) if config.knowledge else None
    with ExitStack() as stack:
        if searcher is not None:
            stack.callback(searcher.close)
        pool = JudgePool(config, processes, _needs_gpu if away else start_process)
        if batch is None and config.batch is not None and config.replayed is None:
            from agent.endpoint.batch import BatchFolder  # noqa: PLC0415 (loads the client)

            batch = BatchFolder(Path(config.batch).expanduser())
        deps = Dependencies(config, folder.root, pool, searcher, price, batch)
        record = _read_replayed(config)
        replay = record if config.replay_verdicts else None
        # The model's replies come through its own code; what others did is taken as it was.
        proposers = [
            open_proposer(name, deps)
            if replay is None or name == LLM
            else ReplayProposer(name, replay)
            for name in config.proposers
        ]
        if replay is not None:
            judge_and_advisor = ReplayJudge(replay), ReplayAdvisor(replay)
            yield Search(folder, *judge_and_advisor, proposers, progress=progress)
            return
        judge = GpuJudge(folder, pool, specs=specs)
        stack.callback(judge.close)
        if folder.record.standing is not None and not (config.interpret or away):
            judge.require_same(folder.record.standing)
        advisor: Advisor = IndexAdvisor(folder, index, specs, searcher)
        if advise is not None:
            advisor = advise(folder, searcher)
        yield Search(folder, judge, advisor, proposers, progress=progress)


def open_proposer(name: str, deps: Dependencies) -> Proposer:
    """One proposer.

    Raises
    ------
    KbError
        There is none of this name, or it cannot be made.
    """
    if name not in _FACTORIES:
        raise InvalidInputError(f"no proposer '{name}': choose from {', '.join(NAMES)}")
    return _FACTORIES[name](deps)


def _needs_gpu() -> NoReturn:
    raise NeedsGpuError("the next step needs a GPU: continue the run on a machine with one")


def _read_replayed(config: RunConfig) -> Record | None:
    if config.replayed is None:
        if config.replay_verdicts:
            raise InvalidInputError("--replay-verdicts needs --model replay:RUN")
        return None
    other_config, record = read_run(Path(config.replayed).expanduser())
    if other_config.problem.sha256 != config.problem.sha256:
        raise InvalidInputError(
            f"{config.replayed} is a run of another problem ({other_config.problem.name})"
        )
    return record


def searcher_or_none(index: Path) -> Searcher | None:
    """Searcher of an index; None if it cannot be opened, which the advisor reports."""
    try:
        return open_searcher(index)
    except Exception:  # damaged files, a package that is missing: a run goes on without knowledge
        return None
