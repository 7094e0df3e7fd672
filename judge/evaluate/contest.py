"""Timing for the judge: fresh workers, and all contenders checked before any is timed."""

import functools
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final

from judge.evaluate import floor
from judge.evaluate.buffers import arguments, names, tensors, write
from judge.evaluate.cases import PlannedCase
from judge.evaluate.correctness import Contestant
from judge.evaluate.faults import ProblemFaultError
from judge.evaluate.interleave import CheckLaunch, Contender
from judge.evaluate.options import Options
from judge.evaluate.power import a_constant_passes
from judge.evaluate.prepared import Outcome, Prepared
from judge.evaluate.result import Ceilings, Fault, TimingReport
from judge.evaluate.session import CALL_SECONDS, Session, Worker, WorkerError
from judge.evaluate.stage import Stage
from judge.evaluate.timing import FULL, QUICK, Conditions, time_contenders
from judge.evaluate.verdict import Evidence
from judge.problem.forms import EAGER, MODEL_FORMS, ModelForm
from judge.problem.kernel import KernelFile
from judge.progress import Progress, Say, Step
from judge.worker import messages as m
from judge.worker.buffers import dtype_of
from kb.errors import KbError
from kb.problems.analysis import analyse
from kb.problems.reading import read_problem

# A baseline gets this much to compile, even where no time is left for it.
_LEAST_COMPILE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Entrant:
    """A kernel file that is timed."""

    name: str
    kernel: KernelFile


