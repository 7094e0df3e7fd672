"""One evaluation on its way: shape by shape, case by case, until it is clear what the kernel is."""

import contextlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from judge.evaluate import cases, neighbours
from judge.evaluate.cases import OF_INTEGERS, SEED_BITS, PlannedCase, PlannedShape
from judge.evaluate.contest import Contest, Entrant
from judge.evaluate.correctness import Contestant
from judge.evaluate.enlarge import CALL_SECONDS, MOST_ACCESSES, Enlargement, LoopCounts
from judge.evaluate.faults import ProblemFaultError
from judge.evaluate.floor import StructuralZeros
from judge.evaluate.options import Options
from judge.evaluate.power import Power, why_unproven, with_extra_cases
from judge.evaluate.prepared import Outcome, Prepared
from judge.evaluate.result import RIGHT, Ceilings, TimingReport
from judge.evaluate.session import Session, Worker, WorkerError
from judge.evaluate.sets import SizesVaryError
from judge.evaluate.stage import Settings, Stage
from judge.evaluate.tolerance import loosen
from judge.evaluate.verdict import (
    INTERPRETED_BFLOAT16,
    Evidence,
    decide,
    describe,
    is_wrong,
    require_exact,
)
from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.problem.variants import why_none
from judge.progress import Progress, Say, Step
from judge.sandbox.layers import Layer, require_layers
from judge.worker.messages import ValueKind, is_device_error
from kb.errors import KbError

# After so many cases of a shape in which the problem itself raises, and none that runs, no more.
_SAME_FAILURES = 2


