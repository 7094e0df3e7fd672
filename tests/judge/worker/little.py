"""Three little problems, kernels for them, and what a judge does with a worker, in short."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from judge.evaluate.buffers import Exported
from judge.evaluate.session import Session, Worker
from judge.worker import messages as m

LINEAR = """
import torch
import torch.nn as nn

M, N, K = 6, 16, 4

class Model(nn.Module):
    def __init__(self, features, outputs, scale=2.0):
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        self.register_buffer("shift", torch.rand(outputs))
        self.scale = scale

    def forward(self, x):
        return self.linear(x) * self.scale + self.shift

def get_inputs():
    return [torch.rand(M, N)]

def get_init_inputs():
    return [N, K]
"""

POOL = """
import torch
import torch.nn as nn

BATCH, SIZE = 8, 9

class Model(nn.Module):
    def __init__(self, kernel_size, stride):
        super().__init__()
        self.pool = nn.MaxPool2d(kernel_size, stride=stride, padding=1)

    def forward(self, x, offset):
        return self.pool(x) + offset

def get_inputs():
    return [torch.rand(BATCH, 2, SIZE, SIZE) - 0.5, 3]

def get_init_inputs():
    return [(3, 3), 2]
"""

SOFTMAX = """
import torch
import torch.nn as nn

ROWS, COLUMNS = 8, 20

class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)

def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]

def get_init_inputs():
    return []
"""

SOFTMAX_TRITON = """
import torch
import triton
import triton.language as tl

@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    values = tl.load(x + row * columns + at, mask=inside, other=-float("inf"))
    e = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + at, e / tl.sum(e, axis=0), mask=inside)

def kernel_function(x):
    y = torch.empty_like(x)
    softmax_rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
"""

LINEAR_NEW = """
import torch
import torch.nn as nn

class ModelNew(nn.Module):
    def __init__(self, features, outputs, scale=2.0):
        super().__init__()
        self.linear = nn.Linear(features, outputs)
        self.register_buffer("shift", torch.rand(outputs))
        self.scale = scale

    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.linear.weight.t()) * self.scale + self.shift
"""


@dataclass
class Given:
    """Inputs in buffers of the judge."""

    arguments: list[m.Argument]
    exported: list[Exported | None]

    @property
    def tensors(self) -> list[Any]:
        return [each.tensor for each in self.exported if each is not None]


def lend(session: Session, worker: Worker, name: str, spec: m.TensorSpec) -> Exported:
    """A buffer that the worker has open."""
    exported = session.buffers.allocate(name, m.TensorSpec(shape=spec.shape, dtype=spec.dtype))
    worker.open([exported])
    return exported


def make_inputs(
    session: Session,
    worker: Worker,
    seed: int = 1,
    kind: m.ValueKind = m.ValueKind.GIVEN,
    prefix: str = "in",
) -> Given:
    """The problem's inputs in new buffers."""
    given = Given([], [])
    into: list[str | None] = []
    for index, spec in enumerate(worker.describe_inputs(seed)):
        if spec.tensor is None:
            given.arguments.append(m.ValueArgument(value=spec.value))
            given.exported.append(None)
            into.append(None)
        else:
            name = f"{prefix}{index}"
            given.arguments.append(m.BufferArgument(buffer=name))
            given.exported.append(lend(session, worker, name, spec.tensor))
            into.append(name)
    worker.make_inputs(seed, into, kind)
    return given


def outputs_of(session: Session, worker: Worker, called: m.Called, prefix: str) -> list[Any]:
    """What a call returned, in the judge's memory."""
    lent = [
        lend(session, worker, f"{prefix}{index}", spec) for index, spec in enumerate(called.outputs)
    ]
    worker.fetch([each.name for each in lent], call=called.call)
    return [each.tensor for each in lent]


def run_oracle(
    session: Session, worker: Worker, given: Given, prefix: str = "expected", **options: Any
) -> tuple[list[Any], m.OracleOutputs]:
    """The oracle's outputs, in the judge's memory."""
    inputs = list(given.arguments)
    described = worker.oracle(m.Oracle(inputs=inputs, method=options.get("method", "forward")))
    lent = [
        lend(session, worker, f"{prefix}{index}", spec)
        for index, spec in enumerate(described.outputs)
    ]
    into: Any = [each.name for each in lent]
    told = worker.oracle(m.Oracle(inputs=inputs, into=into, **options))
    return [each.tensor for each in lent], told


def load_problem(session: Session, source: str, **options: Any) -> tuple[Worker, m.Problem]:
    """A worker with the problem loaded."""
    worker = session.worker("problem")
    return worker, worker.load_problem(
        m.LoadProblem(source=source, device=session.device, **options)
    )


def load_kernel(
    session: Session,
    source: str,
    form: str = "kernel_function",
    *,
    problem: tuple[Worker, m.Problem] | None = None,
    dtype: str | None = None,
    seed: int = 0,
    prefix: str = "parameter",
) -> tuple[Worker, m.Kernel]:
    """A worker with a kernel loaded, given the problem's tensors and attributes."""
    worker = session.worker("candidate")
    told = problem[1] if problem else None
    lent = []
    if problem is not None and told is not None:
        for index, each in enumerate(told.parameters):
            lent.append(lend(session, problem[0], f"{prefix}{index}", each.tensor))
        problem[0].export_parameters([each.name for each in lent])
        worker.open(lent)
    command = m.LoadKernel(
        source=source,
        module_name="kernel",
        form=form,
        device=session.device,
        dtype=dtype,
        seed=seed,
        init_inputs=told.init_inputs if told else [],
        parameters=told.parameters if told else [],
        buffers=[each.name for each in lent],
        attributes=told.attributes if told else {},
        input_names=told.input_names if told else ["x"],
    )
    return worker, worker.load_kernel(command)


def share(worker: Worker, given: Given) -> Sequence[m.Argument]:
    """Let another worker open the same inputs."""
    worker.open([each for each in given.exported if each is not None])
    return given.arguments
