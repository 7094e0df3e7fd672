"""Screens proposals before they are judged: quick times of several configurations of each.

Judging one candidate takes as long as timing dozens of configurations in one process, so a run of
a minute or two has time to judge the right one only.
"""

from collections.abc import Callable, Sequence
from typing import Final

from agent.optimize.candidate import Proposal, SearchState
from agent.optimize.proposers import Spending
from agent.optimize.starting import eager_start
from agent.proposers.tune.request import Ranking, Screened, Screening
from judge.problem.kernel import Form, KernelFile
from kb.errors import KbError

# Of GPU and compilation time for one screening.
SECONDS: Final = 60.0
# With less there is no point in starting workers.
_LEAST_SECONDS: Final = 7.0
# Of what a limited search has left, where it has plenty: the rest is for judging what is found.
_SHARE: Final = 0.6
# So little is spent as a whole: then the best of the screening is the last that is judged.
_ALL_OF: Final = 45.0
# A search's limit is on the time that the card is held, and most of a screening is compilation: in
# 45 screenings on H200s, two runs a card, it was held for at most half of the wall time, median a
# seventh.
_COMPILING: Final = 3.0
# What a quick timing may be off by: a kernel that is slower than eager by more is not proposed.
_SLOWER: Final = 1.1

Rank = Callable[[Screening], Ranking]


class Screener:
    """Orders and tunes proposals by quick times.

    Parameters
    ----------
    rank
        Does it.
    """

    def __init__(self, rank: Rank) -> None:
        self._rank = rank
        self.spent = Spending()
        """GPU time of the screenings."""
        self.notes: tuple[str, ...] = ()
        """Kernels of the last screening that do not work or are slower than eager PyTorch."""

    def screen(self, state: SearchState, proposals: Sequence[Proposal]) -> list[Proposal]:
        """The proposals in their best configurations, the fastest first; those that do not work, or
        are slower than eager PyTorch, are left out. Where time ran out before any was timed, the
        first stays as it is. All as they are where there is no time, or where screening fails.
        """
        self.notes = ()
        hold_seconds, seconds = self._time_limits(state)
        usable = [proposal for proposal in proposals if _is_function(proposal)]
        if state.interpret or min(hold_seconds, seconds) < _LEAST_SECONDS or not usable:
            return list(proposals)
        request = Screening.like(
            state,
            problem=state.problem.source,
            kernels=tuple(proposal.source for proposal in usable),
            reference=eager_start(state.problem.source).source,
            start_ms=state.start.outcome.median_ms,
            seconds=seconds,
            hold_seconds=hold_seconds,
            patience=state.may_wait(seconds),
            seed=state.random("screen").getrandbits(32),
        )
        try:
            ranking = self._rank(request)
        except KbError as error:
            self.notes = (f"not screened: {error}",)
            return list(proposals)
        self.spent += Spending(gpu_seconds=ranking.held_seconds)
        others = [proposal for proposal in proposals if not _is_function(proposal)]
        return [*self._rank_proposals(usable, ranking), *others]

    def _time_limits(self, state: SearchState) -> tuple[float, float]:
        """Seconds to hold the card, and seconds with what is compiled."""
        left = state.seconds_left
        if left is None:
            return SECONDS, SECONDS
        hold_seconds = max(_SHARE * left, min(left, _ALL_OF))
        seconds = min(SECONDS, _COMPILING * hold_seconds)
        return hold_seconds, seconds if state.wall_left is None else min(seconds, state.wall_left)

    def _rank_proposals(self, proposals: Sequence[Proposal], ranking: Ranking) -> list[Proposal]:
        timed: list[tuple[float, Proposal]] = []
        notes: list[str] = []
        for proposal, kernel in zip(proposals, ranking.kernels, strict=True):
            name = proposal.note
            if kernel.version is None:
                notes.append(f"{name}: {kernel.why}")
            elif ranking.reference_ms and kernel.version.ms > _SLOWER * ranking.reference_ms:
                notes.append(
                    f"{name}: {kernel.version.ms:.4g} ms at best, where eager PyTorch takes "
                    f"{ranking.reference_ms:.4g} ms"
                )
            else:
                timed.append((kernel.version.ms, _with_best_version(proposal, kernel)))
        self.notes = tuple(notes)
        if not any(kernel.tried for kernel in ranking.kernels):
            return list(proposals[:1])
        return [proposal for _, proposal in sorted(timed, key=lambda pair: pair[0])]


def _is_function(proposal: Proposal) -> bool:
    try:
        return KernelFile.parse(proposal.source).form is Form.KERNEL_FUNCTION
    except KbError:
        return False


def _with_best_version(proposal: Proposal, entry: Screened) -> Proposal:
    assert entry.version is not None
    version = entry.version
    return proposal.model_copy(
        update={
            "source": version.source,
            "params": version.values,
            "quick_ms": version.ms,
            "note": f"{proposal.note}; best of {entry.tried} configurations ({entry.failed} failed)"
            f", {version.ms:.4g} ms in quick timings",
        }
    )
