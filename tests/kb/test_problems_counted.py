"""What is told of a module's shapes, bytes and work is what PyTorch counts when it runs it."""

from typing import Any

import pytest
from torch.utils.flop_counter import FlopCounterMode

from kb.problems.analysis import analyse
from kb.problems.facts import fact_lines
from kb.problems.plan import plan_line
from kb.problems.reading import read_problem

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
MODULE = HEAD + (
    "class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        {layers}\n    def forward(self, {names}):\n        {body}\n\n"
    "def get_inputs():\n    return [{inputs}]\n\ndef get_init_inputs():\n    return []\n"
)


def module(layers: str, body: str, inputs: str = "torch.rand(64, 128)", names: str = "x") -> str:
    return MODULE.format(layers=layers, body=body, inputs=inputs, names=names)


def run(text: str) -> tuple[Any, list[Any], Any]:
    """The module, its inputs and what it returns."""
    scope: dict[str, Any] = {}
    exec(text, scope)
    model, inputs = scope["Model"](), scope["get_inputs"]()
    return model, inputs, model(*inputs)


EXPRESSIONS = [
    "x.repeat(2, 1, 1)", "x.repeat(3, 1, 2, 1)", "x.tile(2, 1, 1)", "torch.tile(x, (2, 2, 1))",
    "x.repeat_interleave(4, dim=1)", "torch.repeat_interleave(x, 2, dim=2)",
    "x.repeat_interleave(3)", "x.index_select(1, torch.arange(5))", "F.one_hot(i, 32)",
    "torch.diag_embed(x)", "torch.cdist(x, x)", "x.unfold(1, 4, 2)",
    "torch.take_along_dim(x, i, 2)", "x.rot90(1, (1, 2))", "x.rot90(2, (1, 2))",
    "torch.vstack([x, x])", "torch.hstack([x, x])", "F.unfold(x[:, None], (3, 3))",
    "F.unfold(x[:, None], 3, padding=1, stride=2)",
    "F.pixel_shuffle(x[:, :, None].expand(2, 64, 32, 32), 2)",
    "F.pixel_unshuffle(x[:, :, None].expand(2, 64, 32, 32), 2)", "x.movedim(0, -1) + 0",
    "x.diagonal(dim1=1, dim2=2) + 0", "x.diagonal(3, 1, 2) + 0", "x.diagonal(-40, 1, 2) + 0",
    "x.unflatten(1, (8, 8)) + 0", "x.unflatten(1, (-1, 16)) + 0",
]  # fmt: skip


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_copies_and_views_make_has_pytorch_s_shape(expression: str) -> None:
    inputs = "torch.rand(2, 64, 32), torch.randint(0, 32, (2, 64, 8))"
    text = module("pass", f"return {expression}", inputs, "x, i")
    (got,) = read_problem(text).outputs
    assert got.shape == tuple(run(text)[2].shape)


def test_a_bag_of_rows_is_one_row_and_reads_them_all() -> None:
    text = module("self.e = nn.EmbeddingBag(1000, 32)", "return self.e(i)",
                  "torch.randint(0, 9, (4, 8))", "i")  # fmt: skip
    found = analyse(read_problem(text))
    (got,) = found.problem.outputs
    assert got.shape == tuple(run(text)[2].shape)
    assert found.io_bytes == 4 * 8 * 8 + 4 * 8 * 32 * 4 + 4 * 32 * 4


@pytest.mark.parametrize(
    "expression",
    ["x.unfold(1, 99, 2)", "F.unfold(x[:, None], 99)", "x.unflatten(9, (8, 8)) + 0",
     "x.diagonal(0, 1, 1) + 0", "F.pixel_shuffle(x, 0)", "x.repeat_interleave(i, dim=9)",
     "x.rot90(1, (0, 9))"],
)  # fmt: skip
def test_of_what_pytorch_refuses_no_shape_is_told(expression: str) -> None:
    inputs = "torch.rand(2, 64, 32), torch.randint(0, 32, (2, 64, 8))"
    text = module("pass", f"return {expression}", inputs, "x, i")
    with pytest.raises((RuntimeError, IndexError)):
        run(text)
    assert None in {each.shape for each in read_problem(text).outputs}


