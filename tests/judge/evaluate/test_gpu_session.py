"""Workers on a GPU: exported device memory, poison, launches seen and timed, oracle in slices."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from judge.evaluate.buffers import Exporter, pristine, refill, unchanged
from judge.evaluate.session import CommandFailedError, Session, Worker
from judge.sandbox.launch import Zygote
from judge.worker import cudart
from judge.worker import messages as m
from judge.worker.oracle import Oracle
from judge.worker.problem import LoadedProblem
from tests.judge.worker.little import (
    LINEAR,
    LINEAR_NEW,
    SOFTMAX,
    SOFTMAX_TRITON,
    Given,
    lend,
    load_kernel,
    load_problem,
    make_inputs,
    outputs_of,
    run_oracle,
    share,
)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

DEVICE = "cuda:0"


@pytest.fixture(scope="module")
def compiling() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture
def session(compiling: Zygote) -> Iterator[Session]:
    with Session(DEVICE, zygote=compiling) as session:
        yield session


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float64", "int64", "bool"])
def test_exported_memory_is_the_judges_own_and_refilled(dtype: str) -> None:
    with Exporter(DEVICE) as exporter:
        spec = m.TensorSpec(shape=(3, 5), dtype=dtype)
        one, other = exporter.allocate("a", spec), exporter.allocate("b", spec)
        assert one.address % cudart.IPC_GRANULE == 0
        assert abs(one.address - other.address) >= cudart.IPC_GRANULE
        assert one.tensor.data_ptr() == one.address
        assert one.tensor.dtype == getattr(torch, dtype)
        for each in (one, other):
            each.flat.copy_(torch.arange(each.flat.numel(), device=DEVICE) % 2)
        kept = pristine(one)
        refill(one, seed=1)
        assert not unchanged(one, kept)
        assert unchanged(other, kept)


def test_what_cannot_be_allocated_is_an_error() -> None:
    with Exporter(DEVICE) as exporter:
        with pytest.raises(cudart.CudaError, match="cudaMalloc"):
            exporter.allocate("x", m.TensorSpec(shape=(1 << 46,), dtype="uint8"))
        exporter.allocate("y", m.TensorSpec(shape=(4,), dtype="uint8")).tensor.fill_(1)
        torch.cuda.synchronize()


def test_a_worker_reads_and_writes_the_judges_memory(session: Session) -> None:
    problem, _ = load_problem(session, SOFTMAX, dtype="bfloat16")
    given = make_inputs(session, problem)
    assert given.tensors[0].is_cuda
    assert given.tensors[0].float().std() > 0.1
    (expected,), told = run_oracle(session, problem, given)
    assert told.precision == "float64"
    assert torch.equal(expected, torch.softmax(given.tensors[0].double(), -1))
    problem.contender("eager")
    called = problem.call(given.arguments)
    assert called.outputs[0].device == DEVICE
    (actual,) = outputs_of(session, problem, called, "eager")
    assert torch.allclose(actual.double(), expected, rtol=0.01)
    problem.drop([called.call])
    problem.close_buffers(["in0"])
    session.buffers.free(["in0"])
    again = lend(session, problem, "in0", m.TensorSpec(shape=(8, 20), dtype="bfloat16"))
    problem.make_inputs(1, ["in0"])
    assert again.tensor.float().std() > 0.1


def test_a_handle_that_is_no_more_cannot_be_opened(session: Session) -> None:
    problem, _ = load_problem(session, SOFTMAX)
    lent = session.buffers.allocate("gone", m.TensorSpec(shape=(4,), dtype="float32"))
    session.buffers.free(["gone"])
    with pytest.raises(CommandFailedError, match="cudaIpcOpenMemHandle"):
        problem.open([lent])
    assert problem.describe_inputs(1)


@pytest.mark.parametrize("kind", list(m.ValueKind))
def test_kinds_are_made_on_the_device(session: Session, kind: m.ValueKind) -> None:
    problem, _ = load_problem(session, SOFTMAX, dtype="bfloat16")
    values = make_inputs(session, problem, kind=kind).tensors[0].double()
    largest = float(values.abs().max())
    within = {
        m.ValueKind.GIVEN: (0.5, 1),
        m.ValueKind.NORMAL: (1.5, 6),
        m.ValueKind.LARGE: (2.0**39, 2.0**40),
        m.ValueKind.TINY: (2.0**-61, 2.0**-60),
        m.ValueKind.ZERO: (0, 0),
        m.ValueKind.NEGATIVE: (0.5, 1),
        m.ValueKind.INF: (float("inf"), float("inf")),
        m.ValueKind.UNEVEN: (2.0**-10, 1),
        m.ValueKind.SHIFTED: (33, 38),
        m.ValueKind.APART: (1.5, 38),
    }[kind]
    assert within[0] <= largest <= within[1]


def _candidate(session: Session, source: str) -> tuple[Worker, Given]:
    problem, _ = load_problem(session, SOFTMAX)
    given = make_inputs(session, problem)
    candidate, _ = load_kernel(session, source)
    share(candidate, given)
    return candidate, given


def test_a_triton_kernel_is_compiled_run_and_seen(session: Session) -> None:
    candidate, given = _candidate(session, SOFTMAX_TRITON)
    called = candidate.call(given.arguments, poison=True)
    (actual,) = outputs_of(session, candidate, called, "out")
    assert torch.allclose(actual, torch.softmax(given.tensors[0], -1), rtol=1e-5)
    observed = candidate.call(given.arguments, observe=True).observed
    assert observed.triton_launches == {"softmax_rows": 1}
    assert observed.kernels == {"softmax_rows": 1}
    assert observed.other_stream is False
    assert observed.aten == {}
    assert observed.patched == []
    assert observed.notes == []


ON_ANOTHER_STREAM = """
import torch

