"""One case against processes that do not play along, and which cases there are."""

from types import SimpleNamespace

import pytest
import torch

from judge.evaluate.buffers import Exporter
from judge.evaluate.cases import EVERY_KIND, PlannedCase, PlannedShape, plan
from judge.evaluate.correctness import Contestant
from judge.evaluate.prepared import Prepared
from judge.evaluate.rules import Reference
from judge.evaluate.session import CommandFailedError, Worker, WorkerDiedError
from judge.evaluate.stage import Settings
from judge.problem.judge import JudgeDeclaration
from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.worker import messages as m

PROBLEM = """
import torch

ROWS = {rows}
COLS = {cols}


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return []
"""
SHAPE = (4, 50)
SETTINGS = Settings(
    device="cpu", dtype=None, precision="ieee", model_seed=1, refill_seed=2,
    declaration=JudgeDeclaration(),
)  # fmt: skip
KERNEL = KernelFile.parse("def kernel_function(x):\n    return x * 2\n")


class Process(Worker):
    """A worker in the test's own process: doubles its input, and may be told to do worse."""

    name = "candidate"
    alive = True

    def __init__(self):
        self._exporter, self._prefix, self._groups, self._lend_count = None, "", {}, 0
        self.buffers = {}
        self.outputs = {}
        self.polled = []

    def open(self, exported):
        self.buffers |= {each.name: each.tensor for each in exported}

    def close_buffers(self, names):
        for name in names:
            del self.buffers[name]

    def compute(self, x):
        return [x * 2]

    def call(self, inputs, *, poison, **_):
        self.polled.append((inputs[0].buffer, poison))
        outputs = self.compute(self.buffers[inputs[0].buffer])
        self.outputs[len(self.outputs)] = outputs
        specs = [
            m.OutputSpec(
                shape=tuple(each.shape), dtype=str(each.dtype).removeprefix("torch."), device="cpu"
            )
            for each in outputs
        ]
        return m.Called(call=len(self.outputs) - 1, outputs=specs, seconds=0.0)

    def fetch(self, into, *, call):
        for name, tensor in zip(into, self.outputs[call], strict=True):
            self.buffers[name].copy_(tensor)
        self.fetched = into

    def drop(self, calls):
        pass

    def stop(self):
        pass


@pytest.fixture
def run():
    with Exporter("cpu") as exporter:
        workers = []

        def run(process, seed=3, *, label="full", aliases=False, known=None):
            contestant = known
            if contestant is None:
                process._exporter, process._prefix = exporter, str(len(workers))
                workers.append(process)
                contestant = Contestant(process, KERNEL, SETTINGS, call_seconds=5)
            stage = SimpleNamespace(
                shape=PlannedShape(label, "", {}), aliases=aliases, writes=False
            )
            planned = PlannedCase(m.ValueKind.NORMAL, seed, 0, poison=True, observe=False)
            found = contestant.run(stage, prepared(seed), planned)
            return found, contestant

        yield run
        for worker in workers:
            worker.take_back(*worker._groups)


def prepared(seed):
    torch.manual_seed(seed)
    x = torch.randn(SHAPE)
    reference = Reference([x.double() * 2], [torch.float32], SETTINGS.declaration)
    eager = reference.check([x * 2], reference.eager_limits())
    spec = m.TensorSpec(shape=SHAPE, dtype="float32")
    return Prepared(
        m.ValueKind.NORMAL,
        inputs=[m.InputSpec(name="x", tensor=spec)],
        pristine=[x],
        outputs=[spec],
        reference=reference,
        eager=eager,
        limits=reference.candidate_limits(eager),
        exact=frozenset({0}),
    )


def test_a_process_that_plays_along_passes_with_the_same_memory_every_time(run):
    process = Process()
    found, contestant = run(process)
    assert found.case.passed and found.case.counted and not found.cheats
    for seed in (4, 5):
        assert run(process, seed, known=contestant)[0].case.passed
    assert len({name for name, _ in process.polled}) == 1


def test_outputs_that_are_not_copied_are_not_taken_from_before(run):
    process = Process()
    _, contestant = run(process)
    process.fetch = lambda into, *, call: None
    found, _ = run(process, 3, known=contestant)
    assert "unwritten" in found.case.problem


def test_what_a_process_writes_after_the_fetch_does_not_count(run):
    class Late(Process):
        def fetch(self, into, *, call):
            self.into, self.right = into, self.outputs[call]

        def drop(self, calls):
            for name, tensor in zip(self.into, self.right, strict=True):
                self.buffers[name].copy_(tensor)

    found, _ = run(Late())
    assert not found.case.passed


