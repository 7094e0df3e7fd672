"""The proposer `llm`: plans, writes, repairs and reflects with a language model."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from pathlib import Path

from agent.endpoint.batch import BatchEndpoint, BatchFolder
from agent.endpoint.client import Endpoint
from agent.endpoint.errors import LlmError
from agent.optimize.advice import ids_of_sources
from agent.optimize.candidate import Hypothesis, Judged, Outcome, Proposal, SearchState, digest_id
from agent.optimize.config import RunConfig
from agent.optimize.proposers import Proposer, Spending
from agent.pause import PausedError
from agent.proposers.llm.accounting import Price
from agent.proposers.llm.brief import COMBINED, Brief, kernel_text
from agent.proposers.llm.conversation import Abilities, Conversation
from agent.proposers.llm.gateway import Gateway
from agent.proposers.llm.gathering import side_by_side
from agent.proposers.llm.models import Code, Plan
from agent.proposers.llm.prompting import flat, render
from agent.proposers.llm.roles import coder, planner, reflector
from agent.proposers.llm.search_tool import SearchTool
from kb.errors import InvalidInputError
from kb.search.engine import Searcher

NAME = "llm"
# Plans of a round. The loop takes `width` x `branching` of all proposers in turn, so more than
# these would often be paid for and dropped.
PLANS = 4
# Requests under way at a time: below the limits of a free account, above one by one.
PARALLEL = 4
# Characters of a plan that a request to correct its kernel repeats.
_CLAIM = 1600


class LlmProposer(Proposer):
    """Turns a model's plans into kernel files.

    Parameters
    ----------
    gateway : Gateway
        The way to the model.
    searcher : Searcher, optional
        Of the index that `search_kb` looks things up in; without one there is no such tool.
    parallel : int
        Requests under way at a time.
    hidden : collection of str
        Ids of chunks and slugs that no search gives.
    """

    name = NAME
    asks_model = True

    def __init__(
        self,
        gateway: Gateway,
        searcher: Searcher | None = None,
        *,
        parallel: int = PARALLEL,
        hidden: Collection[str] = (),
    ) -> None:
        self._gateway = gateway
        self._searcher = searcher
        self._parallel = parallel
        self._hidden = tuple(sorted(hidden))
        self._abilities = Abilities()
        self._planned = False
        """Whether this process has asked a planner, so that `_abilities` are known."""
        self._brief: Brief | None = None

    @property
    def spent(self) -> Spending:
        """Tokens and money of this process; in a replay those of the recorded run."""
        return self._gateway.spent

    def summary(self) -> str:
        """What the run spent on the model, in words."""
        return self._gateway.summary()

    def close(self) -> None:
        """Send nothing more."""
        self._gateway.close()

    def attend(self, state: SearchState) -> None:
        """Take the round's state; see `agent.optimize.proposers.Proposer`."""
        self._brief = Brief.of(state)
        if not self._planned:
            self._abilities = self._abilities_before(state.round + 1)

    def propose(self, state: SearchState) -> list[Proposal]:
        """Kernel files of this round's plans; see `agent.optimize.proposers.Proposer`.

        Raises
        ------
        LlmError
            The planner failed, or every request after it.
        """
        self.notes = []
        if state.round == 1 and not self._gateway.counts_money:
            self.notes = ["the model's price is unknown: tokens are counted, money is not"]
        self._brief = brief = Brief.of(state)
        most = min(PLANS, state.branching * len(state.beam))
        count = max(most - (state.crossover is not None), 1)
        if not self._planned:
            self._abilities = self._abilities_before(state.round)
        talk = self._talk(_planner(state.round), brief, state.context.chunks)
        try:
            plans = planner.plan(talk, brief, count)
        finally:
            # The planner comes first and alone, so that all others know what it found out, in a
            # replay as well.
            self._abilities, self._planned = talk.abilities, True
        tasks: list[Callable[[], Proposal]] = []
        if state.crossover is not None:
            tasks.append(partial(self._combine, brief, *state.crossover))
        tasks += [
            partial(self._write, brief, plan, number) for number, plan in enumerate(plans, start=1)
        ]
        return self._run_all(tasks)

    def repair(self, proposal: Proposal, failure: Outcome) -> Proposal | None:
        """A corrected version; see `agent.optimize.proposers.Proposer`.

        Raises
        ------
        LlmError
            No usable answer came.
        """
        brief = self._brief
        if brief is None:
            return None
        talk = self._talk(f"fixer.{digest_id(proposal.source)}", brief, ())
        code = coder.fix(talk, brief, proposal, failure)
        chunks = _all_chunks(proposal.chunks, talk)
        return proposal.model_copy(
            update={"source": code.code, "note": flat(code.note), "chunks": chunks}
        )

    def reflect(self, state: SearchState, judged: Sequence[Judged]) -> list[str]:
        """What the numbers say; see `agent.optimize.proposers.Proposer`.

        Raises
        ------
        LlmError
            No usable answer came.
        """
        cases = reflector.cases_of(state, judged, NAME)
        if not cases:
            return []
        brief = Brief.of(state)
        talk = self._talk(f"r{state.round:02d}.reflector", brief, None)
        return reflector.reflect(talk, brief, cases)

    def _abilities_before(self, round_: int) -> Abilities:
        """What the endpoint supports as the record has it at the beginning of a round.

        A resumed run has to go on as if it had not been interrupted: else its replay, which is
        not, would diverge.
        """
        past = self._gateway.past
        for number in range(round_ - 1, 0, -1):
            request = past.last_request(_planner(number))
            if request is not None:
                return Abilities.from_request(request, searches=past.searches)
        return Abilities()

    def _talk(self, name: str, brief: Brief, chunks: Sequence[str] | None) -> Conversation:
        """A conversation that can search for chunks other than `given`; None: it cannot search."""
        searches = self._gateway.searches
        if searches is None:
            # In a batch each search would cost a journey to the other machine.
            searches = self._searcher is not None and not self._gateway.waits
        tool = None
        if searches and chunks is not None:
            known_ids = (*chunks, *self._hidden)
            tool = SearchTool(self._searcher, brief.state.architecture, known_ids)
        cuda = bool(brief.kernels) and all(kernel.suffix != ".py" for kernel in brief.kernels)
        system = render("system", language="CUDA C++" if cuda else "Triton")
        return Conversation(self._gateway, name, system, self._abilities, tool=tool)

    def _write(self, brief: Brief, plan: Plan, number: int) -> Proposal:
        chunks = brief.state.context.chunks
        talk = self._talk(f"r{brief.state.round:02d}.coder.{number}", brief, chunks)
        code = coder.write(talk, brief, plan)
        return Proposal(
            source=code.code,
            parents=(plan.parent,),
            proposer=NAME,
            family=plan.technique,
            hypothesis=Hypothesis(
                claim=flat(plan.claim, _CLAIM), metric=plan.metric, expected=plan.expected
            ),
            chunks=_all_chunks(chunks, talk),
            suffix=brief.kernel(plan.parent).suffix,
            note=_note(plan, code),
        )

    def _combine(self, brief: Brief, *pair: Judged) -> Proposal:
        chunks = brief.state.context.chunks
        talk = self._talk(f"r{brief.state.round:02d}.combiner", brief, chunks)
        first, second = (kernel_text(judged, brief.state.problem.source) for judged in pair)
        code = coder.combine(talk, brief, first, second)
        return Proposal(
            source=code.code,
            parents=(first.id, second.id),
            proposer=NAME,
            family=COMBINED.join(
                sorted({part for judged in pair for part in judged.family.split(COMBINED)})
            ),
            hypothesis=Hypothesis(claim=flat(code.note) or "Both changes together."),
            chunks=_all_chunks(chunks, talk),
            suffix=first.suffix,
            note=f"combines {first.id} and {second.id}",
        )

    def _run_all(self, tasks: Sequence[Callable[[], Proposal]]) -> list[Proposal]:
        try:
            results = side_by_side(tasks, self._parallel)
        except BaseException:
            self.close()  # Ctrl-C: what is under way must write no more
            raise
        # All of them were asked, also where one has to wait.
        errors = [error for result in results if (error := result.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, PausedError)):
            if not isinstance(error, LlmError):
                raise error
        proposals = [result.result() for result in results if result.exception() is None]
        if errors and not proposals:
            raise errors[0]
        self.notes = [*self.notes, *(str(error) for error in errors)]
        return proposals


