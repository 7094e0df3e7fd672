"""A module is read by its syntax tree: operators, shapes and work, whatever the text holds."""

import ast
import time

import pytest

from kb.errors import InvalidInputError
from kb.problems.analysis import analyse
from kb.problems.facts import bound_of, fact_lines, gpu_spec
from kb.problems.reading import is_problem, read_problem

BLOCK = """
import torch
from torch import nn
import torch.nn.functional as F

class Gate(nn.Module):
    def __init__(self, width, inner=None):
        super().__init__()
        inner = inner or 2 * width
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width, bias=False)
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.down(F.silu(self.up(x))) * self.scale

class Model(nn.Module):
    def __init__(self, width: int, depth: int):
        super().__init__()
        blocks = []
        for n in range(depth):
            blocks.append(Gate(width, inner=width * (n + 1)))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        b, s, c = x.shape
        for i, block in enumerate(self.blocks):
            x = x + block(x) if i else block(x)
        return self.norm(x).view(b * s, -1)

width, depth = 64, 3
def get_inputs():
    return [torch.randn(4, 2 ** 3, width, dtype=torch.float16)]
def get_init_inputs():
    return [width, depth]
"""


def test_operators_are_recorded_in_order_with_their_shapes():
    problem = read_problem(BLOCK)
    assert [op.name for op in problem.operators] == [
        "linear", "silu", "linear", "mul",
        "linear", "silu", "linear", "mul", "add",
        "linear", "silu", "linear", "mul", "add", "layer_norm",
    ]  # fmt: skip
    assert problem.operators[9].outputs[0].shape == (4, 8, 192)
    assert problem.outputs[0].shape == (32, 64)
    assert problem.inputs[0].dtype == "float16"
    assert problem.unknown == ()
    assert problem.whole


FORWARDS = [
    ("F.conv2d(x, self.w, stride=2, padding=1, groups=2)", "w = torch.randn(6, 2, 3, 3)"),
    (
        "F.conv_transpose2d(x, self.w, stride=(2, 3), output_padding=1)",
        "w = torch.randn(4, 5, 3, 2)",
    ),
    ("F.max_pool2d(x, 3, 2, 1, ceil_mode=True)", ""),
    ("F.avg_pool2d(x, (2, 3))", ""),
    ("F.adaptive_avg_pool2d(x, (1, None))", ""),
    ("x.transpose(1, -1).flatten(2)", ""),
    ("x.permute(0, 2, 3, 1)[..., :2].reshape(-1, 2).softmax(-1)", ""),
    ("torch.cat([x, F.pad(x, (1, 1, 2, 0))[:, :, :9, 1:12]], dim=1).sum((2, 3), keepdim=True)", ""),
    ("torch.einsum('nchw,cd->ndhw', x, self.w)", "w = torch.randn(4, 7)"),
    ("x.unsqueeze(2).expand(-1, -1, 5, -1, -1).mean(1)", ""),
    ("torch.matmul(x, self.w)", "w = torch.randn(11, 8)"),
    ("torch.stack(x.chunk(2, dim=1), 0).squeeze(1).max(dim=-1)[0]", ""),
    ("F.glu(x, 1) / torch.norm(x[:, :2], p=2, dim=1, keepdim=True)", ""),
    ("F.interpolate(x, scale_factor=2)", ""),
    ("x.view(x.size(0), 2, -1).std(-1).clamp(min=0)", ""),
]


@pytest.mark.parametrize(("expression", "weight"), FORWARDS)
def test_shapes_are_those_that_torch_computes(expression, weight):
    torch = pytest.importorskip("torch")
    functional = torch.nn.functional
    text = (
        "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
        "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {'self.' + weight if weight else 'pass'}\n"
        f"    def forward(self, x):\n        return {expression}\n"
        "def get_inputs():\n    return [torch.randn(3, 4, 9, 11)]\n"
    )
    problem = read_problem(text)
    space = {"torch": torch, "F": functional, "x": torch.randn(3, 4, 9, 11, device="meta")}
    holder = type("Holder", (), {})()
    if weight:
        holder.w = eval(weight.partition("=")[2], {"torch": torch}).to("meta")
    expected = eval(expression, space | {"self": holder})
    assert problem.outputs[0].shape == tuple(expected.shape)
    assert problem.unknown == ()