MODULES = {
    "matrices that are parts of one parameter": module(
        "self.w = nn.Parameter(torch.rand(8, 128, 32))",
        "return torch.cat([x[8 * e : 8 * e + 8] @ self.w[e] for e in range(8)])",
    ),
    "a part of a parameter, and all of it": module(
        "self.w = nn.Parameter(torch.rand(64, 128))", "return x * self.w + self.w[0]"
    ),
    "parts that overlap": module(
        "self.w = nn.Parameter(torch.rand(64, 128))",
        "return x[:63] * self.w[1:] + self.w[:63] + self.w[0].unsqueeze(0)",
    ),
    "halves of one weight": module(
        "self.f = nn.Linear(128, 64)",
        "a, b = self.f.weight.chunk(2)\n        return F.relu(x @ a.t()) * (x @ b.t())"
        " + self.f.bias[:32] + self.f.bias[32:]",
    ),
    "an LSTM": module(
        "self.r = nn.LSTM(96, 128, num_layers=2, batch_first=True, bidirectional=True)",
        "return self.r(x)[0]",
        "torch.rand(4, 10, 96)",
    ),
    "a GRU without biases": module(
        "self.r = nn.GRU(64, 32, bias=False)", "return self.r(x)[0]", "torch.rand(9, 3, 64)"
    ),
    "layers by the names of a dictionary": module(
        "self.p = nn.ModuleDict(dict(a=nn.Linear(128, 512), act=nn.GELU(), b=nn.Linear(512, 128)))",
        "return x + self.p.b(self.p.act(self.p.a(x)))",
    ),
    "a table that is the last layer's weight as well": module(
        "self.e = nn.Embedding(1000, 128)\n        self.f = nn.Linear(128, 1000, bias=False)\n"
        "        self.f.weight = self.e.weight",
        "return self.f(self.e(i))",
        "torch.randint(0, 1000, (4, 64))",
        "i",
    ),
    "a weight and its transpose": module(
        "self.f = nn.Linear(128, 256)", "return F.linear(F.relu(self.f(x)), self.f.weight.t())"
    ),
    "an input that is used as a view": module(
        "pass", "return x + y.transpose(0, 1)", "torch.rand(64, 64), torch.rand(64, 64)", "x, y"
    ),
    "attention": module(
        "self.a = nn.MultiheadAttention(64, 4, batch_first=True)",
        "return self.a(x, x, x, need_weights=False)[0]",
        "torch.rand(2, 32, 64)",
    ),
    "an encoder of layers": module(
        "self.a = nn.TransformerEncoder(\n            nn.TransformerEncoderLayer(64, 4, 128, "
        "batch_first=True), 3, nn.LayerNorm(64))",
        "return self.a(x)",
        "torch.rand(2, 32, 64)",
    ),
    "an encoder's layer that begins with its norm": module(
        "self.a = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True, "
        "activation='gelu')",
        "return self.a(x)",
        "torch.rand(2, 32, 64)",
    ),
    "a GRU cell in a loop": module(
        "self.c = nn.GRUCell(16, 32)",
        "h = x.new_zeros(8, 32)\n        for t in range(12):\n            h = self.c(x[:, t], h)\n"
        "        return h",
        "torch.rand(8, 12, 16)",
    ),
    "an LSTM cell in a loop": module(
        "self.c = nn.LSTMCell(16, 32)",
        "h = c = x.new_zeros(8, 32)\n        for t in range(12):\n"
        "            h, c = self.c(x[:, t], (h, c))\n        return h",
        "torch.rand(8, 12, 16)",
    ),
    "an RNN cell": module("self.c = nn.RNNCell(128, 32)", "return self.c(x)"),
    "a bilinear layer": module(
        "self.a = nn.Bilinear(16, 112, 32)", "return self.a(x[:, :16], x[:, 16:])"
    ),
    "copies of a layer": module(
        "import copy\n        f = nn.Linear(128, 128)\n"
        "        self.l = nn.ModuleList([copy.deepcopy(f) for _ in range(4)])",
        "for f in self.l:\n            x = f(x)\n        return x",
    ),
    "copies of a module of layers": module(
        "import copy\n        f = nn.Sequential(nn.Linear(128, 64), nn.Linear(64, 128))\n"
        "        self.l = nn.ModuleList([f, copy.deepcopy(f)])",
        "for f in self.l:\n            x = f(x)\n        return x",
    ),
    "parameters in a list": module(
        "self.l = nn.ParameterList([nn.Parameter(torch.rand(128, 128)) for _ in range(3)])",
        "for w in self.l:\n            x = x @ w\n        return x",
    ),
    "parameters in a dictionary": module(
        "self.l = nn.ParameterDict({'a': nn.Parameter(torch.rand(128, 8))})",
        "return x @ self.l['a']",
    ),
    "layers by formatted names": module(
        "self.f0 = nn.Linear(128, 64)\n        self.f1 = nn.Linear(64, 32)",
        "for n in range(2):\n            x = getattr(self, f'f{n}')(x)\n        return x",
    ),
    "queries, keys and values taken apart": module(
        "self.f = nn.Linear(64, 192)",
        "b, t, c = x.shape\n        q, k, v = self.f(x).reshape(b, t, 3, 4, 16)"
        ".permute(2, 0, 3, 1, 4)\n        return q @ k.transpose(-2, -1) @ v",
        "torch.rand(2, 32, 64)",
    ),
    "a product over two dimensions": module(
        "self.w = nn.Parameter(torch.rand(8, 16, 24))",
        "return torch.tensordot(x.view(64, 8, 16), self.w, dims=2)",
    ),
    "weights in another dtype": module(
        "self.f = nn.Linear(128, 64, dtype=torch.bfloat16)",
        "return self.f(x)",
        "torch.rand(8, 128, dtype=torch.bfloat16)",
    ),
    "a table of biases that is looked up by indices": module(
        "self.t = nn.Parameter(torch.zeros(49, 4))\n"
        "        c = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing='ij'))\n"
        "        c = c.flatten(1)\n        r = (c[:, :, None] - c[:, None, :]).sum(0) + 6\n"
        "        self.register_buffer('i', r)",
        "b = self.t[self.i.view(-1)].view(16, 16, -1).permute(2, 0, 1)\n        return x + b",
        "torch.rand(2, 4, 16, 16)",
    ),
    "a parameter that is expanded": module(
        "self.c = nn.Parameter(torch.zeros(1, 1, 64))",
        "return torch.cat([self.c.expand(x.shape[0], -1, -1), x], 1)",
        "torch.rand(2, 32, 64)",
    ),
    "an early return that depends on values": module(
        "self.f = nn.Linear(128, 128)",
        "if not (x.sum() != 0.125):\n            return x\n        return self.f(x)",
    ),
    "a part that depends on values": module(
        "self.f = nn.ModuleList([nn.Linear(128, 128) for _ in range(3)])",
        "out = x\n        for f in self.f:\n            if x.sum() == 0.125:\n"
        "                continue\n            out = out + f(x)\n        return out",
    ),
    "a loop until values are small": module(
        "self.f = nn.Linear(128, 128)",
        "while x.amax() > 0.5:\n            x = self.f(x) * 1e-9\n        return x",
    ),
}