@dataclass(slots=True)
class Trial:
    """State of one evaluation; `judge.evaluate` reads the results off it."""

    problem: ProblemFile
    device: str
    options: Options
    say: Say
    rivals: Sequence[Entrant] = ()
    ceilings: Ceilings | None = None
    """Measured before; None: to be measured."""
    evidence: Evidence = field(default_factory=Evidence)
    notes: list[str] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    oracle: str = ""
    report: TimingReport | None = None
    settings: Settings = field(init=False)
    _session: Session = field(init=False)
    _kernel: KernelFile = field(init=False)
    _worker: Worker = field(init=False)
    """The problem's."""
    _contestant: Contestant = field(init=False)
    _zeros: StructuralZeros = field(default_factory=StructuralZeros)
    _broken: bool = False
    """The problem's worker is of no use any more."""
    _unloadable: bool = False
    """The kernel could not be loaded at a smaller shape: the next one is the given shape."""

    def __post_init__(self) -> None:
        self.settings = Settings(
            device=self.device,
            dtype=self.options.dtype,
            precision=self.options.precision,
            model_seed=secrets.randbits(SEED_BITS),
            refill_seed=secrets.randbits(SEED_BITS),
            declaration=self.problem.judge,
        )

    def run(self, session: Session, kernel: KernelFile) -> None:
        """All cases, the judge's power, and the times of a kernel that is right.

        Raises
        ------
        KbError
            The problem fails at its own shape, or the sandbox is incomplete.
        """
        options, evidence = self.options, self.evidence
        self._session, self._kernel = session, kernel
        shapes = cases.plan(self.problem, seeds=options.seeds, tiny=options.interpret)
        if only := why_none(self.problem):
            self.notes.append(only)
        evidence.device = self.device
        self.say(Progress("starting workers", Step.HOLD))
        self._worker = self._problem_worker(shapes[0])
        shapes = self._buildable_shapes(shapes)
        shapes = shapes or [cases.given(self.problem, seeds=options.seeds)]
        evidence.given_shape = any(shape.label == "full" for shape in shapes)
        if not evidence.given_shape:
            self.notes.append("checked at reduced sizes only, in Triton's interpreter")
        contestant = self._contestant = Contestant(
            session.worker("candidate"), kernel, self.settings, call_seconds=options.call_seconds,
            hide=self.device == "cpu",
        )  # fmt: skip
        # No smaller shape was to be had: the given one may be too much for the interpreter.
        contestant.may_be_slow = options.interpret and shapes[0].label == "full"
        evidence.observations = contestant.observations
        # What a mistake would do is shown where it counts: a kernel can tell shapes apart.
        power, smaller = Power("given" if evidence.given_shape else "reduced"), Power("smaller")
        stage = None
        try:
            for shape in shapes:
                if self._unloadable and shape.label != "full":
                    continue
                if shape.spare and why_unproven(smaller.checks()) is None:
                    continue
                if self._broken:  # by values that are none of the problem's
                    self._worker.stop()
                    self._worker = self._problem_worker(shape)
                    self._broken = False
                stage = self._stage(shape)
                shows = shape.label == "full" or not evidence.given_shape
                self._cases(stage, power if shows else smaller, decides=shows)
                if self._is_decided():
                    break
            if options.interpret:
                self._enlarge()
        except ProblemFaultError as error:
            evidence.machine_faults.append(str(error))
        require_exact(evidence.outcomes)
        evidence.power, evidence.smaller = power.checks(), smaller.checks()
        contestant.worker.stop()
        if stage is not None and self._worth_timing(stage):
            try:
                self._time(stage)
            except ProblemFaultError as error:
                evidence.machine_faults.append(str(error))

    def _enlarge(self) -> None:
        """Larger shapes: while a loop of the kernel turned less than twice at all so far, and long.

        Where the given shape was judged, they tell of other sizes, and need not be had.
        """
        if self._is_decided():
            return
        contestant, outcomes = self._contestant, self.evidence.outcomes
        contestant.may_be_slow = True
        contestant.call_seconds = min(contestant.call_seconds, CALL_SECONDS)

        def progress() -> LoopCounts:
            judged = sum(outcome.case.counted and not outcome.case.refused for outcome in outcomes)
            shape = outcomes[-1].case.constants
            return replace(contestant.counts, constants=shape, judged=judged)

        larger = Enlargement(self.problem, self._kernel.text, progress, self.evidence.given_shape)
        for planned in larger.shapes(secret=secrets.randbits(SEED_BITS - 1)):
            contestant.most_accesses = MOST_ACCESSES if larger.long else None
            for shape in self._buildable_shapes([planned]):
                first = len(outcomes)
                self._cases(self._stage(shape), None)
                for outcome in outcomes[first:]:
                    if outcome.case.refused and larger.long:
                        # Longer than what its loops wanted: no shape that it has to take.
                        outcome.note(counted=False, refused=False, why_not=outcome.case.problem)
                    elif outcome.case.refused:
                        larger.why_not_all = "the kernel declines larger shapes"
            if self._broken or not contestant.worker.alive:
                reason = f"larger shapes take more than {CALL_SECONDS:.0f} s"
                larger.why_not_all = "the reference cannot run them" if self._broken else reason
                break
            if self._is_decided():
                return
        if untested := larger.describe_untested():
            decides = larger.why_not_all and not self.evidence.given_shape
            (self.evidence.untested if decides else self.notes).append(untested)

    def _buildable_shapes(self, shapes: Sequence[PlannedShape]) -> list[PlannedShape]:
        """The shapes at which the problem can be built, found before any kernel runs.

        A shape is dropped here or not at all: later, what fails may fail for a reason that the
        kernel's process brought about.
        """
        feasible = []
        for shape in shapes:
            try:
                if shape.label != "full":
                    self._worker.use_variant(shape.source, seed=self.settings.model_seed)
                    self._worker.describe_inputs(0)
            except WorkerError as error:
                case = cases.uncalled_case(
                    shape, ValueKind.GIVEN, why_not=f"the problem cannot have this shape: {error}"
                )
                self.evidence.outcomes.append(Outcome(case))
                if not self._worker.alive or is_device_error(str(error)):
                    self._worker.stop()
                    self._worker = self._problem_worker(shapes[-1])
            else:
                feasible.append(shape)
        return feasible

    def _problem_worker(self, shape: PlannedShape) -> Worker:
        worker = self._session.worker("problem")
        self.layers = self._session.layers
        if missing := require_layers(self.layers, trust=self.options.trust):
            self._note(f"ran with --trust although the sandbox lacks: {'; '.join(missing)}")
        # At a proposed shape, since the given one may be too much for an interpreter's CPU; the
        # problem is at fault only if it cannot be built as it is.
        for source in dict.fromkeys((shape.source, self.problem.text)):
            try:
                self.settings.load_problem(worker, source)
            except WorkerError as error:
                if source == self.problem.text:
                    raise KbError(f"{self.problem.name} cannot be run: {error}") from None
                worker.stop()
                worker = self._session.worker("problem")
            else:
                break
        return worker

    def _stage(self, shape: PlannedShape) -> Stage:
        """The problem at one shape."""
        try:
            return Stage(self._worker, shape, self.settings)
        except WorkerError as error:
            if shape.label == "full":
                raise KbError(f"{self.problem.name} cannot be run: {error}") from None
            raise ProblemFaultError(
                f"the reference worked at the {shape.label} shape before the kernel ran, but now "
                f"fails: {error}"
            ) from None

    def _cases(self, stage: Stage, power: Power | None, *, decides: bool = False) -> None:
        """All cases of one shape, until one is wrong."""
        shape, contestant = stage.shape, self._contestant
        self.say(Progress(f"checking the {shape.label} shape{shape.changed_constants}"))
        try:
            contestant.load(stage)
        except WorkerError as error:
            self._record_load_failure(error, shape)
            return
        has_floats = None
        runs: list[bool] = []
        # One case of a spare shape may miss what the shape is there for.
        for planned in with_extra_cases(shape, power if decides or shape.spare else None):
            if has_floats is False and planned.kind not in OF_INTEGERS:
                continue
            try:
                prepared = stage.prepare(planned.kind, planned.seed)
            except WorkerError as error:
                if shape.label == "full":
                    raise
                self._require_repeat(stage, planned, type(error).__name__)
                why_not = f"the reference fails: {error}"
                self.evidence.outcomes.append(
                    Outcome(cases.uncalled_case(shape, planned.kind, why_not=why_not))
                )
                self._broken = True
                return
            if prepared.error_type:
                self._require_repeat(stage, planned, prepared.error_type)
            runs.append(not prepared.error_type)
            self._broken = stage.broken
            self._note_of(stage, prepared, planned)
            has_floats = any(
                input_.tensor is not None and "float" in input_.tensor.dtype
                for input_ in prepared.inputs
            )
            outcome = contestant.run(stage, prepared, planned)
            if neighbours.widen(stage, prepared, outcome.case):
                again = contestant.run(stage, prepared, planned)
                outcome = outcome if again.case.counted and not again.case.passed else again
            self.evidence.outcomes.append(outcome)
            case = outcome.case
            message = "ok" if case.passed else case.problem or f"does not count: {case.why_not}"
            self.say(Progress(f"{describe(case)}: {message}"))
            # It is the shape that the problem cannot have, not the values.
            infeasible = len(runs) >= _SAME_FAILURES and not any(runs) and shape.label != "full"
            if self._is_decided() or infeasible:
                return
            if outcome.case.counted:
                if power is not None and not power.complete:
                    power.examine(stage, prepared)
                    stage.forget_mistakes()
                self._look_for_zeros(shape, prepared)

    def _note_of(self, stage: Stage, prepared: Prepared, planned: PlannedCase) -> None:
        """What a prepared case says of the problem and its oracle."""
        if planned.loose:
            prepared.limits = [loosen(limit) for limit in prepared.limits]
        self._note(prepared.eager_error)
        self._note(stage.redrawn)
        if self.options.interpret and stage.computes_in("bfloat16", prepared):
            self.evidence.value_caveat = INTERPRETED_BFLOAT16
        self.evidence.eager = self.evidence.eager or stage.observed
        self.oracle = "nvfp4" if self.problem.judge.rule else stage.oracle_precision
        if stage.why_float32:
            self._note(f"the oracle is in float32, not float64: {stage.why_float32}")

    def _note(self, note: str | None) -> None:
        """Disclose something once."""
        if note and note not in self.notes:
            self.notes.append(note)

    def _require_repeat(self, stage: Stage, planned: PlannedCase, failure: str) -> None:
        """Raise ProblemFaultError unless a fresh process fails alike while the kernel's stands
        still.
        """
        self._contestant.worker.pause()
        retry: str | None
        try:
            with contextlib.ExitStack() as stack:
                worker = self._problem_worker(stage.shape)
                stack.callback(worker.stop)
                fresh_stage = Stage(worker, stage.shape, self.settings)
                retry = fresh_stage.prepare(planned.kind, planned.seed).error_type
        except WorkerError as error:
            retry = type(error).__name__
        finally:
            self._contestant.worker.resume()
        if retry != failure:
            raise ProblemFaultError(
                f"the reference failed ({failure}) while the kernel's process ran, but alone it "
                f"{f'failed otherwise ({retry})' if retry else 'ran'}: the kernel cannot be judged"
            )

    def _record_load_failure(self, error: WorkerError, shape: PlannedShape) -> None:
        problem = f"it cannot be loaded: {error.error_text}"
        fault = error.fault.model_copy(update={"compiling": True})
        if shape.label == "full" or not self._contestant.worker.alive:
            self.evidence.wrong.append(problem)
            self.evidence.faults.append(fault)
            return
        self._unloadable = True
        case = cases.uncalled_case(shape, ValueKind.GIVEN, problem=problem)
        self.evidence.outcomes.append(Outcome(case.model_copy(update={"fault": fault})))

    def _is_decided(self) -> bool:
        """Whether further cases change nothing."""
        evidence, alive = self.evidence, self._contestant.worker.alive
        wrong = any(is_wrong(outcome.case) or outcome.cheats for outcome in evidence.outcomes)
        return bool(evidence.wrong) or not alive or (wrong and not evidence.is_own_model)

    def _look_for_zeros(self, shape: PlannedShape, prepared: Prepared) -> None:
        """Zeros that stay for all inputs are no work: the floor says so."""
        if shape.label != "full" or not self.options.timing or prepared.reference is None:
            return
        if prepared.kind in (ValueKind.GIVEN, ValueKind.NORMAL):
            expected = prepared.reference.expected
            self._zeros.add([tensor.values for tensor in expected if tensor is not None])

    def _worth_timing(self, stage: Stage) -> bool:
        """Times of a kernel that is wrong, or may be, are worth nothing."""
        if not self.options.timing or self.options.interpret or stage.shape.label != "full":
            return False
        return decide(self.evidence).verdict in RIGHT

    def _time(self, stage: Stage) -> None:
        contest = Contest(
            session=self._session, stage=stage, options=self.options, say=self.say,
            evidence=self.evidence, entrants=[Entrant("candidate", self._kernel), *self.rivals],
            seeds=[secrets.randbits(SEED_BITS) for _ in range(2)],
            zero_fraction=self._zeros.fraction, ceilings=self.ceilings,
        )  # fmt: skip
        try:
            self.report = contest.run()
        except SizesVaryError as error:
            contest.notes.append(str(error))
        self.notes += contest.notes
        timings = () if self.report is None else self.report.timings
        if self.report is not None:
            self.evidence.wrong += self.report.wrong
            self.evidence.cheats += self.report.cheats
        if all(timing.contender != "candidate" for timing in timings):
            reasons = self.evidence.wrong or contest.notes or ["none of its launches was timed"]
            self.evidence.why_untimed = reasons[-1]