@dataclass(slots=True)
class Contest:
    """Times the candidate against the problem's own forms and other kernel files.

    Workers are started anew: one that was observed carries a profiler, and one that ran other
    shapes may have compiled for them.
    """

    session: Session
    stage: Stage
    options: Options
    entrants: Sequence[Entrant]
    """The candidate first."""
    seeds: Sequence[int]
    """Two secret seeds that no case used."""
    evidence: Evidence
    """Takes what is wrong with the candidate in a fresh process."""
    say: Say
    zero_fraction: float | None = None
    ceilings: Ceilings | None = None
    """Measured before; None: to be measured."""
    notes: list[str] = field(default_factory=list)

    def run(self) -> TimingReport | None:
        """The report, or None where the candidate itself cannot be timed."""
        # The baselines build their models while the entrants are checked.
        with ThreadPoolExecutor(thread_name_prefix="baseline") as executor:
            loading: dict[ModelForm, tuple[Worker, Future[None]]] = {}
            for form in MODEL_FORMS:
                if form in self.options.baselines:
                    worker = self.session.worker(form)
                    loading[form] = worker, executor.submit(self._load, form, worker)
            contenders = self._entrants()
            if contenders is None:
                return None
            contenders += self._baselines(loading)
        prepared = self.stage.prepare(m.ValueKind.GIVEN, self.seeds[0])
        work = self._work(prepared)
        kind = m.ValueKind.GIVEN
        if a_constant_passes(prepared):
            # A timed launch could return anything, above all an earlier result.
            kind = m.ValueKind.NORMAL
            self.notes.append(
                "times are for zero-mean inputs, because a constant would pass as the result for "
                "the problem's own inputs"
            )
        self.stage.release()
        conditions = Conditions(
            problem=self.stage.worker,
            inputs=prepared.inputs,
            exporter=self.session.buffers,
            check_launch=_launch_check(self.stage, kind),
            kind=kind,
            limits=QUICK if self.options.quick else FULL,
            say=self.say,
        )
        precision = self.stage.settings.precision
        return time_contenders(
            contenders, conditions, precision=precision, work=work, ceilings=self.ceilings
        )

    def _entrant(self, entrant: Entrant, *, candidate: bool) -> Contender | None:
        """A kernel file in a worker of its own, right on the given and on zero-mean values."""
        contestant = Contestant(
            self.session.worker(entrant.name), entrant.kernel, self.stage.settings,
            call_seconds=self.options.call_seconds,
        )  # fmt: skip
        outcomes: list[Outcome] = []
        problem: str | None = None
        fault: Fault | None = None
        try:
            contestant.load(self.stage)
            for index, kind in enumerate((m.ValueKind.GIVEN, m.ValueKind.NORMAL)):
                planned = PlannedCase(kind, self.seeds[index], index, poison=False, observe=False)
                prepared = self.stage.prepare(kind, planned.seed)
                outcomes.append(contestant.run(self.stage, prepared, planned))
        except WorkerError as error:
            problem, fault = str(error), error.fault
        bad = [outcome for outcome in outcomes if outcome.case.counted and not outcome.case.passed]
        own_model = candidate and self.evidence.is_own_model
        # The problem's own model is timed whatever its values.
        if bad and not own_model:
            problem, fault = bad[0].case.problem, bad[0].case.fault
        contestant.worker.take_back("inputs", "outputs")
        checked = bool(contestant.outputs)
        uncounted = None if checked or problem else f"no case counts: {outcomes[0].case.why_not}"
        if problem is None and (checked or own_model):
            # Where no case counts, it was never called, and checks would tell nothing.
            return Contender(
                entrant.name, contestant.worker, contestant.outputs, checked=checked,
                overlaps=contestant.overlaps,
            )  # fmt: skip
        contestant.worker.stop()
        if candidate and uncounted:
            self.evidence.untested.append(f"in a fresh process at the given shape {uncounted}")
        elif candidate:
            self.evidence.wrong.append(f"in a fresh process at the given shape: {problem}")
            self.evidence.faults += [fault] if fault is not None else []
            self.evidence.cheats += [cheat for outcome in outcomes for cheat in outcome.cheats]
        else:
            self.notes.append(f"{entrant.name} is not timed: {problem or uncounted}")
        return None

    def _entrants(self) -> list[Contender] | None:
        """Those that can be timed; None where the candidate cannot."""
        contenders: list[Contender] = []
        for number, entrant in enumerate(self.entrants):
            self.say(Progress(f"starting {entrant.name}"))
            contender = self._entrant(entrant, candidate=number == 0)
            if contender is not None:
                contenders.append(contender)
            elif number == 0:
                return None
        return contenders

    def _load(self, form: ModelForm, worker: Worker) -> None:
        self.stage.settings.load_problem(worker, self.stage.shape.source)
        worker.contender(form)

    def _baselines(
        self, loading: Mapping[ModelForm, tuple[Worker, Future[None]]]
    ) -> list[Contender]:
        """The problem's own model in its forms, each called once and close to the oracle."""
        contenders: list[Contender] = []
        remaining = self.options.compile_seconds
        for form, (worker, loaded) in loading.items():
            compiled = form != EAGER
            self.say(Progress(f"starting {form}", Step.COMPILE if compiled else Step.WORK))
            start = time.monotonic()
            try:
                loaded.result()
                seconds = max(_LEAST_COMPILE_S, remaining) if compiled else CALL_SECONDS
                outputs, problem = self._call(worker, seconds)
            except WorkerError as error:
                self.notes.append(f"{form} is not timed: {error}")
                worker.stop()
            else:
                if problem:
                    self.notes.append(f"{form} is timed although its result is wrong: {problem}")
                contenders.append(Contender(form, worker, outputs, checked=False))
            if compiled:
                remaining -= time.monotonic() - start
        return contenders

    def _call(self, worker: Worker, seconds: float) -> tuple[Sequence[m.TensorSpec], str | None]:
        """The outputs of one call, and how they are off."""
        prepared = self.stage.prepare(m.ValueKind.GIVEN, self.seeds[0])
        lent = worker.lend("inputs", [input_.tensor for input_ in prepared.inputs])
        write(lent, prepared.pristine)
        called = worker.call(arguments(prepared.inputs, lent), timeout=seconds)
        problem = None
        if prepared.reference is not None:
            got = worker.lend("outputs", called.outputs)
            worker.fetch(names(got), call=called.call)
            limits = prepared.reference.eager_limits()
            problem = prepared.reference.check(tensors(got), limits).problem
        worker.drop([called.call])
        worker.take_back("inputs", "outputs")
        return called.outputs, problem

    def _work(self, prepared: Prepared) -> floor.Work:
        try:
            flops = self.stage.worker.flops(self.stage.settings.model_seed).by_dtype
        except WorkerError as error:
            self.notes.append(f"operations are not counted: {error}")
            flops = {}
        return floor.work(
            [input_.tensor for input_ in prepared.inputs if input_.tensor is not None],
            [parameter.tensor for parameter in self.stage.problem.parameters],
            prepared.outputs,
            flops,
            zero_fraction=self.zero_fraction,
            useful_share=useful_share(self.stage.shape.source, self.stage.settings.dtype),
        )


def useful_share(source: str, dtype: str | None) -> float:
    """Of a problem's products, what no mask or triangle makes needless; 1 where it is not known."""
    try:
        return analyse(read_problem(source, dtype=dtype)).useful_share
    except KbError:
        return 1.0


def _launch_check(stage: Stage, kind: m.ValueKind) -> CheckLaunch:
    """Compares outputs of timed launches with the oracle; keeps the last seed's."""

    @functools.lru_cache(maxsize=1)
    def case(seed: int) -> Prepared:
        return stage.prepare(kind, seed)

    def check(seed: int, outputs: Sequence[Any]) -> str | None:
        prepared = case(seed)
        if prepared.error_type:
            raise ProblemFaultError(
                f"the reference failed while timed launches were checked: {prepared.why_not}"
            )
        if prepared.why_not or prepared.reference is None:
            return None
        dtypes = [dtype_of(output.dtype) for output in prepared.outputs]
        if [output.dtype for output in outputs] != dtypes:
            return "the dtypes of the outputs differ from eager's"
        return prepared.reference.check(outputs, prepared.limits).problem

    return check