# PyTorch's counter leaves out recurrent layers, bilinear ones, and attention within a layer.
UNCOUNTED = {"an LSTM", "a GRU without biases", "attention", "a bilinear layer"}


@pytest.mark.parametrize("name", MODULES)
def test_bytes_and_products_are_those_that_pytorch_counts(name: str) -> None:
    model, inputs, _ = run(MODULES[name])
    with FlopCounterMode(display=False) as counted:
        result = model(*inputs)
    found = analyse(read_problem(MODULES[name]))
    tensors = {each.data_ptr(): each for each in (*model.parameters(), *inputs, result)}
    assert found.io_bytes == sum(each.nbytes for each in tensors.values())
    if name not in UNCOUNTED:
        assert (found.dense_flops or 0) == counted.get_total_flops()


def test_of_a_table_that_is_only_looked_up_the_rows_count() -> None:
    text = module("self.e = nn.Embedding(10**6, 128)", "return self.e(i)",
                  "torch.randint(0, 9, (8, 512))", "i")  # fmt: skip
    rows = 8 * 512 * 128 * 4
    found = analyse(read_problem(text))
    assert found.io_bytes == 2 * rows + 8 * 512 * 8
    assert found.moved_bytes == found.io_bytes


@pytest.mark.parametrize("body", ["x.repeat(*[10**9] * 1000)", "x.expand(*[10**9] * 1000)"])
def test_sizes_that_no_machine_holds_are_not_known(body: str) -> None:
    found = analyse(read_problem(module("pass", f"x = {body}\n        return x + x")))
    assert found.io_bytes is None
    assert "not known" in fact_lines(found, None)[1]