def test_an_output_that_shares_memory_with_the_input_is_caught(run):
    class Shares(Process):
        def compute(self, x):
            return [x.mul_(2)]

    found, _ = run(Shares())
    assert not found.case.passed
    assert any("read before the inputs change" in cheat for cheat in found.cheats)
    assert any("input 'x'" in cheat for cheat in found.cheats)


def test_a_lazy_output_is_told_from_a_wrong_one(run):
    class Lazy(Process):
        def call(self, inputs, **kwargs):
            self.pending = self.buffers[inputs[0].buffer]
            return super().call(inputs, **kwargs)

        def fetch(self, into, *, call):
            self.buffers[into[0]].copy_(self.pending * 2)

    class Wrong(Process):
        def compute(self, x):
            return [x * 2.1]

    assert "computed late" in run(Lazy())[0].cheats[0]
    found, _ = run(Wrong())
    assert (found.cheats, found.case.passed) == ([], False)


def test_the_last_call_s_outputs_are_recognised(run):
    class Cached(Process):
        kept = None

        def compute(self, x):
            self.kept = self.kept or [x * 2]
            return self.kept

    process = Cached()
    first, contestant = run(process)
    assert first.case.passed
    again, _ = run(process, 9, known=contestant)
    assert "outputs of an earlier call" in again.cheats[0]


def test_a_difference_where_nothing_is_rounded_is_kept_for_later(run):
    class Near(Process):
        def compute(self, x):
            return [x * 2 * (1 + 2**-22)]

    found, _ = run(Near())
    assert found.case.passed
    assert "although no rounding is needed" in found.inexact[0][0]
    assert found.inexact[0][1]


@pytest.mark.parametrize(
    ("error", "label", "refused"),
    [
        (CommandFailedError("candidate", "call", "ValueError", "no"), "variant", True),
        (CommandFailedError("candidate", "call", "ValueError", "no"), "full", False),
        (
            CommandFailedError("candidate", "call", "RuntimeError", "CUDA error: misaligned"),
            "variant", False,
        ),
        (WorkerDiedError("candidate", "call", "died of SIGSEGV"), "variant", False),
    ],
)  # fmt: skip
def test_declining_a_shape_is_not_crashing_on_it(run, error, label, refused):
    class Raises(Process):
        def compute(self, x):
            raise error

    found, _ = run(Raises(), label=label)
    assert (found.case.passed, found.case.refused) == (False, refused)


def test_claims_about_outputs_are_held_against_eager_s(run):
    class Claims(Process):
        def compute(self, x):
            return [(x * 2).half()]

    assert "dtype float16" in run(Claims())[0].case.problem


def problem(rows, cols):
    return ProblemFile.parse(PROBLEM.format(rows=rows, cols=cols))


def test_every_plan_has_secret_seeds_all_kinds_and_the_given_shape_last():
    shapes = plan(problem(4096, 65536))
    assert [each.label for each in shapes].count("reduced") == 2
    assert shapes[-1].label == "full"
    assert [case.kind for case in shapes[0].cases] == list(EVERY_KIND)
    assert [case.kind.value for case in shapes[-1].cases] == ["normal", "given"]
    cases = [case for each in shapes for case in each.cases]
    assert len({case.seed for case in cases}) >= 5
    assert {case.poison for case in cases} == {True, False}
    assert 0 < sum(case.observe for case in cases) < len(cases)
    other = plan(problem(4096, 65536))
    assert not {case.seed for case in cases} & {c.seed for each in other for c in each.cases}


def test_the_interpreter_gets_small_shapes_only():
    shapes = plan(problem(4096, 65536), tiny=True)
    assert "full" not in {each.label for each in shapes}
    for each in shapes:
        rows, cols = each.constants.get("ROWS", 4096), each.constants.get("COLS", 65536)
        assert rows * cols <= 4096
    assert plan(problem(4, 8), tiny=True)[-1].label == "full"


def test_where_no_shape_can_be_changed_the_given_one_gets_every_kind():
    fixed = ProblemFile.parse(
        PROBLEM.format(rows=4, cols=8).replace("ROWS, COLS", "torch.eye(1).shape")
    )
    (shape,) = plan(fixed)
    assert [case.kind for case in shape.cases] == list(EVERY_KIND)
