"""The proposer `tune`: other meta-parameters for the Triton kernels of the beam."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from agent.diagnose.result import Bottleneck, Diagnosis
from agent.optimize.beam import BASELINE, TUNE
from agent.optimize.candidate import Hypothesis, Judged, Proposal, SearchState
from agent.optimize.proposers import Proposer, Spending
from agent.proposers.tune.autotune import read_tunables
from agent.proposers.tune.request import Tuned, Tuning, Version
from agent.proposers.tune.space import Hint
from judge.problem.kernel import KernelFile, Language
from kb.errors import KbError

# Of GPU time for one kernel.
SECONDS: Final = 40.0
# With less there is no point in starting workers.
_LEAST_SECONDS: Final = 10.0
# Of what a limited search has left, for one kernel: the rest is for judging what is found.
_SHARE: Final = 0.5
# Kernels tuned in one round; each costs `SECONDS`.
_MOST_KERNELS: Final = 2
# What a quick timing can be trusted to; the judge measures what is proposed anew.
_GAIN: Final = 0.02
# A runner-up is proposed beside the best if it is no further behind.
_CLOSE: Final = 0.02

_HINTS: Final = {
    Bottleneck.UNDERUTILIZED: (Hint.SMALLER, Hint.MORE_WARPS),
    Bottleneck.LATENCY: (Hint.DEEPER, Hint.MORE_WARPS),
    Bottleneck.MEMORY: (Hint.LARGER, Hint.DEEPER),
    Bottleneck.COMPUTE: (Hint.LARGER,),
}

Run = Callable[[Tuning], Tuned]


class TuneProposer(Proposer):
    """Tunes each Triton kernel of the beam once, unless quick timings chose its configuration.

    Parameters
    ----------
    run
        Does the tuning.
    """

    name = TUNE

    def __init__(self, run: Run) -> None:
        self._run = run
        self._tuned_ids: set[str] = set()

    def propose(self, state: SearchState) -> Sequence[Proposal]:
        """The best configurations of kernels that were not tuned yet, the leader's first.

        Raises
        ------
        KbError
            A kernel could not be tuned; those before it lose nothing.
        """
        if state.interpret:
            return []  # nothing is timed
        before = self._spent.gpu_seconds
        proposals: list[Proposal] = []
        failure: KbError | None = None
        for judged in self._candidates(state)[:_MOST_KERNELS]:
            seconds = SECONDS
            if state.seconds_left is not None:
                # The state does not know of this round's earlier searches yet.
                left = state.seconds_left - (self._spent.gpu_seconds - before)
                seconds = min(seconds, _SHARE * left)
            if seconds < _LEAST_SECONDS:
                break
            self._tuned_ids.add(judged.id)
            try:
                proposals += self._tune(state, judged, seconds)
            except KbError as error:
                failure = error
        if failure is not None and not proposals:
            raise failure
        return proposals

    def _candidates(self, state: SearchState) -> list[Judged]:
        """Kernels worth the time: Triton, right, with something to change, not tuned before."""
        parents = {
            parent
            for judged in state.history
            if judged.candidate.proposer == self.name
            for parent in judged.candidate.parents
        }
        candidates = {judged.id: judged for judged in (state.leader, *state.beam)}
        return [
            judged
            for judged in candidates.values()
            if judged.id not in parents | self._tuned_ids
            # Its configuration was found by quick timings: twelve further searches, of recipes'
            # kernels in 17 runs, found nothing that is faster.
            and judged.candidate.quick_ms is None
            and (judged.outcome.right or judged.id == state.start.id)
            and has_parameters(judged.candidate.source, judged.candidate.file)
        ]

    def _tune(self, state: SearchState, judged: Judged, seconds: float) -> list[Proposal]:
        candidate = judged.candidate
        request = Tuning.like(
            state,
            problem=state.problem.source,
            kernel=candidate.source,
            seconds=seconds,
            patience=state.may_wait(seconds),
            seed=state.random(self.name).getrandbits(32),
            hints=hints(state.diagnosis if judged.id == state.leader.id else None),
        )
        start = time.monotonic()
        try:
            result = self._run(request)
        except BaseException:
            self._spent += Spending(gpu_seconds=time.monotonic() - start)
            raise
        self._spent += Spending(gpu_seconds=result.held_seconds)
        family = candidate.family if candidate.family != BASELINE else TUNE
        return [
            self._proposal(judged, result, version, family)
            for version in select_versions(result, candidate.source)
        ]

    def _proposal(self, judged: Judged, result: Tuned, version: Version, family: str) -> Proposal:
        changes = ", ".join(
            f"{name} {result.start[name]} → {value}"
            for name, value in version.values.items()
            if result.start.get(name) != value
        )
        assert result.given_ms is not None
        return Proposal(
            source=version.source,
            parents=(judged.id,),
            proposer=self.name,
            family=family,
            hypothesis=Hypothesis(
                claim=f"{changes or 'one listed configuration'}: {version.ms:.4g} ms where the "
                f"parent took {result.given_ms:.4g} ms in quick timings"
            ),
            params=version.values,
            quick_ms=version.ms,
            note=f"best of {result.tried} configurations ({result.failed} failed) in "
            f"{result.held_seconds:.0f} s",
        )


def has_parameters(source: str, name: str) -> bool:
    """Whether a file is a Triton kernel with something to change."""
    try:
        if KernelFile.parse(source, name).language is not Language.TRITON:
            return False
        tunable, _ = read_tunables(source)
    except (KbError, SyntaxError, RecursionError):
        return False
    return bool(tunable.parameters)


def hints(diagnosis: Diagnosis | None) -> tuple[Hint, ...]:
    """What the weightiest findings suggest to try first."""
    if diagnosis is None:
        return ()
    suggested: dict[Hint, None] = {}
    for finding in sorted(diagnosis.findings, key=lambda finding: -finding.severity)[:2]:
        for hint in _HINTS[finding.category]:
            opposite = {Hint.SMALLER: Hint.LARGER, Hint.LARGER: Hint.SMALLER}.get(hint)
            if opposite not in suggested:
                suggested[hint] = None
    return tuple(suggested)


def select_versions(result: Tuned, source: str) -> list[Version]:
    """What to propose: the best if it is faster than what was given, and a close second."""
    if result.given_ms is None:
        return []
    faster = [
        version
        for version in result.versions
        if version.source != source and version.ms < result.given_ms * (1 - _GAIN)
    ]
    return [version for version in faster[:2] if version.ms <= faster[0].ms * (1 + _CLOSE)]
