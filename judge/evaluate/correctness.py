"""One correctness case: the candidate's outputs for secret inputs against the oracle's."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from judge.evaluate.buffers import Lent, arguments, copy, disturb, names, pristine, unchanged, write
from judge.evaluate.cases import PlannedCase, uncalled_case
from judge.evaluate.enlarge import LoopCounts
from judge.evaluate.outputs import describe_constant, describe_mismatch, sample
from judge.evaluate.prepared import Outcome, Prepared
from judge.evaluate.rules import Checked
from judge.evaluate.session import (
    CommandFailedError,
    Worker,
    WorkerDiedError,
    WorkerError,
    WorkerTimedOutError,
)
from judge.evaluate.stage import Settings, Stage
from judge.problem.kernel import KernelFile
from judge.worker import messages as m
from judge.worker.buffers import synchronize

# Operators that are named to the user.
_NAMED = 5


@dataclass(slots=True)
class Observations:
    """What the candidate's process did, by its own report."""

    reports: list[m.Observed] = field(default_factory=list)
    watched: bool = False
    """A call that was observed has returned."""

    def names(self, field_name: str) -> dict[str, int]:
        """Counts by name over all calls, of `triton_launches`, `aten` or `kernels`."""
        counts: dict[str, int] = {}
        for observed in self.reports:
            for name, count in getattr(observed, field_name).items():
                counts[name] = counts.get(name, 0) + count
        return counts

    def all(self, field_name: str) -> list[str]:
        """Everything listed under `patched`, `libraries` or `notes`, once."""
        return list(
            dict.fromkeys(x for observed in self.reports for x in getattr(observed, field_name))
        )


