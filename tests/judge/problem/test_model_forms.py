"""The problem's own model as a kernel file, in each of its forms."""

from typing import Any

import pytest
import torch

from judge.problem.forms import COMPILED, as_kernel
from judge.problem.kernel import Form, KernelFile
from judge.worker.contender import load_model, warm_up

PROBLEM = """import torch


class Model(torch.nn.Module):
    def __init__(self, size, scale=1.0):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
        self.scale = scale

    def forward(self, x):
        return self.scale * self.linear(x)


def get_inputs():
    return [torch.rand(2, 4)]


def get_init_inputs():
    return [4]"""


@pytest.mark.parametrize("form", ["eager", "compile", "max-autotune"])
def test_the_file_is_the_model_in_that_form(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[dict[str, Any]] = []
    calls: list[tuple[Any, ...]] = []

    def compiling(function: Any, **options: Any) -> Any:
        compiled.append(options)
        return lambda *inputs: (calls.append(inputs), function(*inputs))[1]

    monkeypatch.setattr(torch, "compile", compiling)
    text = as_kernel(PROBLEM, form)  # type: ignore[arg-type]
    assert text.startswith(PROBLEM)
    assert KernelFile.parse(text).form is Form.MODEL_NEW
    scope: dict[str, Any] = {}
    exec(text, scope)
    model, plain = scope["ModelNew"](4, scale=2.0), scope["Model"](4, scale=2.0)
    plain.load_state_dict(model.state_dict())
    (x,) = scope["get_inputs"]()
    torch.testing.assert_close(model(x), plain(x))
    # As the judge compiles it: the file is what was timed.
    mine = list(compiled)
    load_model(plain, form, None)  # type: ignore[arg-type]
    assert mine == compiled[len(mine) :] == ([COMPILED[form]] if form != "eager" else [])
    assert len(calls) == (form != "eager")


@pytest.mark.parametrize(
    ("form", "device", "options"),
    [
        ("eager", "cuda:0", None),
        ("compile", "cpu", None),
        ("compile", "cuda:0", COMPILED["compile"]),
        ("max-autotune", "cuda:0", COMPILED["max-autotune"]),
    ],
)
def test_the_compiler_is_warmed_up_by_a_function_of_its_own_on_a_gpu_alone(
    form: str, device: str, options: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, zeros = [], torch.zeros

    def compiling(function: Any, **given: Any) -> Any:
        compiled.append(given)
        return torch._dynamo.optimize("eager", nopython=True)(function)

    monkeypatch.setattr(torch, "compile", compiling)
    monkeypatch.setattr(torch, "zeros", lambda size, device: zeros(size))  # there is no GPU here
    warm_up(form, device)  # type: ignore[arg-type]
    assert compiled == ([] if options is None else [options])
