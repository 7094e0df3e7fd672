"""The profiled program, with what needs a GPU taken out: what it calls, and when it is marked."""

import pytest
import torch

from judge.profile import target
from judge.profile.spec import Answer, Spec
from judge.profile.subject import load

PROBLEM = """
import torch
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)
    def forward(self, x):
        return self.linear(x)
def get_inputs():
    return [torch.rand(3, 8)]
def get_init_inputs():
    return [8]
"""
KERNEL = """
import torch
CALLS = []
def kernel_function(x, weight, bias):
    CALLS.append(x)
    return x @ weight.T + bias
"""
MODEL_NEW = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = torch.nn.Linear(n, n)
    def forward(self, x):
        return torch.addmm(self.linear.bias, x, self.linear.weight.T)
"""


def spec(text, form, **changes):
    return Spec(
        problem_source=PROBLEM, kernel_source=text, form=form, device="cpu", seed=5, **changes
    )


@pytest.mark.parametrize(("text", "form"), [(KERNEL, "kernel_function"), (MODEL_NEW, "ModelNew")])
def test_the_kernel_file_gets_the_problems_inputs_and_parameters(text, form, tmp_path):
    got = load(spec(text, form), tmp_path)()
    torch.manual_seed(5)
    model = torch.nn.Linear(8, 8)
    torch.manual_seed(5)
    expected = model(torch.rand(3, 8))
    torch.testing.assert_close(got, expected)


def test_inputs_are_cast_as_in_an_evaluation(tmp_path):
    assert load(spec(KERNEL, "kernel_function", dtype="bfloat16"), tmp_path)().dtype is (
        torch.bfloat16
    )


def test_only_the_counted_calls_are_between_the_marks(tmp_path, monkeypatch):
    events = []
    monkeypatch.setattr(torch.cuda, "set_device", lambda _: None)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("wait"))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "a card")
    monkeypatch.setattr(torch.cuda.profiler, "start", lambda: events.append("start"))
    monkeypatch.setattr(torch.cuda.profiler, "stop", lambda: events.append("stop"))
    monkeypatch.setattr(target, "device_architecture", lambda _: "sm_90a")
    monkeypatch.setattr(target, "load", lambda *_: lambda: events.append("call"))
    (tmp_path / "spec.json").write_text(
        spec(KERNEL, "kernel_function", warmup=2, calls=3).model_dump_json()
    )
    target.main(str(tmp_path / "spec.json"), str(tmp_path / "answer.json"))
    assert events == [
        "call", "call", "wait", "start", "call", "call", "call", "wait", "stop",
    ]  # fmt: skip
    answer = Answer.model_validate_json((tmp_path / "answer.json").read_text())
    assert (answer.gpu, answer.architecture) == ("a card", "sm_90a")
