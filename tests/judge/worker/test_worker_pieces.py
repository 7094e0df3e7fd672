"""Parts of the worker by themselves: values as JSON, slices of the oracle, replaced functions."""

import inspect
import math
import py_compile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.evaluate.scan import scan
from judge.problem.kernel import KernelFile
from judge.problem.syntax import ProblemFileError
from judge.worker import messages as m
from judge.worker import modules, originals
from judge.worker.buffers import BadBufferError
from judge.worker.modules import MissingNameError, execute, member
from judge.worker.mutations import MutationError, mutated_inputs
from judge.worker.observe import Observer, compute_only
from judge.worker.oracle import Oracle
from judge.worker.outputs import OutputError, flatten, output_specs
from judge.worker.problem import LoadedProblem
from judge.worker.seeds import seed_everything
from judge.worker.values import NotEncodableError, decode, encode
from tests.judge.worker.little import LINEAR, POOL, SOFTMAX


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, 2.5, "text", True, None],
        (1, (2, [3, (4,)])),
        {"a": (1, 2), "b": {"c": []}},
        torch.bfloat16,
        torch.Size([2, 3]),
        math.inf,
        2**70,
    ],
)
def test_values_come_back_as_they_were(value: object) -> None:
    command = m.Call(inputs=[m.ValueArgument(value=encode(value))])
    read = m.COMMAND.validate_json(command.model_dump_json())
    assert isinstance(read, m.Call)
    argument = read.inputs[0]
    assert isinstance(argument, m.ValueArgument)
    back = decode(argument.value)
    assert back == value
    assert type(back) is (tuple if isinstance(value, torch.Size) else type(value))


def test_nan_comes_back_as_nan() -> None:
    line = m.ValueArgument(value=encode([math.nan])).model_dump_json()
    assert math.isnan(decode(m.ValueArgument.model_validate_json(line).value)[0])


@pytest.mark.parametrize("value", [object(), torch.zeros(1), {1: 2}, {"$tuple": 1}, b"x", {1}])
def test_what_json_cannot_carry_is_refused(value: object) -> None:
    with pytest.raises(NotEncodableError):
        encode([value])


def test_a_value_nested_in_itself_is_refused() -> None:
    value: list[object] = []
    value.append(value)
    with pytest.raises(NotEncodableError, match="too deeply"):
        encode(value)


def test_a_dtype_that_torch_does_not_know_is_an_error() -> None:
    with pytest.raises(ValueError, match="no dtype 'manual_seed'"):
        decode({"$dtype": "manual_seed"})


class Targets(dict[str, torch.Tensor]):
    """Stands for open buffers."""

    def write(self, name: str, tensor: torch.Tensor) -> None:
        self[name].copy_(tensor)


def loaded(source: str, folder: object) -> LoadedProblem:
    command = m.LoadProblem(source=source, module_name="problem", device="cpu")
    return LoadedProblem(command, folder)  # type: ignore[arg-type]


PRODUCT = """
import torch

class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b

def get_inputs():
    return [torch.rand(8, 8), torch.rand(8, 8)]

def get_init_inputs():
    return []
"""
NORMALIZED = PRODUCT.replace("a @ b", "(a - a.mean(0)) * b")
SHIFTED = PRODUCT.replace("a @ b", "a.roll(1, 0) * b")
SPELLED_OUT = PRODUCT.replace("a @ b", "(a + b).view(8, 2, 4).sum(-1)")
DOUBLED = PRODUCT.replace("a @ b", "torch.repeat_interleave(a + b, 2, dim=0)")