side = torch.cuda.Stream()

def kernel_function(x):
    with torch.cuda.stream(side):
        return torch.softmax(x, -1)
"""


def test_work_on_another_stream_is_seen(session: Session) -> None:
    candidate, given = _candidate(session, ON_ANOTHER_STREAM)
    observed = candidate.call(given.arguments, observe=True).observed
    assert observed.other_stream is True
    assert any("softmax" in name.lower() for name in observed.kernels)
    assert "aten.softmax" in observed.aten


FORGETS = """
import torch

def kernel_function(x):
    small = torch.empty(1000, device=x.device)
    large = torch.empty(64 << 20, dtype=torch.bfloat16, device=x.device)
    return small, large
"""


def test_memory_from_the_allocator_is_poisoned(session: Session) -> None:
    candidate, given = _candidate(session, FORGETS)
    called = candidate.call(given.arguments, poison=True)
    for tensor in outputs_of(session, candidate, called, "out"):
        assert tensor.isnan().all()


def test_model_new_gets_the_state_dict(session: Session) -> None:
    problem = load_problem(session, LINEAR, seed=3)
    given = make_inputs(session, problem[0])
    (expected,), _ = run_oracle(session, problem[0], given)
    candidate, _ = load_kernel(session, LINEAR_NEW, "ModelNew", problem=problem, seed=99)
    called = candidate.call(share(candidate, given))
    (actual,) = outputs_of(session, candidate, called, "out")
    assert torch.allclose(actual.double(), expected, rtol=1e-4, atol=1e-5)


CUDA_FILE = """/*
---
entry: double_it
inputs: [x]
outputs:
  - {name: y, like: x}
arguments: [x, y, int64 x.numel, stream]
---
*/
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}

extern "C" int double_it(const void* x, void* y, long long n, cudaStream_t stream) {
    twice<<<(unsigned)((n + 255) / 256), 256, 0, stream>>>((const float*)x, (float*)y, n);
    return (int)cudaGetLastError();
}
"""


def test_a_lone_cuda_file_is_compiled_in_the_sandbox(session: Session) -> None:
    problem, _ = load_problem(session, SOFTMAX)
    given = make_inputs(session, problem)
    candidate, _ = load_kernel(session, CUDA_FILE, "cuda")
    called = candidate.call(share(candidate, given))
    (actual,) = outputs_of(session, candidate, called, "out")
    assert torch.equal(actual, given.tensors[0] * 2)


@pytest.mark.parametrize("method", ["clock", "events", "graph"])
def test_launches_are_timed_and_their_outputs_fetched(session: Session, method: str) -> None:
    problem, _ = load_problem(session, SOFTMAX)
    sets = [make_inputs(session, problem, seed, prefix=f"s{seed}_") for seed in (1, 2, 3)]
    candidate, _ = load_kernel(session, SOFTMAX_TRITON)
    arguments = [list(share(candidate, each)) for each in sets]
    assert candidate.probe(arguments[0]).capturable
    order = [0, 1, 2] * 4
    command = m.Time(
        sets=arguments,
        order=order,
        method=method,  # type: ignore[arg-type]
        per_replay=3 if method == "graph" else 1,
        hold_cycles=0 if method == "clock" else 200_000,
        keep=True,
    )
    candidate.time(command)
    for each in sets:  # the graph is replayed on other contents than it was captured on
        problem.make_inputs(7, [each.exported[0].name if each.exported[0] else None])
    times = candidate.time(command)
    assert len(times.ms) == (4 if method == "graph" else 12)
    assert all(0 < ms < 50 for ms in times.ms)
    out = lend(session, candidate, "out", times.outputs[0])
    for launch in range(times.kept):
        candidate.fetch(["out"], launch=launch)
        index = order[launch]
        assert torch.allclose(out.tensor, torch.softmax(sets[index].tensors[0], -1), rtol=1e-5)


NOT_CAPTURABLE = """
def kernel_function(x):
    return x / x.sum().item()