def test_all_outputs_are_named_with_their_dtypes() -> None:
    text = module("pass", "return {'a': x.sum(1), 'b': (x.argmax(1), x > 0)}")
    plan = plan_line(analyse(read_problem(text)), None)
    assert plan is not None
    assert "the module returns 3 tensors, [64] float32, [64] int64, [64, 128] bool" in plan


@pytest.mark.parametrize(
    ("name", "decided"),
    [("a loop until values are small", False), ("an early return that depends on values", False),
     ("an LSTM", True), ("layers by the names of a dictionary", True)],
)  # fmt: skip
def test_a_module_that_branches_on_values_is_told_as_such(name: str, decided: bool) -> None:
    line = fact_lines(analyse(read_problem(MODULES[name])), None)[0]
    assert ("It branches on values that its text does not fix" in line) != decided


def test_what_follows_a_product_is_fused_before_its_store_and_not_behind_another_s_loads() -> None:
    layers = "self.a = nn.Linear(128, 256)\n        self.b = nn.Linear(256, 4096)"
    body = "return F.cross_entropy(self.b(F.gelu(self.a(x))), t)"
    inputs = "torch.rand(64, 128), torch.randint(0, 9, (64,))"
    found = analyse(read_problem(module(layers, body, inputs, "x, t")))
    assert found.before == []
    plan = plan_line(found, None)
    assert plan is not None
    assert "for linear → gelu" in plan
    assert "cross_entropy takes 4,096 columns a row" in plan
    assert "the 1.05 MB of the product are never stored" in plan


STEP = "h = x.new_zeros(64)\n        for t in range(128):\n            {step}\n        return h"


def test_a_loop_whose_steps_need_one_another_is_named_as_one_launch() -> None:
    text = module("pass", STEP.format(step="h = torch.exp(-x[:, t]) * h + x[:, t]"))
    found = analyse(read_problem(text))
    assert found.loop is not None
    assert (found.loop.steps, len(found.loop.operators)) == (128, 4)
    told = fact_lines(found, None)[0]
    assert "a loop of 128 steps (neg, exp, mul, add), each depending on the one before" in told
    assert "PyTorch launches some 512 operators for it, 2.6 ms" in told
    assert "parallel scan" in told
    text = module("self.c = nn.GRUCell(1, 64)\n        self.f = nn.Linear(64, 64)",
                  STEP.format(step="h = torch.tanh(self.f(h) + x[:, t])"))  # fmt: skip
    told = fact_lines(analyse(read_problem(text)), None)[0]
    assert "weights stay on chip" in told
    assert "parallel scan" not in told


@pytest.mark.parametrize(
    "body",
    [
        "for f in self.f:\n            x = torch.relu(f(x))\n        return x",
        "ys = []\n        for t in range(64):\n            ys.append(torch.relu(x[t]))\n"
        "        return torch.stack(ys)",
        "for _ in range(3):\n            x = torch.relu(x) + 1\n        return x",
        "for e in range(8):\n            x = torch.relu(x @ self.w[e])\n        return x",
        "y = torch.zeros_like(x)\n        for t in range(8):\n            y = y + x @ self.w[0]\n"
        "        return y",
    ],
)
def test_layers_and_independent_steps_are_no_loop_in_time(body: str) -> None:
    layers = (
        "self.f = nn.ModuleList([nn.Linear(128, 128) for _ in range(6)])\n"
        "        self.w = nn.Parameter(torch.rand(8, 128, 128))"
    )
    assert analyse(read_problem(module(layers, body))).loop is None


def test_a_loop_longer_than_what_is_recorded_is_told_with_all_its_steps() -> None:
    text = module("pass", STEP.format(step="h = torch.exp(-x[:, t]) * h + x[:, t]"))
    found = analyse(
        read_problem(text.replace("range(128)", "range(1500)").replace("128)", "1500)"))
    )
    assert found.loop is not None
    assert found.loop.steps == 1500


GROUPS = (
    "ys, start = [], 0\n        for e, n in enumerate([10, 6] * 4):\n"
    "            h = F.silu({data} @ self.w[e])\n            ys.append(h @ self.v[e])\n"
    "            start += n\n        return torch.cat(ys)"
)
EXPERTS = (
    "self.w = nn.Parameter(torch.rand(8, 128, 256))\n"
    "        self.v = nn.Parameter(torch.rand(8, 256, 128))"
)


