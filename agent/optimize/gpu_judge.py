"""The judge of real runs. It evaluates and profiles in separate processes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from agent.optimize.baselines import BaselineCache, CacheEntry, CacheKey
from agent.optimize.candidate import Baseline, Candidate, Judged, Outcome, Proposal, Stage
from agent.optimize.config import RunConfig
from agent.optimize.events import Standing
from agent.optimize.judge import WHOLE, Allowance, Confirmation, ProfileResult
from agent.optimize.judge_pool import JudgePool
from agent.optimize.judge_process import JudgeError, JudgeLostError
from agent.optimize.judge_requests import Evaluate, EvaluationReply, TakeProfile
from agent.optimize.outcomes import baseline_of, baselines_of, failure, outcome_of, timing_of
from agent.optimize.run import RunFolder, now
from agent.optimize.starting import eager_start, start_candidate
from judge.evaluate.options import CALL_SECONDS, COMPILE_SECONDS, EAGER
from judge.progress import Say
from kb.errors import InvalidInputError
from kb.gpus import GpuSpec, find_spec

# Compiling a kernel at its first call takes some seconds, for a few tens of them at worst.
_MIN_CALL_S: Final = 30.0
_SHORT_SESSION: Final = "the last session was short, with fewer launches, because GPU time ran out"


@dataclass(eq=False)
class GpuJudge:
    """Judges candidates in one process per GPU.

    Without a GPU (`config.interpret`), some processes check in Triton's interpreter.
    """

    folder: RunFolder
    """The run; evaluations and profiles are kept in it."""
    pool: JudgePool
    """The processes; they end with this."""
    cache: BaselineCache = field(default_factory=BaselineCache)
    specs: Sequence[GpuSpec] = ()
    """Cards beside those of `kb.gpus`."""

    @property
    def _config(self) -> RunConfig:
        return self.folder.config

    @property
    def slots(self) -> int:
        """One for each process."""
        return self.pool.size

    def require_same(self, standing: Standing) -> None:
        """Refuse to go on where times cannot be compared with those that are recorded.

        Raises
        ------
        KbError
            Another kind of card, or none.
        """
        name = self._spec.name if self._spec is not None else None
        if name != standing.gpu:
            raise InvalidInputError(
                f"the run began on {standing.gpu or 'no GPU'}, but this is {name or 'none'}: times "
                "of different GPUs cannot be compared; start a new run from its best kernel with "
                "--kernel"
            )

    def judge_start(self, kernel: Proposal | None, say: Say) -> Standing:
        """See `Judge.judge_start`. Baselines come from the cache where they are known."""
        config, host, spec = self._config, self.pool.describe(), self._spec
        start = start_candidate(kernel or eager_start(config.problem.source))
        key = self._cache_key()
        entry = None if key is None or config.fresh_baselines else self.cache.get(key)
        if entry is not None and not set(config.baselines) <= set(entry.asked):
            entry = None
        deferred = entry is not None or config.baselines_last
        # The start is eager PyTorch itself where none is given: once is enough.
        forms = (EAGER,) if deferred else self._forms
        reply = self._evaluate(
            start,
            say,
            baselines=forms if config.given else tuple(form for form in forms if form != EAGER),
            quick=config.strategy.confirm,
            compile_seconds=self._compile_seconds,
        )
        evaluation = reply.evaluation
        if not config.given:  # eager PyTorch itself calibrates the judge's clock
            evaluation = evaluation.model_copy(update={"calibrated": True})
        outcome = outcome_of(start, evaluation, gpu_seconds=reply.gpu_seconds)
        notes: list[str] = []
        baselines = baselines_of(evaluation)
        timing = timing_of(evaluation)
        if timing is not None and not config.given:
            baselines = {EAGER: baseline_of(timing)} | baselines
        if entry is not None:
            notes.append(f"compiled baselines were timed {entry.measured_at} on this kind of GPU")
            baselines = entry.baselines | baselines
        elif not deferred and outcome.timed:
            notes += self._cache_baselines(baselines, self._compile_seconds)
        if timing is not None:
            baselines = {"start": baseline_of(timing)} | baselines
        return Standing(
            start=Judged(candidate=start, outcome=outcome),
            baselines=baselines,
            floor=evaluation.floor,
            ceilings=evaluation.ceilings,
            gpu=spec.name if spec else None,
            architecture=spec.architecture if spec else None,
            devices=host.devices,
            versions=host.versions,
            notes=tuple(notes),
            baseline_seconds=reply.baseline_seconds,
        )

    def unmeasured_start(self, kernel: Proposal | None) -> Standing:
        """See `Judge.unmeasured_start`."""
        config = self._config
        start = start_candidate(kernel or eager_start(config.problem.source))
        return Standing(
            start=Judged(candidate=start, outcome=Outcome(candidate=start.id, stage=Stage.DONE)),
            measured=False,
            gpu=config.gpu,
            architecture=config.architecture,
        )

    def judge(self, candidate: Candidate, leader: Judged, attempt: int, say: Say) -> Outcome:
        """See `Judge.judge`."""
        # Eager PyTorch is timed anyway; as a kernel file it need not be timed again.
        eager = leader.candidate.round == 0 and not self._config.given
        against = [leader.candidate] if leader.outcome.timed and not eager else []
        try:
            reply = self._evaluate(
                candidate,
                say,
                baselines=(EAGER,),
                against=against,
                quick=self._config.strategy.confirm,
            )
        except JudgeError as error:
            return failure(candidate, Stage.TIME, f"it could not be judged: {error}", attempt)
        except JudgeLostError as error:
            return failure(candidate, Stage.TIME, f"{error} while judging this", attempt)
        outcome = outcome_of(
            candidate,
            reply.evaluation,
            against=("leader",),
            attempt=attempt,
            gpu_seconds=reply.gpu_seconds,
        )
        return outcome.same_over(EAGER, "leader") if eager else outcome

    def confirm(
        self, best: Judged, start: Judged, say: Say, allowance: Allowance = WHOLE
    ) -> Confirmation:
        """See `Judge.confirm`."""
        eager = not self._config.given  # a baseline that is the start need not be timed twice
        against = [start.candidate] if start.id != best.id and not eager else []
        is_start = eager and start.id == best.id
        contenders = tuple(form for form in self._forms if not (is_start and form == EAGER))
        reply = self._evaluate(
            best.candidate,
            say,
            baselines=contenders,
            against=against,
            kind="-confirmed",
            quick=allowance.short,
            compile_seconds=allowance.compile_seconds,
        )
        evaluation, seconds = reply.evaluation, reply.gpu_seconds
        outcome = outcome_of(best.candidate, evaluation, against=("start",), gpu_seconds=seconds)
        baselines = baselines_of(evaluation, ("start",))
        timing = timing_of(evaluation)
        if is_start and timing is not None:
            baselines = {EAGER: baseline_of(timing)} | baselines
        if eager and not is_start and EAGER in baselines:
            baselines["start"] = baselines[EAGER]
            outcome = outcome.same_over(EAGER, "start")
        notes = list(outcome.disclosures)
        if outcome.timed and allowance.short:
            notes.append(_SHORT_SESSION)
        if outcome.timed:
            forms = {name: baseline for name, baseline in baselines.items() if name != "start"}
            notes += self._cache_baselines(forms, allowance.compile_seconds)
        return Confirmation(outcome, baselines, tuple(notes), reply.baseline_seconds)

    @property
    def _call_seconds(self) -> float:
        """Time limit of one call: half of the run's GPU time, so that a hang cannot use it all."""
        limit = self._config.limits.gpu_seconds
        return CALL_SECONDS if limit is None else min(CALL_SECONDS, max(_MIN_CALL_S, limit / 2))

    @property
    def _compile_seconds(self) -> float:
        """Of baselines at the start: half of the run's time, so that the rest is searched in."""
        limit = self._config.limits.seconds
        return COMPILE_SECONDS if limit is None else min(COMPILE_SECONDS, limit / 2)

    @property
    def _forms(self) -> tuple[str, ...]:
        """All baselines of a full session. Eager is always one: it calibrates the judge's clock."""
        return tuple(dict.fromkeys((EAGER, *self._config.baselines)))

    @property
    def _spec(self) -> GpuSpec | None:
        """The card; None without one."""
        gpu = self.pool.describe().gpu
        return find_spec(gpu, self.specs) if gpu is not None else None

    def _cache_key(self) -> CacheKey | None:
        """Cache key of this problem's baselines; None without a GPU."""
        if self._spec is None:
            return None
        return CacheKey.of(self._config, self._spec.name, self.pool.describe().versions)

    def _cache_baselines(self, baselines: dict[str, Baseline], seconds: float) -> list[str]:
        """Cache the times of baselines, which had so many seconds to compile, for other runs; a
        note if that fails."""
        key = self._cache_key()
        if key is None:
            return []
        # What had not compiled within a limit may do so in another run.
        attempted = self._forms if seconds >= COMPILE_SECONDS else tuple(baselines)
        previous = self.cache.get(key) or CacheEntry(key=key, measured_at=now(), baselines={})
        entry = CacheEntry(
            key=key,
            measured_at=now(),
            baselines=previous.baselines | baselines,
            asked=tuple(dict.fromkeys((*previous.asked, *attempted))),
        )
        note = self.cache.put(entry)
        return [note] if note else []

    def _evaluate(
        self,
        candidate: Candidate,
        say: Say,
        *,
        baselines: tuple[str, ...],
        against: Sequence[Candidate] = (),
        kind: str = "",
        quick: bool = False,
        compile_seconds: float = COMPILE_SECONDS,
    ) -> EvaluationReply:
        folder = self.folder
        with self.pool.lend() as (process, device):
            request = Evaluate.like(
                self._config,
                problem=folder.problem_path.resolve(),
                kernel=folder.keep_candidate(candidate).resolve(),
                device=device,
                against=tuple(folder.keep_candidate(other).resolve() for other in against),
                baselines=baselines,
                quick=quick,
                call_seconds=self._call_seconds,
                compile_seconds=compile_seconds,
            )
            reply = process.ask(request, say)
        folder.keep_evaluation(candidate.id, reply.evaluation, kind)
        return reply

    def profile(self, candidate: Candidate, say: Say) -> ProfileResult:
        """See `Judge.profile`."""
        if self._config.interpret:
            return ProfileResult(None, ("nothing is profiled in a dry run",))
        try:
            with self.pool.lend() as (process, device):
                request = TakeProfile.like(
                    self._config,
                    problem=self.folder.problem_path.resolve(),
                    kernel=self.folder.keep_candidate(candidate).resolve(),
                    device=device,
                    trust=True,  # it was judged, and the profiler works under fewer layers
                )
                reply = process.ask(request, say)
        except (JudgeError, JudgeLostError) as error:
            return ProfileResult(None, (f"not profiled: {error}",))
        self.folder.keep_profile(candidate.id, reply.profile)
        return ProfileResult(reply.profile.metrics or None, reply.profile.notes, reply.gpu_seconds)

    def cancel(self) -> None:
        """End all processes."""
        self.pool.cancel()

    def close(self) -> None:
        """End all processes."""
        self.pool.close()