def open_proposer(
    config: RunConfig,
    run: Path,
    searcher: Searcher | None = None,
    *,
    price: Price | None = None,
    exact: bool = True,
    batch: BatchFolder | None = None,
) -> LlmProposer:
    """The proposer for a run's `model`, or for `replay:RUN`, the record of another run.

    Parameters
    ----------
    config
        Holds model, base URL, and the limits on tokens and money.
    run
        The run folder, for the record.
    searcher
        Of the index.
    price
        Of the model.
    exact
        In a replay, whether prompts have to be those of the record (`Gateway.open_replay`).
    batch
        Where requests and replies are files, in place of an endpoint.

    Raises
    ------
    KbError
        No model is named, a key or a price is missing, or a record is missing or damaged.
    """
    if config.model is None:
        raise InvalidInputError("the proposer 'llm' needs --model")
    if config.replayed is not None:
        recorded = Path(config.replayed).expanduser()
        return LlmProposer(Gateway.open_replay(recorded, run, exact=exact), searcher)
    gateway = Gateway.open_live(
        Endpoint(config.model, config.base_url)
        if batch is None
        else BatchEndpoint(config.model, batch),
        run,
        price=price,
        max_tokens=config.limits.tokens,
        max_money=config.limits.money,
    )
    hidden = ids_of_sources(searcher.generation, config.exclude_sources) if searcher else ()
    return LlmProposer(gateway, searcher, hidden=hidden)


def _planner(round_: int) -> str:
    return f"r{round_:02d}.planner"


def _all_chunks(chunks: Sequence[str], talk: Conversation) -> tuple[str, ...]:
    """Ids of the chunks that a model had: those of its prompt, and what it found."""
    return tuple(dict.fromkeys((*chunks, *talk.found_chunks)))


def _note(plan: Plan, code: Code) -> str:
    evidence = ", ".join(plan.evidence)
    moves = f"; {plan.metric} {plan.direction}" if plan.metric is not None else ""
    return flat(f"{code.note} (risk: {plan.risk}; rests on {evidence}{moves})", 500)