def test_products_with_parts_of_one_tensor_are_one_grouped_product() -> None:
    found = analyse(read_problem(module(EXPERTS, GROUPS.format(data="x[start : start + n]"))))
    assert found.loop is None
    products = [step for step in found.steps if step.kind == "matmul"]
    assert [step.name for step in products] == ["grouped_matmul"] * 2
    assert found.dense_flops == 2 * 2 * 64 * 128 * 256
    told = fact_lines(found, None)[0]
    assert "grouped_matmul of 8 products, the first [10, 128] float32 by [128, 256]" in told
    assert "fuse silu before its store" in told
    chained = read_problem(module(EXPERTS, GROUPS.replace("ys.append(h @", "x = (h @").replace(
        "torch.cat(ys)", "x").format(data="x")))  # fmt: skip
    assert {step.name for step in analyse(chained).steps} == {"matmul", "silu"}


@pytest.mark.parametrize("shifted", [True, False])
def test_a_loss_of_a_classifier_that_is_written_out_is_one_operator(shifted: bool) -> None:
    body = "m = x.max(dim=1, keepdim=True).values\n        x = x - m\n        " if shifted else ""
    body += (
        "s = x.exp().sum(dim=1)\n        return (s.log() - x.gather(1, t[:, None])[:, 0]).mean()"
    )
    inputs = "torch.rand(64, 1000), torch.randint(0, 9, (64,))"
    found = analyse(read_problem(module("pass", body, inputs, "x, t")))
    assert found.heaviest is not None
    assert found.heaviest.name == "cross_entropy"
    assert found.heaviest.bytes == (64 * 1000 + 64) * 4
    told = read_problem(module("pass", "return x.exp().sum(dim=1).log()"))
    assert [step.name for step in analyse(told).steps] == ["logsumexp"]


@pytest.mark.parametrize(
    ("equation", "flops"),
    [
        ("bi,rij->brj", 2 * 64 * 128 * 5 * 7),
        # w with y over j, then with x over i: in another order, or all at once, it is more.
        ("bi,rij,cj->brc", 2 * 5 * 128 * 7 * 3 + 2 * 64 * 128 * 5 * 3),
    ],
)
def test_an_einsum_of_several_is_counted_by_pairs(equation: str, flops: int) -> None:
    operands = "x, w, y"[: 3 * equation.count(",") + 1]
    text = module(
        "pass", f"return torch.einsum('{equation}', {operands})",
        "torch.rand(64, 128), torch.rand(5, 128, 7), torch.rand(3, 7)", "x, w, y",
    )  # fmt: skip
    (einsum,) = read_problem(text).operators
    assert einsum.facts["flops"] == flops


def test_integers_operators_have_names() -> None:
    inputs = "torch.randint(0, 9, (64, 128)), torch.randint(0, 9, (64, 128))"
    found = read_problem(module("pass", "return ~((x >> 2 & 15) << 1 ^ y) | y", inputs, "x, y"))
    assert found.unknown == ()
    assert [each.name.removeprefix("bitwise_") for each in found.operators] == [
        "right_shift", "and", "left_shift", "xor", "not", "or",
    ]  # fmt: skip


def test_of_what_is_gathered_the_elements_count() -> None:
    text = module("pass", "return x.gather(1, i)",
                  "torch.rand(64, 10000), torch.randint(0, 9, (64, 1))", "x, i")  # fmt: skip
    assert analyse(read_problem(text)).moved_bytes == 64 * 4 + 64 * 8 + 64 * 4


def test_reductions_of_the_same_data_are_told_together() -> None:
    body = "return (x * y).mean(1, keepdim=True) * x, y.mean(1), (x * y).sum(0)"
    text = module("pass", body, "torch.rand(64, 128), torch.rand(64, 128)", "x, y")
    found = analyse(read_problem(text))
    plan = plan_line(found, None)
    assert plan is not None
    assert "reductions of [64, 128] over dimensions 0 and 1: one launch reads the data once" in plan
    plan = plan_line(analyse(read_problem(text.replace("sum(0)", "sum(1)"))), None)
    assert plan is not None
    assert "3 reductions of [64, 128] over dimension 1: one pass" in plan