@pytest.mark.parametrize(
    "expression",
    [
        "torch.normal(0, 1, size=(4, 8))",
        "torch.normal(0.0, 1.0, (4, 8))",
        "torch.normal(mean=0.0, std=1.0, size=(4, 8))",
        "torch.normal(0.0, torch.ones(4, 8))",
        "torch.normal(mean=torch.zeros(4, 8), std=1.0)",
        "torch.bernoulli(torch.rand(4, 8))",
        "torch.empty(4, 8).normal_(0, 1)",
        "torch.empty(4, 8).uniform_(-1, 1)",
        "torch.rand(3).new_zeros((4, 8))",
        "torch.rand(3).new_full((4, 8), 2.0)",
        "torch.randint(0, 9, (4, 8))",
    ],
)
def test_a_new_tensor_has_the_shape_that_torch_gives_it(expression):
    torch = pytest.importorskip("torch")
    text = (
        "import torch\ndef forward(x):\n    return torch.relu(x)\n"
        f"def get_inputs():\n    return [{expression}]\n"
    )
    assert read_problem(text).outputs[0].shape == tuple(eval(expression, {"torch": torch}).shape)


def test_flops_and_bytes_of_a_product_are_exact():
    text = (
        "import torch\ndef reference(a, b):\n    return torch.relu(a @ b)\n"
        "def get_inputs():\n    return [torch.rand(128, 256).half(), torch.rand(256, 64).half()]\n"
    )
    found = analyse(read_problem(text))
    assert found.tensor_flops == 2 * 128 * 256 * 64
    assert found.io_bytes == 2 * (128 * 256 + 256 * 64 + 128 * 64)
    assert found.heaviest is not None
    assert (found.heaviest.name, [s.name for s in found.after]) == ("matmul", ["relu"])


SPELLED = {
    "silu": "x * torch.sigmoid(x)",
    "normalize": "x / torch.norm(x, p=2, dim=1, keepdim=True)",
    "rms_norm": "x / torch.sqrt(torch.mean(x ** 2, dim=1, keepdim=True) + 1e-5)",
    "softmax": "torch.exp(x) / torch.sum(torch.exp(x), dim=1, keepdim=True)",
    "triangular_matmul": "torch.tril(torch.matmul(x, x.T))",
    "attention": "F.softmax((x @ x.T) / 8.0, dim=-1) @ x",
    "pointwise_loss": "torch.mean(torch.clamp(1 - x * y, min=0))",
    "diagonal_matmul": "torch.diag(y[0]) @ x",
}


@pytest.mark.parametrize("name", SPELLED)
def test_spelled_out_forms_are_one_step(name):
    expression = SPELLED[name]
    if name == "softmax":
        expression = "(e := torch.exp(x)) / torch.sum(e, dim=1, keepdim=True)"
    text = (
        "import torch\nimport torch.nn.functional as F\n"
        f"def forward(x, y):\n    return {expression}\n"
        "def get_inputs():\n    return [torch.rand(64, 64), torch.rand(64, 64)]\n"
    )
    heaviest = analyse(read_problem(text)).heaviest
    assert heaviest is not None
    assert heaviest.name == name


def test_an_operator_that_nobody_knows_is_named_and_not_guessed():
    text = (
        "import torch\nimport einops\nclass Model(torch.nn.Module):\n"
        "    def forward(self, x):\n"
        "        return torch.frobnicate(einops.rearrange(x, 'a b -> b a'))\n"
        "def get_inputs():\n    return [torch.rand(4, 5)]\n"
    )
    problem = read_problem(text)
    assert problem.unknown == ("rearrange", "frobnicate")
    assert problem.outputs[0].shape is None
    assert "frobnicate" in fact_lines(analyse(problem), None)[0]


