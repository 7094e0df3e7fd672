"""Data for timing versions of a kernel: inputs and parameters in shared buffers."""

from dataclasses import dataclass
from typing import Final

import torch
from pydantic import ConfigDict

from judge.evaluate.buffers import Exported
from judge.evaluate.session import Session, Worker, WorkerError
from judge.evaluate.sets import l2_bytes, sets_fitting, sets_needed
from judge.options import RunOptions
from judge.problem.kernel import KernelFile
from judge.worker import messages as m
from kb.errors import KbError

# Norm of the difference to the given kernel over the norm of its result. Sums in another order
# differ by a few units in the last place; what is wrong differs by far more. The judge decides.
_TOLERANCE: Final = {"float64": 1e-9, "float32": 1e-3, "float16": 1e-2, "bfloat16": 3e-2}
_LOOSEST: Final = 3e-2
# PyTorch rounds after every operator; where most of a result is cut to 0, what is left differs by
# several times the above. An operator left out differs by more still, or the judge finds it.
_UNFUSED: Final = 8.0
_FIRST_SEED: Final = 20_000


class Subject(RunOptions):
    """A problem, and how its kernels are loaded."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    problem: str
    """The problem file's text, at the shape that counts."""
    kernel: KernelFile
    """The version to compare with; right, as far as is known."""
    device: str
    """`cuda:N`; on `cpu` kernels are interpreted and times are the clock's."""
    reference: KernelFile | None = None
    """Another file to compare with, right for sure; it can be timed as well."""


@dataclass(frozen=True, slots=True)
class Material:
    """A subject in memory, and the commands that load its kernels."""

    inputs: list[m.InputSpec]
    buffers: list[Exported]
    sets: list[list[m.Argument]]
    """Inputs; so many that none is in the cache when its turn comes again."""
    command: m.LoadKernel
    reference: m.LoadKernel | None
    tolerance: float
    """Largest allowed difference of a version's outputs."""


def prepare(subject: Subject, session: Session, worker: Worker) -> Material:
    """Have the problem make its inputs and parameters, in buffers that stay as they are.

    Raises
    ------
    KbError
        The problem cannot be run.
    """
    device, precision = subject.device, subject.precision
    try:
        loading = m.LoadProblem(
            source=subject.problem, device=device, dtype=subject.dtype, precision=precision
        )
        description = worker.load_problem(loading)
        inputs = worker.describe_inputs(_FIRST_SEED)
    except WorkerError as error:
        raise KbError(f"the problem cannot be run: {error}") from None
    exporter = session.buffers
    parameters = [
        exporter.allocate(f"tune.parameter.{index}", parameter.tensor)
        for index, parameter in enumerate(description.parameters)
    ]
    buffers = list(parameters)
    sets: list[list[m.Argument]] = []
    for number in range(_count(inputs, device)):
        arguments: list[m.Argument] = []
        for position, spec in enumerate(inputs):
            if spec.tensor is None:
                arguments.append(m.ValueArgument(value=spec.value))
                continue
            name = f"tune.{number}.{position}"
            buffers.append(exporter.allocate(name, spec.tensor))
            arguments.append(m.BufferArgument(buffer=name))
        sets.append(arguments)
    worker.open(buffers)
    worker.export_parameters([exported.name for exported in parameters])
    for number, set_ in enumerate(sets):
        into = [a.buffer if isinstance(a, m.BufferArgument) else None for a in set_]
        worker.make_inputs(_FIRST_SEED + number, into)
    command = description.kernel(
        [input_.name for input_ in inputs],
        buffers=[exported.name for exported in parameters],
        source=subject.kernel.text,
        module_name="version",
        form=subject.kernel.form.value,
        device=device,
        dtype=subject.dtype,
        precision=precision,
    )
    reference = None
    if subject.reference is not None:
        other = {"source": subject.reference.text, "form": subject.reference.form.value}
        reference = command.model_copy(update=other | {"module_name": "reference"})
    kinds = [input_.tensor.dtype for input_ in inputs if input_.tensor is not None]
    tolerance = max((_TOLERANCE.get(kind, 0.0) for kind in kinds), default=_LOOSEST)
    tolerance *= _UNFUSED if reference is not None else 1.0
    return Material(inputs, buffers, sets, command, reference, tolerance)


def _count(inputs: list[m.InputSpec], device: str) -> int:
    if device == "cpu":
        return 1
    nbytes = sum(input_.tensor.nbytes for input_ in inputs if input_.tensor is not None)
    free = int(torch.cuda.mem_get_info(torch.device(device))[0])
    return max(1, min(sets_needed(nbytes, l2_bytes(device)), sets_fitting(nbytes, free)))