def test_a_kernel_takes_what_uses_its_result_behind_what_does_not() -> None:
    body = "y = F.relu(self.f(x))\n        z = torch.exp(x)\n        return F.gelu(y) + 1, z"
    found = analyse(read_problem(module("self.f = nn.Linear(128, 256)", body)))
    assert [step.name for step in found.after] == ["relu", "gelu", "add"]
    body = "y = self.f(x)\n        z = self.g(x)\n        return F.gelu(y) * z"
    layers = "self.f = nn.Linear(128, 256)\n        self.g = nn.Linear(128, 256)"
    found = analyse(read_problem(module(layers, body)))
    assert [step.name for step in found.after] == ["gelu"], "the other product is another kernel's"


def test_what_only_moves_an_operator_s_input_is_done_in_its_loads() -> None:
    layers = "self.f = nn.Conv1d(64, 64, 4, groups=64)"
    body = "x = torch.cat([s, x], dim=2)\n        return F.silu(self.f(x))"
    inputs = "torch.rand(2, 64, 3), torch.rand(2, 64, 1024)"
    found = analyse(read_problem(module(layers, body, inputs, "s, x")))
    assert [step.name for step in found.before] == ["cat"]
    assert plan_line(found, None) is None, "nothing of the rows that cat makes"


def test_numbers_that_are_read_from_a_tensor_are_no_tensors() -> None:
    groups = GROUPS.format(data="x[start : start + n]")
    body = groups.replace("enumerate([10, 6] * 4)", "enumerate(sizes.tolist())")
    inputs = "torch.rand(64, 128), torch.full((8,), 8)"
    found = analyse(read_problem(module(EXPERTS, body, inputs, "x, sizes")))
    assert {step.name for step in found.steps} == {"grouped_matmul", "silu", "cat"}
    body = "return x * s.max().item()"
    found = analyse(read_problem(module("pass", body, "torch.rand(8, 8), torch.rand(8)", "x, s")))
    assert [step.name for step in found.steps] == ["max", "mul"]


def test_amax_gives_no_indices_and_max_along_a_dimension_does() -> None:
    body = "return x.amax(1), torch.amin(x, 1), x.max(1).values, x.max(dim=1)"
    outputs = read_problem(module("pass", body)).outputs
    assert [each.dtype for each in outputs] == ["float32"] * 4 + ["int64"]


def test_an_expanded_operand_is_read_as_far_as_it_lies_in_memory() -> None:
    text = module("pass", "return x.expand(64, 128) * 2", "torch.rand(1, 128)")
    assert analyse(read_problem(text)).moved_bytes == 128 * 4 + 64 * 128 * 4


@pytest.mark.parametrize(
    "body",
    [
        "return x.exp().sum(1).log(), x.gather(0, t[:, None])",
        "return x.exp().sum(1).log().mean() + x.gather(1, t[:, None].expand(64, 17)).max()",
    ],
)
def test_an_unrelated_gather_makes_no_loss(body: str) -> None:
    inputs = "torch.rand(64, 1000), torch.randint(0, 9, (64,))"
    names = {
        step.name for step in analyse(read_problem(module("pass", body, inputs, "x, t"))).steps
    }
    assert "logsumexp" in names
    assert "cross_entropy" not in names


def test_repeated_products_of_data_are_no_recurrence_with_weights() -> None:
    body = "for _ in range(6):\n            x = x @ y\n        return x"
    text = module("pass", body, "torch.rand(64, 64), torch.rand(64, 64)", "x, y")
    assert analyse(read_problem(text)).loop is None


def test_what_needs_a_whole_reduction_follows_it() -> None:
    body = "m = x.mean(0, keepdim=True)\n        return (x - m) * 2, m + 1"
    told = fact_lines(analyse(read_problem(module("pass", body))), None)[0]
    assert "fuse" not in told
    assert "sub, mul" in told


def test_a_product_is_stored_where_other_rows_or_all_of_it_are_reduced() -> None:
    layers = "self.f = nn.Linear(128, 4096)"
    for body in ("h = self.f(x)\n        return h - h.mean()",
                 "h = self.f(x)\n        return F.softmax(h, 0)"):  # fmt: skip
        plan = plan_line(analyse(read_problem(module(layers, body))), None)
        assert "never stored" not in (plan or "")
        assert "columns" not in (plan or "")