class Contestant:
    """One kernel file in its worker, set to a stage's shape.

    Parameters
    ----------
    call_seconds
        How long one call may take, compilation included.
    hide
        Hide the inputs' values from all but interpreted Triton kernels.
    """

    def __init__(
        self,
        worker: Worker,
        kernel: KernelFile,
        settings: Settings,
        *,
        call_seconds: float,
        hide: bool = False,
    ) -> None:
        self.hide = hide
        self.may_be_slow = False
        """A case that takes too long does not count, as the interpreter is to blame."""
        self.most_accesses: int | None = None
        """Accesses to memory after which an interpreted call is ended, and does not count."""
        self.counts = LoopCounts()
        """Of its calls."""
        self.kernel = kernel
        self.worker = worker
        self.settings = settings
        self.call_seconds = call_seconds
        self.observations = Observations()
        self.outputs: Sequence[m.TensorSpec] = []
        """Of the last call."""
        self.overlaps = False
        """Whether elements of one of them share memory."""
        self._parameters: list[Any] = []
        self._lent_parameters: Lent = []
        self._previous: list[Any] | None = None

    def load(self, stage: Stage) -> None:
        """Execute the kernel file for this shape's parameters.

        Raises
        ------
        WorkerError
            The file cannot be executed, or its arguments cannot be bound.
        """
        self._previous = None
        problem = stage.problem
        self._parameters = stage.parameters()
        lent = self.worker.lend(
            "parameters", [parameter.tensor for parameter in problem.parameters]
        )
        write(lent, self._parameters)
        self._lent_parameters = lent
        command = problem.kernel(
            stage.input_names(),
            buffers=[buffer.name for buffer in lent if buffer is not None],
            source=self.kernel.text,
            form=self.kernel.form.value,
            device=self.settings.device,
            dtype=self.settings.dtype,
            precision=self.settings.precision,
            seed=self.settings.model_seed,
        )
        self.observations.reports.append(self.worker.load_kernel(command).observed)

    def run(self, stage: Stage, prepared: Prepared, planned: PlannedCase) -> Outcome:
        """Run one prepared case."""
        start = time.perf_counter()
        self.counts = replace(self.counts, too_long=False)
        outcome = Outcome(uncalled_case(stage.shape, planned.kind, why_not=prepared.why_not))
        eager = prepared.eager.largest("norm_ratio") if prepared.eager else None
        outcome.note(seed_index=planned.seed_index, eager_norm_ratio=eager)
        if prepared.why_not is None:
            outcome.exact = prepared.exact
            outcome = self._attempts(stage, prepared, planned, outcome)
        outcome.note(seconds=time.perf_counter() - start)
        return outcome

    def _attempts(
        self, stage: Stage, prepared: Prepared, planned: PlannedCase, outcome: Outcome
    ) -> Outcome:
        """The case with hidden inputs; if that fails, with inputs that the host sees as well."""
        plain, previous = Outcome(outcome.case, exact=outcome.exact), self._previous
        hide = self.hide and planned.hide
        computed: list[str] = []
        try:
            computed = self._judge(stage, prepared, planned, outcome, hide=hide)
            done = not hide or outcome.case.passed or bool(outcome.out_of_bounds)
        except WorkerError as error:
            done = not (hide and isinstance(error, CommandFailedError)) or bool(
                self._too_long(error)
            )
            if done:
                self._record_failure(error, stage, outcome)
        if done:
            return outcome
        # What differs between the attempts is what the host saw, and nothing else.
        self._previous = previous
        try:
            self._judge(stage, prepared, planned, plain, hide=False)
        except WorkerError as error:
            self._record_failure(error, stage, plain)
        if plain.case.passed:
            self.hide = False  # it is known now
            plain.host_ops = ", ".join(computed[:_NAMED])
        return plain

    def _judge(
        self,
        stage: Stage,
        prepared: Prepared,
        planned: PlannedCase,
        outcome: Outcome,
        *,
        hide: bool,
    ) -> list[str]:
        """Call and compare; the operators that the host ran on hidden values."""
        lent = self.worker.lend("inputs", [input_.tensor for input_ in prepared.inputs])
        called = self._call(prepared, lent, planned, hide=hide)
        problem = describe_mismatch(called.outputs, prepared.outputs, self.settings.device)
        self.overlaps = any(output.overlaps for output in called.outputs)
        if problem is None and self.overlaps and not prepared.overlaps:
            problem = "elements of its output share memory (expanded?), but the reference's do not"
        if problem is not None:
            self.worker.drop([called.call])
            outcome.note(passed=False, problem=problem)
            return called.computed
        self.outputs = called.outputs
        written = self._modified_argument(lent, prepared)
        if not stage.aliases:
            disturb(lent, self.settings.refill_seed)
        got = self._fetch(called)
        assert prepared.reference is not None
        checked = prepared.reference.check(got, prepared.limits)
        self._record(prepared, checked, outcome)
        if not checked.problem and any(checked.unequal(index) for index in prepared.exact):
            self._note_inexact(prepared, got, outcome)
        if checked.problem:
            self._explain(stage, prepared, planned, got, outcome, hidden=hide)
        if written and not stage.writes:
            problem = outcome.case.problem or f"it writes to {written}"
            outcome.note(passed=False, problem=problem)
            outcome.cheats.append(f"it modifies its arguments: {written}")
        if called.outside and not outcome.case.problem:
            outcome.note(passed=False, problem=called.outside)
            outcome.out_of_bounds = True
        self._previous = [sample(tensor) for tensor in got]
        return called.computed

    def _explain(
        self,
        stage: Stage,
        prepared: Prepared,
        planned: PlannedCase,
        got: Sequence[Any],
        outcome: Outcome,
        *,
        hidden: bool,
    ) -> None:
        """Why outputs are wrong: from before, late, constant. `hidden`: it is called again."""
        assert prepared.reference is not None
        lent = self.worker.lend("inputs", [input_.tensor for input_ in prepared.inputs])
        if stale := self._stale(got, prepared):
            outcome.cheats.append(stale)
        elif hidden:
            return
        elif not stage.aliases and self._right_at_once(prepared, lent, planned):
            outcome.cheats.append(
                "the outputs are right only if they are read before the inputs change: they are "
                "computed late, or are views of the inputs"
            )
        elif same := describe_constant(got, prepared.reference.expected):
            outcome.note(problem=f"{outcome.case.problem} ({same})")

    def _call(
        self, prepared: Prepared, lent: Lent, planned: PlannedCase, *, hide: bool = False
    ) -> m.Called:
        write(lent, prepared.pristine)
        called = self.worker.call(
            arguments(prepared.inputs, lent),
            poison=planned.poison,
            observe=planned.observe,
            hide=hide,
            most_accesses=self.most_accesses,
            timeout=self.call_seconds,
        )
        counts = self.counts
        fewest = min(counts.fewest, called.accesses) if counts.calls else called.accesses
        self.counts = replace(counts, last=called, fewest=fewest, calls=counts.calls + 1)
        if planned.observe:
            self.observations.reports.append(called.observed)
            self.observations.watched = True
        return called

    def _fetch(self, called: m.Called) -> list[Any]:
        """The outputs in the judge's own memory, whatever the process does to the buffers later."""
        outputs = self.worker.lend("outputs", called.outputs)
        for output in outputs:
            assert output is not None
            output.flat.fill_(0xFF)  # NaN in every floating-point format, should nothing be copied
            synchronize(output.tensor.device)
        self.worker.fetch(names(outputs), call=called.call)
        got = [pristine(output) for output in outputs if output is not None]
        self.worker.drop([called.call])
        return got

    def _modified_argument(self, lent: Lent, prepared: Prepared) -> str | None:
        """Which input or parameter was changed by the call."""
        for spec, original, buffer in zip(prepared.inputs, prepared.pristine, lent, strict=True):
            if buffer is not None and not unchanged(buffer, original):
                return f"input '{spec.name}'"
        for original, parameter in zip(self._parameters, self._lent_parameters, strict=True):
            if parameter is not None and not unchanged(parameter, original):
                copy(original, parameter)
                return "a parameter of the model"
        return None

    def _right_at_once(self, prepared: Prepared, lent: Lent, planned: PlannedCase) -> bool:
        """Whether the same call is right when its outputs are fetched before anything changes."""
        assert prepared.reference is not None
        called = self._call(prepared, lent, planned)
        if describe_mismatch(called.outputs, prepared.outputs, self.settings.device):
            return False
        got = self._fetch(called)
        return prepared.reference.check(got, prepared.limits).problem is None

    def _record(self, prepared: Prepared, checked: Checked, outcome: Outcome) -> None:
        assert prepared.reference is not None
        limits = [
            limit
            for limit, tensor in zip(prepared.limits, prepared.reference.expected, strict=True)
            if limit is not None and tensor is not None and not tensor.exact
        ]
        outcome.note(
            max_abs=checked.largest("max_abs"),
            max_rel=checked.largest("max_rel"),
            norm_ratio=checked.largest("norm_ratio"),
            tolerance=max((limit.norm for limit in limits), default=None),
            tolerance_max_rel=max((limit.worst for limit in limits), default=None),
            passed=checked.problem is None,
            problem=checked.problem,
            counterexamples=checked.examples,
        )

    def _note_inexact(self, prepared: Prepared, got: Sequence[Any], outcome: Outcome) -> None:
        """Where the outputs differ although nothing had to be rounded."""
        assert prepared.reference is not None
        exactly = prepared.reference.check(got, prepared.limits, prepared.exact)
        for index in prepared.exact:
            difference = exactly.differences[index]
            if difference is not None and difference.problem:
                outcome.inexact[index] = (difference.problem, difference.examples)

    def _record_failure(self, error: WorkerError, stage: Stage, outcome: Outcome) -> None:
        """An error in a call: declined where the kernel raises by itself at another shape."""
        if why_not := self._too_long(error):
            outcome.note(counted=False, why_not=why_not)
            outcome.exact = None
            return
        problem, declined = str(error), False
        if isinstance(error, CommandFailedError):
            declined = stage.shape.label != "full" and not m.is_device_error(error.message)
            problem = f"it raises {error.kind}: {error.message}"
        elif isinstance(error, WorkerDiedError):
            problem = f"its process ended: {error.reason}"
        problem = m.one_line(problem, 300)
        outcome.note(passed=False, refused=declined, problem=problem, fault=error.fault)

    def _too_long(self, error: WorkerError) -> str | None:
        """Why a call is not the kernel's fault but the interpreter's, if so."""
        if isinstance(error, WorkerTimedOutError) and self.may_be_slow:
            return f"the call takes more than {error.seconds:.0f} s in the interpreter"
        if isinstance(error, CommandFailedError) and error.kind == "TooLongError":
            self.counts = replace(self.counts, too_long=True)
            return f"the call takes too long in the interpreter: {error.message}"
        return None

    def _stale(self, got: Sequence[Any], prepared: Prepared) -> str | None:
        """Evidence that the outputs are those of the call before."""
        if self._previous is None or prepared.reference is None:
            return None
        samples = [sample(tensor) for tensor in got]
        if len(samples) != len(self._previous) or not all(
            a.shape == b.shape and a.dtype == b.dtype and bool(torch.equal(a, b))
            for a, b in zip(samples, self._previous, strict=True)
        ):
            return None
        varied = any(len(sample.unique()) > 1 for sample in samples)
        return "it returns the outputs of an earlier call for different inputs" if varied else None