"""


def test_a_kernel_that_waits_cannot_be_captured_and_goes_on(session: Session) -> None:
    candidate, given = _candidate(session, NOT_CAPTURABLE)
    told = candidate.probe(given.arguments)
    assert not told.capturable
    assert told.reason
    called = candidate.call(given.arguments)
    (actual,) = outputs_of(session, candidate, called, "out")
    assert torch.allclose(actual, given.tensors[0] / given.tensors[0].sum())


@pytest.mark.parametrize("form", ["compile", "max-autotune"])
def test_the_compiled_model_agrees_and_replaces_nothing(session: Session, form: str) -> None:
    problem, _ = load_problem(session, LINEAR)
    given = make_inputs(session, problem)
    (expected,), _ = run_oracle(session, problem, given)
    problem.contender(form)  # type: ignore[arg-type]
    called = problem.call(given.arguments)
    (actual,) = outputs_of(session, problem, called, "out")
    assert torch.allclose(actual.double(), expected, rtol=1e-4, atol=1e-5)
    assert called.observed.patched == []


def test_an_illegal_access_is_reported_and_the_worker_can_be_replaced(session: Session) -> None:
    wild = SOFTMAX_TRITON.replace("tl.store(y + row", "tl.store(y + (1 << 40) + row")
    candidate, given = _candidate(session, wild)
    with pytest.raises(CommandFailedError, match="illegal memory access"):
        candidate.call(given.arguments)
    fresh, _ = load_kernel(session, SOFTMAX_TRITON)
    called = fresh.call(share(fresh, given))
    (actual,) = outputs_of(session, fresh, called, "fresh")
    assert torch.allclose(actual, torch.softmax(given.tensors[0], -1), rtol=1e-5)


class _Targets(dict[str, torch.Tensor]):
    """Stands for open buffers."""


def test_the_oracle_is_sliced_where_memory_is_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = SOFTMAX.replace("8, 20", "4096, 65536")
    command = m.LoadProblem(source=big, module_name="problem", device=DEVICE, dtype="bfloat16")
    problem = LoadedProblem(command, tmp_path)
    oracle, inputs = Oracle(problem), problem.inputs(1)
    result = torch.empty(4096, 65536, dtype=torch.float64, device=DEVICE)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (2 << 30, 80 << 30))
    told = oracle.run(m.Oracle(inputs=[], into=["y"]), inputs, _Targets(y=result))  # type: ignore[arg-type]
    # 2^28 inputs, as many outputs, three times 8 bytes: 12 GiB in halves of 2 GiB.
    assert told.chunks == 12
    for rows in (slice(0, 2), slice(2047, 2049), slice(4094, 4096)):
        assert torch.equal(result[rows], torch.softmax(inputs[0][rows].double(), -1))


def test_operations_are_counted_without_memory(session: Session) -> None:
    huge = LINEAR.replace("M, N, K = 6, 16, 4", "M, N, K = 1 << 30, 4096, 4")
    problem, _ = load_problem(session, huge, dtype="bfloat16")
    assert problem.describe_inputs(1)[0].tensor == m.TensorSpec(
        shape=(1 << 30, 4096), dtype="bfloat16"
    )
    assert problem.flops().flops == 2.0 * (1 << 30) * 4096 * 4
