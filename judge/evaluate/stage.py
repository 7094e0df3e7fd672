"""The problem's side of one shape: its inputs, the oracle, and how far eager is from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from judge.evaluate.buffers import (
    Lent,
    arguments,
    copy,
    disturb,
    names,
    nudge,
    pristine,
    tensors,
    unchanged,
)
from judge.evaluate.cases import PlannedShape
from judge.evaluate.compare import distance
from judge.evaluate.faults import describe_failure, refuse_shortage
from judge.evaluate.outputs import why_undefined
from judge.evaluate.prepared import Prepared
from judge.evaluate.rules import Reference
from judge.evaluate.session import CommandFailedError, Worker
from judge.problem.judge import JudgeDeclaration
from judge.worker import messages as m
from judge.worker.buffers import dtype_of

# Sums of 256 outputs are all small at once so seldom that nobody will see it.
FEW = 256
# Tensors of the model that a sentence names.
_NAMED = 4
# Of eager's error: what two of its calls may differ by if the error is that of its roundings.
_SAME_SHARE = 0.1
_MISTAKE_GROUPS = ("mutant", "mutant.values", "moved")
# Outputs above this are not kept beside the oracle's.
_LARGE_BYTES = 1 << 28
# Relative steps that each dtype can hold, and small enough for what is smooth.
STEPS = {
    torch.float64: 2.0**-16,
    torch.float32: 2.0**-12,
    torch.float16: 2.0**-7,
    torch.bfloat16: 2.0**-5,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for the whole evaluation."""

    device: str
    dtype: str | None
    precision: m.Precision
    model_seed: int
    """Secret: the model's parameters are made under it."""
    refill_seed: int
    """Secret: of the noise that replaces inputs before outputs are fetched."""
    declaration: JudgeDeclaration

    def load_problem(self, worker: Worker, source: str) -> m.Problem:
        """Load a problem's text into a worker."""
        command = m.LoadProblem(
            source=source,
            device=self.device,
            dtype=self.dtype,
            precision=self.precision,
            seed=self.model_seed,
        )
        return worker.load_problem(command)


