"""The judge of real runs, which evaluates and profiles in processes of their own."""

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from agent.evaluate.options import CALL_SECONDS, EAGER
from agent.evaluate.result import UNCHECKED, Evaluation
from agent.optimize.baselines import BaselineCache, Cached, Key
from agent.optimize.candidate import Baseline, Candidate, Judged, Outcome, Proposal, Stage
from agent.optimize.config import RunConfig
from agent.optimize.events import Standing
from agent.optimize.judge import Confirmation, Profiled, Say
from agent.optimize.judge_main import Describe, Evaluate, TakeProfile
from agent.optimize.judge_process import JudgeError, JudgeLostError, JudgeProcess
from agent.optimize.outcomes import baseline_of, baselines_of, failure, outcome_of, timing_of
from agent.optimize.run import RunFolder, now
from agent.optimize.starting import candidate_of, eager_start
from agent.profile.result import Profile
from kb.errors import InvalidInputError
from kb.gpus import GpuSpec, find_spec

# Compiling a kernel at its first call takes some seconds, for a few tens of them at worst.
_LEAST_CALL_S: Final = 30.0
_SHORT_SESSION: Final = (
    "the last session was a short one, with fewer launches, since GPU time ran out"
)


class GpuJudge:
    """Judges in processes of their own: one for each card, shared out to what is to be judged.

    Without a GPU (`config.interpret`), some processes check in Triton's interpreter.

    Parameters
    ----------
    folder
        The run; evaluations and profiles are kept in it.
    cache
        Of baselines.
    specs
        Cards beside those of `kb.gpus`.
    processes
        How many check at once in a dry run.
    start_process
        Makes a judging process.
    """

    def __init__(
        self,
        folder: RunFolder,
        cache: BaselineCache | None = None,
        specs: Sequence[GpuSpec] = (),
        processes: int = 2,
        start_process: Callable[[], JudgeProcess] = JudgeProcess,
    ) -> None:
        self._folder = folder
        self._config: RunConfig = folder.config
        self._cache = cache or BaselineCache()
        self._specs = specs
        self._make = start_process
        self._all: list[JudgeProcess] = []
        self._free: queue.SimpleQueue[tuple[JudgeProcess, str]] = queue.SimpleQueue()
        self._processes = processes
        self._device = "cpu"
        self._described: dict[str, Any] | None = None

    @property
    def slots(self) -> int:
        """One for each process."""
        self._describe()
        return len(self._all)

    def _describe(self) -> dict[str, Any]:
        """Find the devices, and start a process for each."""
        if self._described is not None:
            return self._described
        config = self._config
        first = self._make()
        self._all.append(first)
        asked = Describe(device=config.device, interpret=config.interpret)
        found = first.ask(asked, lambda _: None)
        devices: list[str] = list(found["devices"])
        if config.interpret:
            devices *= self._processes
        self._device = devices[0]
        self._free.put((first, devices[0]))
        for device in devices[1:]:
            process = self._make()
            self._all.append(process)
            self._free.put((process, device))
        self._described = found
        return found

    def require_same(self, standing: Standing) -> None:
        """Refuse to go on where times cannot be compared with those that are recorded.

        Raises
        ------
        KbError
            Another kind of card, or none.
        """
        gpu = self._describe().get("gpu")
        name = find_spec(gpu, self._specs).name if gpu is not None else None
        if name != standing.gpu:
            raise InvalidInputError(
                f"the run was begun on {standing.gpu or 'no GPU'}, and this is {name or 'none'}: "
                "times of two cards cannot be compared; start a new run from its best kernel with "
                "--kernel"
            )

    @contextmanager
    def _process(self) -> Iterator[tuple[JudgeProcess, str]]:
        """A process and its device, as soon as one is free."""
        self._describe()
        taken = self._free.get()
        try:
            yield taken
        finally:
            self._free.put(taken)

    def standing(self, given: Proposal | None, say: Say) -> Standing:
        """See `Judge.standing`. Baselines come from the cache where they are known."""
        config = self._config
        described = self._describe()
        gpu, versions = described.get("gpu"), dict(described.get("versions", {}))
        spec = find_spec(gpu, self._specs) if gpu is not None else None
        proposal = given or eager_start(config.problem.source)
        start = candidate_of(proposal)
        self._folder.keep(start)
        key = self._key()
        cached = None if key is None or config.fresh_baselines else self._cache.get(key)
        if cached is not None and not set(config.baselines) <= set(cached.asked):
            cached = None
        last = cached is not None or config.baselines_last
        # The start is eager PyTorch itself where none is given: once is enough.
        forms = (EAGER,) if last else self._forms
        evaluation, seconds, compiling = self._evaluate(
            start,
            say,
            baselines=forms if config.given else tuple(each for each in forms if each != EAGER),
            quick=config.strategy.confirm,
        )
        outcome = outcome_of(start, evaluation, gpu_seconds=seconds)
        if not config.given:  # eager PyTorch itself calibrates the judge's clock
            told = tuple(each for each in outcome.disclosures if not each.startswith(UNCHECKED))
            outcome = outcome.model_copy(update={"disclosures": told})
        notes: list[str] = []
        baselines = baselines_of(evaluation)
        itself = timing_of(evaluation, "candidate")
        if itself is not None and not config.given:
            baselines = {EAGER: baseline_of(itself)} | baselines
        if cached is not None:
            notes.append(f"compiled baselines were timed {cached.measured_at} on this kind of card")
            baselines = cached.baselines | baselines
        elif not last and outcome.timed:
            notes += self._kept(evaluation, baselines)
        mine = timing_of(evaluation, "candidate")
        if mine is not None:
            baselines = {"start": baseline_of(mine)} | baselines
        return Standing(
            start=Judged(candidate=start, outcome=outcome),
            baselines=baselines,
            floor=evaluation.floor,
            ceilings=evaluation.ceilings,
            gpu=spec.name if spec else None,
            architecture=spec.architecture if spec else None,
            devices=tuple(described["devices"]),
            versions=versions,
            notes=tuple(notes),
            baseline_seconds=compiling,
        )

    def judge(self, candidate: Candidate, leader: Judged, attempt: int, say: Say) -> Outcome:
        """See `Judge.judge`."""
        # Eager PyTorch is timed anyway; as a kernel file it need not be timed again.
        eager = leader.candidate.round == 0 and not self._config.given
        against = [leader.candidate] if leader.outcome.timed and not eager else []
        try:
            evaluation, seconds, _ = self._evaluate(
                candidate,
                say,
                baselines=(EAGER,),
                against=against,
                quick=self._config.strategy.confirm,
            )
        except JudgeError as error:
            return failure(candidate, Stage.TIME, f"it could not be judged: {error}", attempt)
        except JudgeLostError as error:
            return failure(candidate, Stage.TIME, f"{error} while it judged this", attempt)
        outcome = outcome_of(
            candidate, evaluation, against=("leader",), attempt=attempt, gpu_seconds=seconds
        )
        over = outcome.over(EAGER)
        if eager and over is not None:
            ratios = (*outcome.ratios, over.model_copy(update={"over": "leader"}))
            outcome = outcome.model_copy(update={"ratios": ratios})
        return outcome

    def confirm(
        self, best: Judged, start: Judged, say: Say, *, short: bool = False
    ) -> Confirmation:
        """See `Judge.confirm`."""
        eager = not self._config.given  # a baseline that is the start need not be timed twice
        against = [start.candidate] if start.id != best.id and not eager else []
        itself = eager and start.id == best.id
        beside = tuple(each for each in self._forms if not (itself and each == EAGER))
        evaluation, seconds, compiling = self._evaluate(
            best.candidate, say, baselines=beside, against=against, kind="-confirmed", quick=short
        )
        outcome = outcome_of(best.candidate, evaluation, against=("start",), gpu_seconds=seconds)
        found = baselines_of(evaluation, ("start",))
        over = outcome.over(EAGER)
        mine = timing_of(evaluation, "candidate")
        if itself and mine is not None:
            found = {EAGER: baseline_of(mine)} | found
        if eager and not itself and EAGER in found:
            found["start"] = found[EAGER]
            more = () if over is None else (over.model_copy(update={"over": "start"}),)
            outcome = outcome.model_copy(update={"ratios": (*outcome.ratios, *more)})
        notes = list(outcome.disclosures)
        if outcome.timed and short:
            notes.append(_SHORT_SESSION)
        if outcome.timed:
            forms = {name: each for name, each in found.items() if name != "start"}
            notes += self._kept(evaluation, forms)
        return Confirmation(outcome, found, tuple(notes), compiling)

    @property
    def _call_seconds(self) -> float:
        """Of no call more than a share of what the run has: one that hangs would take it all."""
        most = self._config.limits.gpu_seconds
        return CALL_SECONDS if most is None else min(CALL_SECONDS, max(_LEAST_CALL_S, most / 2))

    @property
    def _forms(self) -> tuple[str, ...]:
        """Baselines that are timed where all of them are: eager calibrates the judge's clock."""
        return tuple(dict.fromkeys((EAGER, *self._config.baselines)))

    def _key(self) -> Key | None:
        """Of this problem's baselines; None where there is no card."""
        config, described = self._config, self._describe()
        gpu, versions = described.get("gpu"), dict(described.get("versions", {}))
        if gpu is None:
            return None
        name = find_spec(gpu, self._specs).name
        return Key.of(config.problem.sha256, config.dtype, name, versions, tf32=config.tf32)

    def _kept(self, evaluation: Evaluation, baselines: dict[str, Baseline]) -> list[str]:
        """Keep times of baselines for other runs; why that is not possible, if so."""
        key = self._key()
        if key is None:
            return []
        before = self._cache.get(key)
        cached = Cached(
            key=key,
            measured_at=now(),
            baselines=(before.baselines if before is not None else {}) | baselines,
            asked=tuple(
                dict.fromkeys((*(before.asked if before is not None else ()), *self._forms))
            ),
            floor=evaluation.floor,
            ceilings=evaluation.ceilings,
        )
        unsaved = self._cache.put(cached)
        return [unsaved] if unsaved else []

    def _evaluate(
        self,
        candidate: Candidate,
        say: Say,
        *,
        baselines: tuple[str, ...],
        against: Sequence[Candidate] = (),
        kind: str = "",
        quick: bool = False,
    ) -> tuple[Evaluation, float, float]:
        """The evaluation, seconds on the GPU, and seconds in which baselines compiled."""
        config, folder = self._config, self._folder
        with self._process() as (process, device):
            answer = process.ask(
                Evaluate(
                    problem=str(folder.problem_path.resolve()),
                    kernel=str(folder.keep(candidate).resolve()),
                    device=device,
                    dtype=config.dtype,
                    tf32=config.tf32,
                    interpret=config.interpret,
                    trust=config.trust,
                    against=tuple(str(folder.keep(each).resolve()) for each in against),
                    baselines=baselines,
                    quick=quick,
                    call_seconds=self._call_seconds,
                ),
                say,
            )
        evaluation = Evaluation.model_validate(answer["evaluation"])
        folder.keep_evaluation(candidate.id, evaluation, kind)
        return evaluation, float(answer["gpu_seconds"]), float(answer["baseline_seconds"])

    def profile(self, candidate: Candidate, say: Say) -> Profiled:
        """See `Judge.profile`."""
        config = self._config
        if config.interpret:
            return Profiled(None, ("nothing is profiled in a dry run",))
        try:
            with self._process() as (process, device):
                answer = process.ask(
                    TakeProfile(
                        problem=str(self._folder.problem_path.resolve()),
                        kernel=str(self._folder.keep(candidate).resolve()),
                        device=device,
                        dtype=config.dtype,
                        tf32=config.tf32,
                    ),
                    say,
                )
        except (JudgeError, JudgeLostError) as error:
            return Profiled(None, (f"not profiled: {error}",))
        profile = Profile.model_validate(answer["profile"])
        self._folder.keep_profile(candidate.id, profile)
        metrics = profile.metrics or None
        return Profiled(metrics, profile.notes, float(answer["gpu_seconds"]))

    def cancel(self) -> None:
        """End all processes."""
        for process in self._all:
            process.cancel()

    def close(self) -> None:
        """End all processes."""
        for process in self._all:
            process.close()
