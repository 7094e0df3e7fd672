"""Cases beyond the check sizes for memory-bound kernels, run in Triton's interpreter as a script.

Prints a JSON object: name of the case group → [number of cases, those that were wrong].
"""

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from kb.verify.compare import compare
from kb.verify.kernel_module import KernelModule, load_kernel_module

FOLDER = Path(__file__).parents[2] / "corpus" / "kernels" / "triton"
GROUPS: dict[str, Callable[[], Iterator[str | None]]] = {}


def group(function: Callable[[], Iterator[str | None]]) -> Callable[[], Iterator[str | None]]:
    """Register a generator of outcomes: None for a case that is right, else what was wrong."""
    GROUPS[function.__name__] = function
    return function


def kernel(name: str) -> KernelModule:
    return load_kernel_module(FOLDER / f"{name}.py")


def against(module: KernelModule, given: tuple[Any, ...], **params: Any) -> str | None:
    """How a kernel differs from its reference."""
    problem = compare(module.kernel_function(*given, **params), module.reference(*given)).problem
    return problem and f"{problem}: {[tuple(getattr(v, 'shape', (v,))) for v in given]} {params}"


def drawn(*shape: int, mean: float = 0.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + 1)
    return torch.randn(shape, generator=generator) + mean


SHAPES = (((3, 10, 21), 1), ((7, 100), 1), ((1, 520), 1), ((4, 1, 3), 1), ((5, 33, 1), 1))
SMALL = {"tile": 128, "block_p": 32, "programs": 8}


@group
def reductions() -> Iterator[str | None]:
    module = kernel("reduce_dim_split")
    for (shape, dim), kind in itertools.product(
        (*SHAPES, ((5000,), 0)), ("sum", "mean", "max", "min", "prod")
    ):
        # Near one, so that products stay finite.
        x = 0.1 * drawn(*shape) + 1
        yield against(module, (x, dim, kind), **SMALL)
    yield against(module, (drawn(6, 40, 9)[:, ::3, 1:8], 1, "sum"), **SMALL)


@group
def scans() -> Iterator[str | None]:
    module = kernel("cumsum_dim_split")
    for (shape, dim), kind, reverse, exclusive in itertools.product(
        SHAPES, ("sum", "prod"), (False, True), (False, True)
    ):
        x = 0.1 * drawn(*shape) + 1
        yield against(module, (x, dim, kind, reverse, exclusive), **SMALL)


@group
def variances() -> Iterator[str | None]:
    module = kernel("variance_dim_welford")
    for (shape, dim), unroll in itertools.product(SHAPES[:3], (1, 2, 8)):
        # A spread of one beside a mean of a thousand: no digits of the variance may go.
        x = drawn(*shape, mean=1000.0)
        mine = module.kernel_function(x, dim, unroll=unroll, **SMALL)
        exact = torch.var_mean(x.double(), dim)
        near = torch.allclose(mine[0].double(), exact[0], rtol=1e-3)
        yield None if near else f"{shape} {unroll}: {mine[0]} instead of {exact[0]}"


@group
def norms() -> Iterator[str | None]:
    group_norm, batch_norm = kernel("groupnorm_resident"), kernel("batchnorm_training_resident")
    # The first has more tiles than one program merges: two launches, and one between them.
    for shape, groups in (((1, 2, 20000), 1), ((2, 4, 7, 9), 2), ((1, 3, 5), 3), ((2, 6, 49), 2)):
        weight = drawn(shape[1])
        tile = 128 if shape[-1] > 1000 else 64
        yield against(group_norm, (drawn(*shape), groups, weight, weight), tile=tile)
        yield against(group_norm, (torch.zeros(shape), groups), tile=tile)
    for shape in ((33, 2, 500), (3, 4, 7, 9), (5, 3)):
        weight = drawn(shape[1])
        yield against(batch_norm, (drawn(*shape), weight, weight), tile=64)
        yield against(batch_norm, (torch.zeros(shape),), tile=64)
    x = drawn(1, 2, 20000, mean=1000.0)
    found = group_norm.kernel_function(x, 1, tile=128).double()
    exact = torch.nn.functional.group_norm(x.double(), 1)
    yield None if torch.allclose(found, exact, atol=2e-3) else "digits lost beside a large mean"


@group
def normalisations() -> Iterator[str | None]:
    module = kernel("lp_normalize_dim")
    cases = (((2, 40000), 1), ((3, 3000, 20), 1), ((7, 9), None), ((300, 300), None), ((40,), 0))
    for (shape, dim), kind in itertools.product(cases, ("l1", "l2", "max", "mean")):
        yield against(module, (drawn(*shape), dim, kind), tile=8192, programs=4)
    yield against(module, (torch.zeros(3, 5), 1))


@group
def softmaxes() -> Iterator[str | None]:
    for name in ("softmax_dim_online", "log_softmax_online"):
        module = kernel(name)
        for (shape, dim), unroll in itertools.product(SHAPES, (1, 4)):
            yield against(module, (5 * drawn(*shape), dim), block=64, block_p=8, unroll=unroll)
        x = drawn(2, 300)
        x[0, :250] = float("-inf")
        yield against(module, (x, 1), block=64)
    # What large numbers have in common must not cost digits.
    x = drawn(2, 300, mean=10000.0)
    found = kernel("log_softmax_online").kernel_function(x, 1, block=64).double()
    near = torch.allclose(found, torch.log_softmax(x.double(), 1), atol=1e-5)
    yield None if near else "digits lost beside a large mean"
    causal = kernel("causal_softmax_rows")
    yield against(causal, (drawn(2, 9, 12), -2.0, 3), tile=32)
    yield against(causal, (drawn(1, 2, 33000), 0.5, 32990), tile=8192)
    yield against(causal, (drawn(2, 3, 5, 16)[..., ::2], 0.5), tile=32)
    rows = causal.kernel_function(drawn(1, 3, 4), 1.0, -1)
    nothing = bool(rows[0, 0].isnan().all()) and not bool(rows[0, 1:].isnan().any())
    yield None if nothing else "a query that sees no key shall get NaN, and no other"