def test_a_module_without_inputs_is_read_with_unknown_shapes():
    text = (
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.f = torch.nn.Linear(8, 16)\n"
        "    def forward(self, x):\n        return self.f(x).relu()\n"
    )
    lines = fact_lines(analyse(read_problem(text)), gpu_spec("H200"))
    assert "linear" in lines[0]
    assert "does not state all shapes" in lines[1]


@pytest.mark.parametrize(("gpu", "bound"), [("H200", "memory"), ("A10", "memory")])
def test_the_bound_follows_from_bytes_and_flops(gpu, bound):
    text = (
        "import torch\ndef forward(x):\n    return torch.relu(x)\n"
        "def get_inputs():\n    return [torch.rand(4096, 65536)]\n"
    )
    assert bound_of(analyse(read_problem(text)), gpu_spec(gpu)) == bound


def test_a_kernel_is_no_problem():
    assert is_problem(BLOCK)
    assert not is_problem("import triton\n@triton.jit\ndef f(x): pass\n" + BLOCK)
    assert not is_problem("__global__ void f() {}")


HOSTILE = {
    "power": "x = 9 ** 9 ** 9 ** 9\n",
    "string": "x = 'a' * 10 ** 12\n",
    "list": "x = [0] * 10 ** 12\n",
    "doubling": "x = [0]\nfor i in range(10 ** 9):\n    x = x + x\n",
    "loop": "while True:\n    pass\n",
    "recursion": "def f(x):\n    return f(x)\nf(1)\n",
    "growth": "x = []\nwhile True:\n    x.append(x)\n",
    "nesting": "x = " + "(" * 5000 + ")" * 5000 + "\n",
    "chain": "x = " + "+".join(["1"] * 40_000) + "\n",
    "unary": "x = " + "-" * 40_000 + "1\n",
    "calls": "f = lambda g: g(g)\nf(f)\n",
    "range": "for i in range(10 ** 18):\n    pass\n",
    "shift": "x = 1 << (1 << 60)\n",
    "copies": "a = [0] * 4000\nwhile True:\n    b = list(a)\n",
    "parts": "import torch\nx = torch.rand(10 ** 18).chunk(10 ** 18)\n",
    "bytes": "\x00",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_costs_little(name):
    text = (
        "import torch\n"
        + HOSTILE[name]
        + "class Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    start = time.process_time()
    try:
        read_problem(text)
    except InvalidInputError as error:
        assert str(error).startswith("problem")
        assert "\n" not in str(error)
    assert time.process_time() - start < 2.0


def test_hostile_work_in_forward_stops_and_says_so():
    text = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        "        while True:\n            x = x + 1\n"
        "def get_inputs():\n    return [torch.rand(4)]\n"
    )
    start = time.process_time()
    problem = read_problem(text)
    assert time.process_time() - start < 2.0
    assert not problem.whole
    assert "was not read to its end" in fact_lines(analyse(problem), None)[0]


def test_nothing_of_a_problem_is_run(tmp_path):
    witness = tmp_path / "run"
    text = (
        f"import os\nimport torch\nopen({str(witness)!r}, 'w')\nos.system('touch {witness}')\n"
        f"class Model(torch.nn.Module):\n    def forward(self, x):\n"
        f"        return eval(\"open({str(witness)!r}, 'w')\") or torch.relu(x)\n"
    )
    ast.parse(text)
    read_problem(text)
    assert not witness.exists()


def test_a_text_without_a_module_is_refused_in_one_line():
    with pytest.raises(InvalidInputError, match="holds no PyTorch module"):
        read_problem("x = 1\n")
    with pytest.raises(InvalidInputError, match="problem:1: not Python"):
        read_problem("def (:\n")