class Stage:
    """The problem worker, which has loaded the problem, set to one shape.

    Raises
    ------
    WorkerError
        The problem cannot be built at this shape.
    """

    def __init__(self, worker: Worker, shape: PlannedShape, settings: Settings) -> None:
        self.shape = shape
        self.settings = settings
        self.aliases = False
        """Eager's outputs share memory with its inputs, so a candidate's may as well."""
        self.writes = False
        """Eager writes its inputs, so a candidate may as well."""
        self.broken = False
        """The worker cannot use the GPU any more."""
        self.oracle_precision = "float64"
        self.why_float32 = ""
        """The error that kept the oracle from float64."""
        self.observed: m.Observed | None = None
        """What eager runs."""
        self.worker = worker
        self.problem = self.worker.use_variant(shape.source, seed=settings.model_seed)
        self.redrawn = _describe_redrawn(self.problem.redrawn)
        """What was done to parameters, in words."""
        self.worker.contender("eager")
        self._terms: float | None = None
        self._narrowed = False
        self._carried: list[str] = []
        self._oracle_specs: dict[str, list[m.TensorSpec]] = {}
        self._likely_specs: list[m.TensorSpec] = []
        self._arguments: list[m.Argument] = []
        self._parameters: list[Any] | None = None

    def parameters(self) -> list[Any]:
        """The model's tensors in the judge's own memory, in the order of `problem.parameters`."""
        if self._parameters is None:
            lent = self.worker.lend(
                "parameters", [parameter.tensor for parameter in self.problem.parameters]
            )
            self.worker.export_parameters(names(lent))
            self._parameters = [pristine(buffer) for buffer in lent if buffer is not None]
        return self._parameters

    def input_names(self) -> list[str]:
        """Names of what `get_inputs` makes; where it fails, of all that `forward` takes."""
        try:
            return [input_.name for input_ in self.worker.describe_inputs(0)]
        except CommandFailedError:
            return self.problem.input_names

    def prepare(self, kind: m.ValueKind, seed: int) -> Prepared:
        """Make the inputs of one case, run eager and the oracle on them.

        Raises
        ------
        ProblemFaultError
            The machine lacks memory or disk for it.
        WorkerError
            The problem's worker is gone.
        """
        prepared = Prepared(kind)
        try:
            prepared.inputs = self.worker.describe_inputs(seed)
            lent = self.worker.lend("inputs", [input_.tensor for input_ in prepared.inputs])
            self.worker.make_inputs(seed, names(lent), kind)
            prepared.pristine = [None if buffer is None else pristine(buffer) for buffer in lent]
            self._arguments = arguments(prepared.inputs, lent)
            self._run(prepared, lent)
        except CommandFailedError as error:
            refuse_shortage(error)
            prepared.why_not = describe_failure(error, self.settings.dtype)
            prepared.error_type = error.kind
            self.broken = m.is_device_error(error.message)
        return prepared

    def computes_in(self, dtype: str, prepared: Prepared) -> bool:
        """Whether an input, an output or a parameter has this dtype."""
        specs = [*prepared.outputs, *(parameter.tensor for parameter in self.problem.parameters)]
        specs += [input_.tensor for input_ in prepared.inputs if input_.tensor is not None]
        return any(spec.dtype == dtype for spec in specs)

    def mutate(
        self, mutation: m.Mutation, templates: Sequence[Any]
    ) -> tuple[list[Any], bool] | None:
        """What a kernel with this mistake would store for the prepared case, in `templates`.

        Also whether the mistake changes the exact results at all, rounded or not. None where the
        worker cannot apply the mutation.
        """
        try:
            oracle, values = self._ask_oracle(len(templates), "mutant", mutation)
        except CommandFailedError as error:
            refuse_shortage(error)
            return None
        assert self._reference is not None
        changes = self._reference.differs(oracle, values)
        return self._reference.from_oracle(oracle, values, templates), changes

    def forget_mistakes(self) -> None:
        """Free the memory of `mutate`."""
        self._free(_MISTAKE_GROUPS)

    def release(self) -> None:
        """Free the memory of the last prepared case, which must not be used any more."""
        self._free(("inputs", "eager", "oracle", "oracle.values", *_MISTAKE_GROUPS))

    def _free(self, groups: Sequence[str]) -> None:
        """Take groups back, once the judge's own work is done, and what torch caches of them."""
        self.worker.take_back(*groups)
        if self.settings.device != "cpu":
            torch.cuda.synchronize(self.settings.device)
            torch.cuda.empty_cache()

    def _run(self, prepared: Prepared, lent: Lent) -> None:
        called, got = self._run_eager(prepared, lent, late=not self.aliases)
        prepared.outputs = called.outputs
        prepared.overlaps = any(output.overlaps for output in called.outputs)
        self._restore(prepared, lent)
        self._likely_specs = [_in_float64(spec) for spec in prepared.outputs]
        oracle, values = self._ask_oracle(len(called.outputs), "oracle", None)
        self._restore(prepared, lent)
        prepared.why_not = why_undefined(prepared.kind, prepared.outputs, oracle, values)
        if self._carried:
            names = _summarize(self._carried)
            prepared.why_not = f"the output depends on earlier calls, each of which changes {names}"
        if prepared.why_not:
            return
        reference = self._reference = Reference(
            oracle,
            [dtype_of(output.dtype) for output in prepared.outputs],
            self.settings.declaration,
            precision=self.settings.precision,
            terms=self._longest_sum(prepared),
            values=values,
            sensitivities=self._sensitivities(prepared, lent, oracle),
        )
        eager = reference.check(got, reference.eager_limits())
        if eager.problem and not self.aliases:
            # Perhaps the outputs are views of the inputs, which have changed since.
            _, got = self._run_eager(prepared, lent, late=False)
            self._restore(prepared, lent)
            immediate = reference.check(got, reference.eager_limits())
            if not immediate.problem:
                self.aliases, eager = True, immediate
        prepared.reference, prepared.eager = reference, eager
        prepared.limits = reference.candidate_limits(eager)
        prepared.exact = frozenset(
            index
            for index, tensor in enumerate(reference.expected)
            if tensor is not None
            and tensor.representable
            and (tensor.exact or not self._narrowed)
            and not eager.unequal(index)
        )
        if eager.problem:
            prepared.why_not = f"eager itself is wrong: {eager.problem}"
        elif inaccuracy := reference.describe_eager_error(eager):
            first = [tensor.clone() for tensor in got]
            _, repeated = self._run_eager(prepared, lent, late=False)
            self._restore(prepared, lent)
            if distance(first, repeated) > _SAME_SHARE * (eager.largest("norm_ratio") or 0.0):
                prepared.why_not = "eager itself is inaccurate, and varies from call to call"
            prepared.eager_error = inaccuracy
        if sum(output.nbytes for output in prepared.outputs) > _LARGE_BYTES:
            # The kernel has to fit beside what the judge holds.
            del got
            self._free(["eager"])

    _reference: Reference | None = None

    def _run_eager(
        self, prepared: Prepared, lent: Lent, *, late: bool
    ) -> tuple[m.Called, list[Any]]:
        """Call eager; `late` replaces the inputs before the outputs are fetched."""
        called = self.worker.call(self._arguments, observe=self.observed is None)
        if self.observed is None:
            self.observed = called.observed
        pairs = zip(lent, prepared.pristine, strict=True)
        if not all(unchanged(buffer, original) for buffer, original in pairs if buffer is not None):
            self.writes = True
        outputs = self.worker.lend("eager", called.outputs)
        if late:
            disturb(lent, self.settings.refill_seed)
        self.worker.fetch(names(outputs), call=called.call)
        self.worker.drop([called.call])
        return called, tensors(outputs)

    def _restore(self, prepared: Prepared, lent: Lent) -> None:
        for buffer, original in zip(lent, prepared.pristine, strict=True):
            if buffer is not None and not unchanged(buffer, original):
                copy(original, buffer)

    def _ask_oracle(
        self, outputs: int, group: str, mutation: m.Mutation | None
    ) -> tuple[list[Any], Any]:
        """The oracle's outputs of `forward` (None where NVFP4 values stand for them), and values.

        Under the NVFP4 rule `forward` is only asked where it returns more than codes and scales.
        """
        judge = self.settings.declaration
        if judge.rule is None:
            return self._run_oracle("forward", group, mutation), None
        values = self._run_oracle(judge.values, f"{group}.values", mutation)[0]
        packed = {judge.codes, judge.scales}
        if outputs == len(packed):
            return [None] * outputs, values
        all_outputs = self._run_oracle("forward", group, mutation)
        return [None if i in packed else output for i, output in enumerate(all_outputs)], values

    def _run_oracle(self, method: str, group: str, mutation: m.Mutation | None) -> list[Any]:
        if method == "forward" and method not in self._oracle_specs:
            # Most models' outputs in float64 are as eager's are, and need not be described.
            self._oracle_specs[method] = self._likely_specs
            try:
                return self._run_oracle(method, group, mutation)
            except CommandFailedError as error:
                if error.kind != "BadBufferError":
                    raise
        command = m.Oracle(inputs=self._arguments, method=method, mutate=mutation)
        specs = self._oracle_specs.get(method)
        if specs is None:
            specs = self._oracle_specs[method] = self.worker.oracle(command).outputs
        lent = self.worker.lend(group, specs)
        try:
            answer = self.worker.oracle(command.model_copy(update={"into": names(lent)}))
            self.oracle_precision, self.why_float32 = answer.precision, answer.why_float32
            self._narrowed = self._narrowed or answer.narrowed
            self._carried = answer.carried
        except CommandFailedError:
            del self._oracle_specs[method]  # the shape may depend on the values
            raise
        return tensors(lent)

    def _sensitivities(self, prepared: Prepared, lent: Lent, oracle: Sequence[Any]) -> list[float]:
        """How far each output moves per relative change of the inputs, where outputs are few."""
        few = [i for i, tensor in enumerate(oracle) if tensor is not None and tensor.numel() < FEW]
        if not few or not _step(lent):
            return [0.0] * len(oracle)
        repeated = self._run_oracle("forward", "moved", None)
        if not all(torch.equal(repeated[i], oracle[i]) for i in few):
            return [0.0] * len(oracle)  # random, or NaN: no step of the inputs can be told from it
        step = self._nudge(lent, 0)
        try:
            moved = self._run_oracle("forward", "moved", None)
            changes = [
                float((moved[i].double() - oracle[i].double()).norm()) / step if i in few else 0.0
                for i in range(len(oracle))
            ]
        except CommandFailedError:
            changes = [0.0] * len(oracle)
        self._restore(prepared, lent)
        return [change if math.isfinite(change) else 0.0 for change in changes]

    def nearby(self, prepared: Prepared, number: int) -> tuple[list[Any], list[Any]]:
        """Eager's outputs and the oracle's on a neighbour of the inputs of the last prepared case.

        They hold until the next call. Different for each `number`.

        Raises
        ------
        CommandFailedError
            The problem fails there.
        """
        lent = self.worker.lend("inputs", [input_.tensor for input_ in prepared.inputs])
        self._restore(prepared, lent)
        self._nudge(lent, (1 + number) << 8)
        near = replace(prepared, pristine=[None if b is None else pristine(b) for b in lent])
        try:
            _, got = self._run_eager(near, lent, late=False)
            self._restore(near, lent)
            return got, self._run_oracle("forward", "moved", None)
        finally:
            self._restore(prepared, lent)

    def _nudge(self, lent: Lent, salt: int) -> float:
        """Move every number of every floating-point input by the same small share of itself."""
        step = _step(lent)
        for number, buffer in enumerate(lent):
            if buffer is not None and buffer.tensor.dtype in STEPS:
                nudge(buffer, step, self.settings.refill_seed + salt + number)
        return step

    def _longest_sum(self, prepared: Prepared) -> float:
        """Terms of the longest sum behind one output element.

        A matrix product or convolution takes 2·n operations for n terms; a reduction reads its
        inputs once.
        """
        if self._terms is None:
            written = max(1, min((output.numel for output in prepared.outputs), default=1))
            specs = (input_.tensor for input_ in prepared.inputs)
            read = sum(spec.numel for spec in specs if spec is not None)
            read += sum(parameter.tensor.numel for parameter in self.problem.parameters)
            try:
                flops = self.worker.flops(self.settings.model_seed).flops
            except CommandFailedError:
                flops = 0.0  # the operators cannot be counted without running them
            self._terms = max(1.0, read / written, flops / (2 * written))
        return self._terms


def _in_float64(spec: m.TensorSpec) -> m.TensorSpec:
    """The same tensor where the model is in float64."""
    dtype = dtype_of(spec.dtype)
    wide = "float64" if dtype.is_floating_point else spec.dtype
    return m.TensorSpec(shape=spec.shape, dtype=wide)


def _step(lent: Lent) -> float:
    """By what share of itself every number of the inputs can be moved; 0 where none can."""
    dtypes = (buffer.tensor.dtype for buffer in lent if buffer is not None)
    return max((STEPS.get(dtype, 0.0) for dtype in dtypes), default=0)


def _describe_redrawn(names: Sequence[str]) -> str:
    if not names:
        return ""
    return f"constant parameters, such as norm weights of 1, got random values: {_summarize(names)}"


def _summarize(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