@group
def losses() -> Iterator[str | None]:
    module = kernel("pointwise_loss_split")
    kinds = ("mse", "l1", "smooth-l1", "huber", "bce", "bce-logits", "kl", "kl-log", "hinge")
    reductions = ("mean", "sum", "batchmean", "none")
    for kind, reduction, delta in itertools.product(kinds, reductions, (None, 0.3)):
        x, target = drawn(37, 11), drawn(37, 12)[:, :11]
        if kind == "bce":
            x = torch.sigmoid(x)
            x[0, :2] = torch.tensor([0.0, 1.0])
        if kind.startswith("bce") or kind == "kl":
            target = torch.sigmoid(target)
        if kind == "kl":
            target[0, 0] = 0.0
        yield against(module, (x, target, kind, reduction, delta), block=128, programs=3)
    entropy = kernel("cross_entropy_online")
    targets = torch.tensor([3, -100, 0, 99, 42])
    for reduction, smoothing in itertools.product(("mean", "sum", "none"), (0.0, 0.2)):
        given = (drawn(5, 100), targets, reduction, -100, smoothing)
        yield against(entropy, given, block=16, unroll=4)
    x = drawn(5, 100, mean=10000.0)
    found = entropy.kernel_function(x, targets, "none", block=16).double()
    exact = torch.nn.functional.cross_entropy(x.double(), targets, reduction="none")
    yield None if torch.allclose(found, exact, atol=1e-5) else "digits lost beside a large mean"
    distilled = kernel("distillation_loss_online")
    for reduction in ("batchmean", "mean", "sum", "none"):
        given = (drawn(5, 100), drawn(100, 5).t(), reduction)
        yield against(distilled, given, block=16, unroll=4)
    tiny = distilled.kernel_function(1e-19 * drawn(5, 100), 1e-19 * drawn(5, 101)[:, 1:], block=16)
    yield None if float(tiny) == 0.0 else "a divergence where no probability differs"
    triplet = kernel("triplet_margin_rows")
    for swap, reduction in itertools.product((False, True), ("mean", "sum", "none")):
        given = (drawn(2, 9, 33), drawn(2, 9, 34)[..., 1:], drawn(2, 9, 35)[..., 2:])
        yield against(triplet, (*given, 1.0, 1e-6, swap, reduction), tile=64)


@group
def similarities() -> Iterator[str | None]:
    module = kernel("cosine_similarity_dim")
    yield against(module, (drawn(3, 20), drawn(1, 20), 1), tile=64)
    yield against(module, (drawn(3, 4, 20), drawn(3, 4, 20) + 1, 0), tile=64)
    yield against(module, (drawn(3, 4, 20).transpose(1, 2), drawn(20, 4), -1), tile=64)
    yield against(module, (torch.zeros(3, 20), drawn(3, 20), 1), tile=64)


@group
def selections() -> Iterator[str | None]:
    module = kernel("topk_rows_select")
    cases = (((3, 100), 7), ((2, 70), 1), ((2, 33), 33), ((1, 500), 64), ((2, 3, 50), 5))
    dtypes = (torch.float32, torch.float16, torch.bfloat16)
    for dtype, (shape, k), largest in itertools.product(dtypes, cases, (True, False)):
        x = drawn(*shape).to(dtype)
        yield against(module, (x, k, largest), chunk=64)
        # Many equal ones: the first of them are to be taken.
        yield against(module, (x.round(), k, largest), chunk=64)
    x = drawn(3, 100)
    x[0, 5], x[1, 7], x[2, 9] = float("nan"), float("inf"), float("-inf")
    yield against(module, (x, 4), chunk=64)


@group
def tables() -> Iterator[str | None]:
    keys = torch.randint(-5, 50, (1000,), generator=torch.Generator().manual_seed(1))
    counts = kernel("histogram_privatized").kernel_function(keys, 30, block=64, programs=3)
    exact = torch.bincount(keys[(keys >= 0) & (keys < 30)], minlength=30).int()
    yield None if torch.equal(counts, exact) else f"{counts} instead of {exact}"
    weight = drawn(20, 33).t()
    index = torch.randint(-33, 33, (4, 5), generator=torch.Generator().manual_seed(2))
    found = kernel("embedding_rows").kernel_function(weight, index, tile=64)
    yield None if torch.equal(found, weight[index]) else "other rows"


@group
def activations() -> Iterator[str | None]:
    module = kernel("scale_shift_activation")
    kinds = (
        "none", "relu", "leaky-relu", "gelu", "gelu-tanh", "silu", "mish", "sigmoid", "tanh", "elu",
        "softplus", "hardswish", "hardtanh",
    )  # fmt: skip
    for kind in kinds:
        x = 5 * drawn(3, 7, 10)
        x[0, 0, :3] = torch.tensor([1e-4, -1e-3, 30.0])
        yield against(module, (x, kind), tile=64)
        yield against(module, (x, kind, drawn(7)), tile=64)
        yield against(module, (x, kind, None, drawn(10), drawn(3, 1, 10), 2), tile=64)
        yield against(module, (x.transpose(0, 2), kind, drawn(10), drawn(10), None, 0), tile=64)


if __name__ == "__main__":
    outcomes = {name: list(function()) for name, function in GROUPS.items()}
    told = {name: [len(found), [w for w in found if w]] for name, found in outcomes.items()}
    print(json.dumps(told))