@pytest.mark.parametrize(
    ("source", "sliced"),
    [
        (LINEAR, {0}),
        (POOL, {0}),
        (SOFTMAX, {0}),
        (PRODUCT, {0}),
        (DOUBLED, {0, 1}),
        (NORMALIZED, set()),
        (SHIFTED, set()),
        (SPELLED_OUT, set()),
    ],
)
@pytest.mark.parametrize("chunks", [3, 100])
def test_the_oracle_is_sliced_only_where_slices_give_the_same(
    source: str, sliced: set[int], chunks: int, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = loaded(source, tmp_path)
    oracle, inputs = Oracle(problem), problem.inputs(1)
    (expected,) = oracle.run(m.Oracle(inputs=[], into=None), inputs, Targets()).outputs  # type: ignore[arg-type]
    whole = torch.full(expected.shape, math.nan, dtype=torch.float64)
    told = oracle.run(m.Oracle(inputs=[], into=["y"]), inputs, Targets(y=whole))  # type: ignore[arg-type]
    assert told.chunks == 1
    monkeypatch.setattr(Oracle, "_chunks_for_memory", lambda *_: chunks)
    parts = torch.full(expected.shape, math.nan, dtype=torch.float64)
    told = oracle.run(m.Oracle(inputs=[], into=["y"]), inputs, Targets(y=parts))  # type: ignore[arg-type]
    assert oracle._sliceable(inputs, "forward") == sliced
    rows = inputs[0].shape[0]
    assert told.chunks == (min(chunks, rows) if sliced else 1)
    assert told.outputs == [expected]
    assert not whole.isnan().any()
    assert torch.allclose(parts, whole, rtol=1e-12)


def test_the_oracle_takes_more_slices_when_memory_runs_out(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = loaded(SOFTMAX, tmp_path)
    oracle, inputs = Oracle(problem), problem.inputs(1)
    result = torch.empty(8, 20, dtype=torch.float64)
    evaluate = oracle._evaluate

    def scarce(part: list[torch.Tensor], task: object) -> list[torch.Tensor]:
        if part[0].shape[0] > 4:
            raise torch.OutOfMemoryError("no memory")
        return evaluate(part, task)  # type: ignore[arg-type]

    monkeypatch.setattr(oracle, "_evaluate", scarce)
    told = oracle.run(m.Oracle(inputs=[], into=["y"]), inputs, Targets(y=result))  # type: ignore[arg-type]
    assert told.chunks == 2
    assert torch.equal(result, torch.softmax(inputs[0].double(), -1))


def test_an_output_that_does_not_fit_its_buffer_is_refused(tmp_path: object) -> None:
    problem = loaded(SOFTMAX, tmp_path)
    with pytest.raises(BadBufferError, match=r"the output is float64\[8, 20\]"):
        Oracle(problem).run(
            m.Oracle(inputs=[], into=["y"]),
            problem.inputs(1),
            Targets(y=torch.empty(8, 20)),  # type: ignore[arg-type]
        )


def test_mutations_need_an_input_that_they_fit() -> None:
    inputs = [torch.rand(4), 3, torch.arange(3)]
    for mutation, message in (
        (m.Mutation(name="truncate", index=1), "input 1 is no tensor"),
        (m.Mutation(name="truncate", index=0, dim=1), "no dimension 1"),
        (m.Mutation(name="sparse", index=2), "no floating-point tensor"),
        (m.Mutation(name="sparse", index=3), "input 3 is no tensor"),
    ):
        with pytest.raises(MutationError, match=message):
            mutated_inputs(inputs, mutation)


def test_a_replaced_function_is_named_and_a_changed_body_as_well(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changed = originals.remember()
    assert changed() == []
    with monkeypatch.context() as patch:
        patch.setattr(time, "perf_counter", lambda: 0.0)
        patch.setattr(torch.Tensor, "copy_", lambda self, other: self)
        code = (lambda *args, **kwargs: True).__code__
        patch.setattr(torch.testing.assert_close, "__code__", code)
        assert changed() == [
            "time.perf_counter",
            "torch.testing.assert_close",
            "torch.Tensor.copy_",
        ]
    assert changed() == []


def test_torch_itself_replaces_nothing_that_is_watched() -> None:
    changed = originals.remember()
    torch.manual_seed(0)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    compiled(torch.zeros(2))
    assert changed() == []


def test_seeding_is_torchs_own_and_notes_nothing_for_devices_that_are_not_in_use() -> None:
    torch.manual_seed(5)
    expected, noted = torch.rand(3), torch.cuda._lazy_seed_tracker.manual_seed_all_cb
    seed_everything(5)
    assert torch.equal(torch.rand(3), expected)
    assert torch.cuda._lazy_seed_tracker.manual_seed_all_cb is noted


def test_operators_that_only_move_data_are_no_work() -> None:
    counts = {"aten::mm": 2, "aten::empty_like": 1, "aten::t": 3, "aten::copy_": 1, "other": 9}
    assert compute_only(counts) == {"aten.mm": 2}
    for name in ("sum", "softmax", "add_", "convolution", "sort", "index_select", "transpose_conv"):
        assert compute_only({f"aten::{name}": 1})


def test_the_call_happens_once_even_where_the_profiler_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = []

    def broken(**_: object) -> None:
        raise RuntimeError("no profiler here")

    monkeypatch.setattr(torch.profiler, "profile", broken)
    returned, fields = Observer("cpu", "ieee").watch(lambda: calls.append(1) or "result")
    assert (returned, calls) == ("result", [1])
    assert fields["notes"] == ["the profiler failed: RuntimeError: no profiler here"]


@pytest.mark.parametrize(
    ("where", "stream", "card"),
    [([(0, 7), (0, 7)], False, False), ([(0, 7), (0, 9)], True, False), ([(1, 7)], False, True)],
)
def test_work_on_other_streams_and_cards_is_told(
    monkeypatch: pytest.MonkeyPatch, where: list[tuple[int, int]], stream: bool, card: bool
) -> None:
    def event(device: int, resource: int) -> Any:
        return SimpleNamespace(
            name="k", device_type=torch.autograd.DeviceType.CUDA, device_index=device,
            device_resource_id=resource,
        )  # fmt: skip

    observer = Observer("cpu", "ieee")
    marker = event(0, 7)
    monkeypatch.setattr(observer, "_profile_call", lambda _: [marker, *(event(*w) for w in where)])
    _, fields = observer.watch(lambda: None)
    assert (fields["other_stream"], fields["other_card"]) == (stream, card)


def test_outputs_are_flattened_in_order() -> None:
    a, b, c = torch.zeros(1), torch.ones(2), torch.ones(3, requires_grad=True)
    flat = flatten((a, None, {"x": [b], "y": c}))
    assert [each.shape[0] for each in flat] == [1, 2, 3]
    assert not any(each.requires_grad for each in flat)
    with pytest.raises(OutputError, match="more than 200"):
        flatten([a] * 201)


def test_nothing_of_the_candidate_runs_where_outputs_are_looked_at() -> None:
    """Otherwise it could do the work there, when its time has been taken."""
    asked = []

    class List(list):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            asked.append("list")
            return iter([torch.ones(2)])

    class Pair(tuple):  # type: ignore[type-arg]
        def __iter__(self) -> Any:
            asked.append("tuple")
            return iter([torch.ones(2)])

    class Names(dict):  # type: ignore[type-arg]
        def values(self) -> Any:
            asked.append("dict")
            return [torch.ones(2)]

    plain = torch.zeros(2)
    plain.detach = lambda: asked.append("detach") or torch.ones(2)  # type: ignore[method-assign]
    for returned in (List([plain]), Pair([plain]), Names(a=plain), plain, [List([plain])]):
        assert float(flatten(returned)[0].sum()) == 0.0
    assert asked == []


def test_what_says_that_it_is_a_list_is_none() -> None:
    class Liar:
        __class__ = list  # type: ignore[assignment]

        def __iter__(self) -> Any:
            return iter([torch.ones(2)])

    with pytest.raises(OutputError, match="Liar, not a tensor"):
        flatten(Liar())


def test_outputs_that_show_more_than_they_hold_are_told() -> None:
    whole = torch.zeros(4, 6)
    dense = [whole, whole.t(), whole[:, ::2], whole[:, :1], torch.zeros(0, 3), torch.zeros(())]
    assert not any(each.overlaps for each in output_specs(dense))
    shown = [whole[:1].expand(4, 6), torch.zeros(()).expand(3), torch.zeros(9).unfold(0, 4, 1)]
    assert all(each.overlaps for each in output_specs(shown))


def test_a_module_is_executed_anew_under_a_name_of_its_own(tmp_path: object) -> None:
    one = execute("x = 1", "kernel-1.py", tmp_path)  # type: ignore[arg-type]
    two = execute("x = 2", "kernel-1.py", tmp_path)  # type: ignore[arg-type]
    assert (one.x, two.x) == (1, 2)
    assert one.__file__ != two.__file__
    with pytest.raises(MissingNameError, match="does not define y"):
        member(one, "y")


UTF7 = "# -*- coding: utf-7 -*-\n"


@pytest.mark.parametrize(
    "cookie", [UTF7, "\n# vim: set fileencoding=utf_7 :\n", "\f#coding=latin-1\n"]
)
def test_a_text_that_python_would_read_otherwise_is_refused(cookie: str, tmp_path: Path) -> None:
    """+AAo- is a line break in UTF-7: Python would run what the scan takes for a comment."""
    hidden = cookie + "LOADED = 1\n# +AAo-LOADED = 2\n"
    with pytest.raises(ProblemFileError, match="declares the encoding"):
        KernelFile.parse(hidden + "def kernel_function(x):\n    return x\n")
    with pytest.raises(ProblemFileError, match="declares the encoding"):
        execute(hidden, "kernel", tmp_path)


@pytest.mark.parametrize("odd", ["\ufeffx = 1\n", "x = 1\0\n", "x = 1\n\x1a = 2\n"])
def test_marks_and_null_bytes_are_refused_where_they_are_scanned_and_where_they_run(
    odd: str, tmp_path: Path
) -> None:
    with pytest.raises(ProblemFileError):
        scan(odd)
    with pytest.raises(ProblemFileError):
        execute(odd, "kernel", tmp_path)


def test_source_text_is_that_of_the_scan_whatever_becomes_of_the_file(tmp_path: Path) -> None:
    text = "# coding: utf-8\n\f\ndef first():\n    return 1\r\n\rdef second():\n    return 'ä\x0b'"
    module = execute(text, "kernel", tmp_path)
    Path(module.__file__ or "").write_bytes(b"# -*- coding: utf-7 -*-\n" + b"x\n" * 9)
    assert inspect.getsource(module.first) == "def first():\n    return 1\n"
    assert inspect.getsource(module.second) == "def second():\n    return 'ä\x0b'\n"
    assert module.second() == "ä\x0b"


def test_bytecode_that_lies_beside_a_file_is_not_run(tmp_path: Path) -> None:
    number = next(modules._numbers) + 1
    source = tmp_path / f"kernel_{number}.py"
    source.write_text("LOADED = 'hidden'\n")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(source), invalidation_mode=unchecked)
    assert execute("LOADED = 'scanned'\n", "kernel", tmp_path).LOADED == "scanned"
