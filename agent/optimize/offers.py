"""Collects a round's proposals from all proposers in turn, without duplicates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from agent.optimize.candidate import Candidate, Judged, Outcome, Proposal, SearchState, Stage
from agent.optimize.dedupe import digest
from agent.optimize.outcomes import clip, describe, failure
from agent.optimize.proposers import Proposer, Spending
from agent.pause import PausedError
from judge.problem.kernel import Form, KernelFile
from kb.errors import KbError

# Real kernel files have some tens of kilobytes.
_MAX_CHARS = 1 << 20


@dataclass
class Offers:
    """The collected proposals; see `events.Proposed`, which has the same fields."""

    candidates: list[Candidate] = field(default_factory=list)
    dropped: list[Judged] = field(default_factory=list)
    offered: dict[str, tuple[str, ...]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    spent: dict[str, Spending] = field(default_factory=dict)


def collect(
    proposers: Sequence[Proposer],
    state: SearchState,
    tried: Mapping[str, str],
    *,
    models_later: bool,
) -> Offers:
    """Ask all proposers, and take their proposals in turn so that none crowds out the others.

    Parameters
    ----------
    state
        `branching` × beam bounds the proposals of each, `width` × `branching` those of all.
    tried
        Digest of a program → id of the candidate that was it.
    models_later
        Ask those that ask a model only if the others propose nothing: otherwise the model starts
        from the others' results in the next round.

    Raises
    ------
    PausedError
        A proposer waits for a reply; the others were not asked, or have to be asked again.
    """
    models = [proposer for proposer in proposers if proposer.asks_model]
    others = [proposer for proposer in proposers if not proposer.asks_model]
    offers = Offers()
    for group in (others, models) if models_later and others else (proposers,):
        if not offers.candidates:
            _collect_from(group, state, tried, offers)
    return offers


def _collect_from(
    proposers: Sequence[Proposer], state: SearchState, tried: Mapping[str, str], offers: Offers
) -> None:
    lists: dict[str, list[Candidate]] = {proposer.name: [] for proposer in proposers}
    # Proposers that may have to wait are asked first, so that no work of the others is lost.
    for proposer in sorted(proposers, key=lambda p: not p.asks_model):
        before = proposer.spent
        limit = state.branching * len(state.beam)
        try:
            proposed = [
                candidate_of(proposal, state.round) for proposal in proposer.propose(state)[:limit]
            ]
        except PausedError:
            raise
        except Exception as error:
            proposed = []
            offers.failures[proposer.name] = describe(error)
        if proposer.notes:
            offers.notes[proposer.name] = tuple(clip(note) for note in proposer.notes)
        lists[proposer.name] = proposed
        offers.offered[proposer.name] = tuple(item.id for item in proposed)
        add_spending(offers.spent, proposer, before)
    seen = dict(tried)
    for candidate in _in_turn([*lists.values()]):
        program = digest(candidate.source, candidate.suffix)
        dropped = None
        if program in seen:
            dropped = failure(candidate, Stage.DUPLICATE, f"the same program as {seen[program]}")
        elif candidate.family in state.retired:
            dropped = failure(candidate, Stage.RETIRED, f"'{candidate.family}' was retired")
        elif len(offers.candidates) < state.width * state.branching:
            seen[program] = candidate.id
            offers.candidates.append(candidate)
        if dropped is not None:
            offers.dropped.append(Judged(candidate=candidate, outcome=dropped))


def candidate_of(proposal: Proposal, round_: int, *, repairs: str | None = None) -> Candidate:
    """The candidate of a proposal; one that cannot be read as a kernel file has no form."""
    source = proposal.source.encode("utf-8", errors="replace").decode()
    proposal = proposal.model_copy(update={"source": source})
    try:
        form = _form(proposal)
    except KbError:
        form = None
    return Candidate.of(proposal, round_=round_, form=form, repairs=repairs)


def unreadable_outcome(candidate: Candidate, attempt: int) -> Outcome | None:
    """The outcome of a file that is no kernel file; None where it is one."""
    try:
        _form(candidate)
    except KbError as error:
        return failure(candidate, Stage.SYNTAX, str(error), attempt)
    return None


def _form(proposal: Proposal) -> Form:
    if len(proposal.source) > _MAX_CHARS:
        raise KbError(f"the file has more than {_MAX_CHARS} characters")
    return KernelFile.parse(proposal.source, f"kernel{proposal.suffix}").form


def add_spending(spent: dict[str, Spending], proposer: Proposer, before: Spending) -> None:
    """Record what a proposer has used since `before`, if anything."""
    if proposer.spent != before:
        spent[proposer.name] = proposer.spent - before


def _in_turn(lists: Sequence[Sequence[Candidate]]) -> Iterable[Candidate]:
    for row in zip_longest(*lists):
        yield from (item for item in row if item is not None)
