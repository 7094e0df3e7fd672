"""One evaluation on its way: shape by shape, case by case, until it is clear what the kernel is."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field

from agent.evaluate.bench import Bench, Desk
from agent.evaluate.cases import PlannedShape, plan
from agent.evaluate.contest import Contest, Entrant
from agent.evaluate.correctness import Contestant, Outcome
from agent.evaluate.floor import StructuralZeros
from agent.evaluate.options import Options, Say
from agent.evaluate.power import Power
from agent.evaluate.result import RIGHT, Case, Ceilings, TimingReport
from agent.evaluate.session import CommandFailedError, WorkerError
from agent.evaluate.stage import Prepared, Settings, Stage, is_device_error
from agent.evaluate.verdict import Evidence, decide, describe, is_wrong, require_exact
from agent.problem.kernel import KernelFile
from agent.problem.source import ProblemFile
from agent.problem.variants import why_none
from agent.sandbox.layers import Layer, missing
from agent.worker.messages import ValueKind
from kb.errors import KbError

_SEED_BITS = 62
# A mask of zeros takes a byte an element.
_MOST_MASKED = 1 << 31
# Seen in Triton 3.9: its interpreter keeps bfloat16 as bits and computes with them as integers.
_INTERPRETED_BFLOAT16 = (
    "Triton's interpreter computes wrongly in bfloat16: check with --dtype float16 or float32, or "
    "on a GPU, unless the kernel converts to float32 first"
)
# Kinds that make sense where no input has values to choose.
_OF_INTEGERS = (ValueKind.GIVEN, ValueKind.NORMAL)


class IncompleteSandboxError(KbError):
    """Code that is not trusted may not run here."""

    status = 503


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
    _zeros: StructuralZeros = field(default_factory=StructuralZeros)
    _broken: bool = False
    """The problem's worker is of no use any more."""
    _unloadable: bool = False
    """The kernel could not be loaded at a smaller shape: the next one is the given shape."""

    def run(self, bench: Bench, kernel: KernelFile) -> None:
        """All cases, the judge's power, and the times of a kernel that is right.

        Raises
        ------
        KbError
            The problem fails at its own shape, or the sandbox is incomplete.
        """
        options, evidence = self.options, self.evidence
        settings = Settings(
            device=self.device,
            dtype=options.dtype,
            precision=options.precision,
            model_seed=secrets.randbits(_SEED_BITS),
            refill_seed=secrets.randbits(_SEED_BITS),
            declaration=self.problem.judge,
        )
        shapes = plan(self.problem, seeds=options.seeds, tiny=options.interpret)
        if only := why_none(self.problem):
            self.notes.append(only)
        evidence.device = self.device
        evidence.given_shape = any(each.label == "full" for each in shapes)
        if not evidence.given_shape:
            self.notes.append("checked at reduced sizes only, in Triton's interpreter")
        if options.interpret and "bfloat16" in f"{options.dtype} {self.problem.text}":
            evidence.untold = _INTERPRETED_BFLOAT16
        self.say("starting workers")
        desk = self._problem_desk(bench, shapes[0], settings)
        contestant = Contestant(
            bench.start("candidate"), kernel, settings, call_seconds=options.call_seconds
        )
        evidence.observations = contestant.observations
        # What a mistake would do is shown where it counts: a kernel can tell shapes apart.
        power = Power("given" if evidence.given_shape else "reduced")
        stage = None
        for shape in shapes:
            if self._unloadable and shape.label != "full":
                continue
            if self._broken:  # by a shape that was none of the problem's
                desk.close()
                desk = self._problem_desk(bench, shape, settings)
                self._broken = False
            stage = self._stage(desk, shape, settings)
            if stage is None:
                continue
            shows = shape.label == "full" or not evidence.given_shape
            self._cases(stage, contestant, power if shows else None)
            if self._decided(contestant):
                break
        require_exact(evidence.outcomes)
        evidence.power = power.checks()
        contestant.desk.close()
        if stage is not None and self._worth_timing(stage):
            self._time(bench, stage, settings, kernel)

    def _problem_desk(self, bench: Bench, shape: PlannedShape, settings: Settings) -> Desk:
        desk = bench.start("problem")
        self.layers = bench.layers
        self._require_sandbox()
        # At a proposed shape, since the given one may be too much for an interpreter's CPU; the
        # problem is at fault only if it cannot be built as it is.
        for source in dict.fromkeys((shape.source, self.problem.text)):
            try:
                desk.worker.load_problem(
                    source,
                    device=self.device,
                    dtype=settings.dtype,
                    precision=settings.precision,
                    seed=settings.model_seed,
                )
            except WorkerError as error:
                if source == self.problem.text:
                    raise KbError(f"{self.problem.name} cannot be run: {error}") from None
                desk.close()
                desk = bench.start("problem")
            else:
                break
        return desk

    def _require_sandbox(self) -> None:
        lacking = missing(self.layers)
        if not lacking:
            return
        if not self.options.trust:
            raise IncompleteSandboxError(
                f"the sandbox lacks: {'; '.join(lacking)}; run with --trust if you know where "
                "problem and kernel come from"
            )
        self.notes.append(f"ran with --trust although the sandbox lacks: {'; '.join(lacking)}")

    def _stage(self, desk: Desk, shape: PlannedShape, settings: Settings) -> Stage | None:
        """The problem at one shape; None where a proposed shape is none of the operator's."""
        try:
            return Stage(desk, shape, settings)
        except WorkerError as error:
            if shape.label == "full":
                raise KbError(f"{self.problem.name} cannot be run: {error}") from None
            self._broken = not desk.worker.alive or is_device_error(str(error))
            case = _case(shape, ValueKind.GIVEN, why_not=f"no shape of this problem: {error}")
            self.evidence.outcomes.append(Outcome(case))
            return None

    def _cases(self, stage: Stage, contestant: Contestant, power: Power | None) -> None:
        """All cases of one shape, until one is wrong."""
        shape = stage.shape
        self.say(f"checking the {shape.label} shape" + _constants(shape))
        try:
            contestant.load(stage)
        except WorkerError as error:
            self._not_loaded(error, shape, contestant)
            return
        chosen = None
        for planned in shape.cases:
            if chosen is False and planned.kind not in _OF_INTEGERS:
                continue
            try:
                prepared = stage.prepare(planned.kind, planned.seed)
            except WorkerError as error:
                if shape.label == "full":
                    raise
                why_not = f"the problem itself fails: {error}"
                self.evidence.outcomes.append(Outcome(_case(shape, planned.kind, why_not=why_not)))
                self._broken = True
                return
            self._broken = stage.broken
            self.evidence.eager = self.evidence.eager or stage.observed
            self.oracle = "nvfp4" if self.problem.judge.rule else stage.oracle_precision
            if stage.why_float32:
                said = f"the oracle is in float32, not float64: {stage.why_float32}"
                self.notes += [] if said in self.notes else [said]
            chosen = any(
                each.tensor is not None and "float" in each.tensor.dtype for each in prepared.inputs
            )
            outcome = contestant.run(stage, prepared, planned)
            self.evidence.outcomes.append(outcome)
            self._tell(outcome)
            if self._decided(contestant):
                return
            if outcome.case.counted:
                if power is not None and not power.complete:
                    power.examine(stage, prepared)
                    stage.forget_mistakes()
                self._look_for_zeros(shape, prepared)

    def _not_loaded(self, error: WorkerError, shape: PlannedShape, contestant: Contestant) -> None:
        told = (
            f"{error.kind}: {error.message}"
            if isinstance(error, CommandFailedError)
            else str(error)
        )
        if shape.label == "full" or not contestant.worker.alive:
            self.evidence.wrong.append(f"it cannot be loaded: {told}")
            return
        self._unloadable = True
        case = _case(shape, ValueKind.GIVEN, problem=f"it cannot be loaded: {told}")
        self.evidence.outcomes.append(Outcome(case))

    def _decided(self, contestant: Contestant) -> bool:
        """Whether further cases change nothing."""
        evidence = self.evidence
        return (
            bool(evidence.wrong)
            or not contestant.worker.alive
            or any(is_wrong(each.case) or each.cheats for each in evidence.outcomes)
        )

    def _tell(self, outcome: Outcome) -> None:
        case = outcome.case
        said = "ok" if case.passed else (case.problem or f"does not count: {case.why_not}")
        self.say(f"{describe(case)}: {said}")

    def _look_for_zeros(self, shape: PlannedShape, prepared: Prepared) -> None:
        """Zeros that stay for all inputs are no work: the floor says so."""
        if shape.label != "full" or not self.options.timing or prepared.reference is None:
            return
        values = [each.values for each in prepared.reference.expected if each is not None]
        random = prepared.kind in (ValueKind.GIVEN, ValueKind.NORMAL)
        if values and random and sum(each.numel() for each in values) <= _MOST_MASKED:
            self._zeros.add(values)

    def _worth_timing(self, stage: Stage) -> bool:
        """Times of a kernel that is wrong, or may be, are worth nothing."""
        if not self.options.timing or self.options.interpret or stage.shape.label != "full":
            return False
        return decide(self.evidence).verdict in RIGHT

    def _time(self, bench: Bench, stage: Stage, settings: Settings, kernel: KernelFile) -> None:
        contest = Contest(
            bench=bench,
            stage=stage,
            settings=settings,
            entrants=[Entrant("candidate", kernel), *self.rivals],
            baselines=self.options.baselines,
            seeds=[secrets.randbits(_SEED_BITS) for _ in range(2)],
            call_seconds=self.options.call_seconds,
            say=self.say,
            zero_fraction=self._zeros.fraction,
            quick=self.options.quick,
            ceilings=self.ceilings,
        )
        self.report = contest.run()
        self.notes += contest.notes
        self.evidence.wrong += contest.wrong
        self.evidence.cheats += contest.cheats
        if self.report is not None:
            self.evidence.wrong += self.report.wrong
            self.evidence.cheats += self.report.cheats


def _case(
    shape: PlannedShape, kind: ValueKind, *, why_not: str | None = None, problem: str | None = None
) -> Case:
    """A case that came to no call."""
    return Case(
        shape=shape.label,
        kind=kind.value,
        seed_index=0,
        constants=dict(shape.constants),
        counted=why_not is None,
        why_not=why_not,
        passed=False,
        refused=problem is not None,
        problem=problem,
    )


def _constants(shape: PlannedShape) -> str:
    told = ", ".join(f"{name}={value}" for name, value in shape.constants.items())
    return f" ({told})" if told else ""
