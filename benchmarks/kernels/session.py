"""The measuring process: times kernels one after another, each against its baselines."""

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from agent.optimize.judge_requests import JudgeState, Request
from benchmarks.kernels.timing import Run, cuda_timer, interleave, sets_needed, wall_time
from benchmarks.kernels.tuning import Params, bind, candidates, cross, tune
from benchmarks.tasks import Measured
from judge.evaluate.ceilings import measure as measure_ceilings
from judge.progress import Say
from kb.corpus.entries import Kernel
from kb.corpus.loader import Corpus, load_corpus
from kb.corpus.measured import LIBRARY
from kb.verify.channel import torch_dtype
from kb.verify.compare import as_tuple, compare
from kb.verify.kernel_module import KernelModule, load_kernel_module

_DTYPE_PREFERENCE = ("bfloat16", "float16", "float32")
_ROUNDS = 51
_MAX_SETS = 64
# Outputs that must be equal bit for bit, not within a tolerance.
_EXACT = (torch.uint8, torch.int8, torch.int32, torch.int64, torch.bool)


class Session:
    """State that a measuring process keeps between kernels."""

    def __init__(self, corpus: Corpus, tune_seconds: float, *, dry: bool) -> None:
        self.files = {kernel.entry.slug: kernel for kernel in corpus.kernels}
        self.root = corpus.root
        self.tune_seconds = tune_seconds
        self.dry = dry
        self.device = "cpu" if self.dry else "cuda"
        self.timer = wall_time if dry else cuda_timer()
        self.l2_bytes = 0 if self.dry else torch.cuda.get_device_properties(0).L2_cache_size
        self._tuned: dict[tuple[str, tuple[int, ...], str], list[tuple[Params, float]]] = {}
        self._floors = self.floors()

    def record(self, slug: str) -> dict[str, Any]:
        """Measure one kernel; the record, or the reason why it failed."""
        start = time.monotonic()
        try:
            record = self.measure(slug)
        except Exception as error:  # recorded; the rest goes on
            record = {"failed": _error_line(error)}
        if not self.dry:
            torch.cuda.empty_cache()
        seconds = round(time.monotonic() - start, 1)
        return {**record, "floors": self._floors, "seconds": seconds}

    def floors(self) -> dict[str, float]:
        """Copy bandwidth in bytes/s and bfloat16 matrix rate in FLOP/s, measured here and now."""
        options: dict[str, Any] = {"nbytes": 2**20, "sizes": (64,)} if self.dry else {}
        ceilings = measure_ceilings(self.device, **options)
        return {
            "copy_bytes_per_s": ceilings.copy_bps,
            "matmul_flop_per_s": ceilings.matmul_flops["bfloat16"],
        }

    def module(self, slug: str) -> KernelModule:
        file = self.files[slug]
        return load_kernel_module(self.root / (file.launcher or file.path))

    def tuned(
        self, slug: str, module: KernelModule, size: tuple[int, ...], dtype: str, inputs: list[Any]
    ) -> list[tuple[Params, float]]:
        """Configurations and their times, the fastest first; kept for kernels derived from it."""
        key = (slug, size, dtype)
        if key not in self._tuned:
            configs = candidates(module.tunables, module.defaults())
            if self.dry:
                configs = [dict(self.files[slug].entry.check_params)]
            limit = self.tune_seconds
            self._tuned[key] = tune(self.timer, module.kernel_function, configs, inputs, limit)
        return self._tuned[key]

    def exchange(
        self, slug: str, base: str, size: tuple[int, ...], dtype: str, inputs: list[Any]
    ) -> None:
        """Tune a kernel and its baseline, then try the best configurations of each on the other."""
        modules = [(name, self.module(name)) for name in (slug, base)]
        rankings = [self.tuned(name, module, size, dtype, inputs) for name, module in modules]
        for (name, module), own, other in zip(modules, rankings, reversed(rankings), strict=True):
            additions = [] if self.dry else cross(own, other, module.tunables)
            if additions:
                configurations = [params for params, _ in own] + additions
                limit = self.tune_seconds
                ranked = tune(self.timer, module.kernel_function, configurations, inputs, limit)
                self._tuned[name, size, dtype] = ranked

    def measure(self, slug: str) -> dict[str, Any]:
        """Check one kernel, tune it, and time it against its baselines."""
        entry = self.files[slug].entry
        module = self.module(slug)
        size = entry.sizes.check[0] if self.dry else entry.sizes.bench
        dtype = best_dtype(entry)
        number_format = torch_dtype(dtype)
        inputs = module.make_inputs(list(size), number_format, self.device, 1)
        set_count = sets_needed(_nbytes(inputs), self.l2_bytes)
        sets = [inputs] + [
            module.make_inputs(list(size), number_format, self.device, 2 + index)
            for index in range(min(set_count, _MAX_SETS) - 1)
        ]

        base = entry.derived_from
        errors: dict[str, str] = {}
        if base is not None:
            with _recorded_error(errors, base):
                self.exchange(slug, base, size, dtype, inputs)
        ranked = self.tuned(slug, module, size, dtype, inputs)
        params, norm_error, wrong = _first_correct(module, ranked, inputs)
        contenders: dict[str, Run] = {"kernel": bind(module.kernel_function, params)}
        parameters = {"kernel": params}
        if base is not None and base not in errors:
            with _recorded_error(errors, base):
                base_module = self.module(base)
                base_ranked = self.tuned(base, base_module, size, dtype, inputs)
                parameters[base], _, _ = _first_correct(base_module, base_ranked, inputs)
                contenders[base] = bind(base_module.kernel_function, parameters[base])
        contenders["eager"] = lambda args: module.reference(*args)
        if not self.dry:
            with _recorded_error(errors, "torch.compile"):
                contenders["torch.compile"] = _compiled(module.reference, inputs)
            if module.library is not None:
                with _recorded_error(errors, LIBRARY):
                    contenders[LIBRARY] = _checked_library(module, module.library, inputs)
        rounds = 3 if self.dry else _ROUNDS
        times = interleave(self.timer, contenders, sets, rounds)
        size_bytes = _nbytes(inputs) + _nbytes(as_tuple(contenders["kernel"](inputs)))
        return {
            "op": entry.op, "language": entry.language, "dtype": dtype, "size": list(size),
            "inputs": [_describe(value) for value in inputs], "input_sets": len(sets),
            "params": parameters, "norm_error": norm_error, "wrong_configurations": wrong,
            "tuning": [{"params": p, "ms": ms} for p, ms in ranked],
            "bytes": size_bytes, "flops": _flops(module.reference, inputs),
            "times": {
                name: {
                    "median_ms": summary.median, "p10_ms": summary.p10, "p90_ms": summary.p90,
                    "samples": summary.count,
                }
                for name, summary in times.items()
            },
            "baseline_errors": errors,
        }  # fmt: skip


class Measure(Request[Measured]):
    """Measure one kernel in a process that has one card."""

    reply = Measured

    slug: str
    corpus: Path
    tune_seconds: float
    dry_run: bool

    def answer(self, state: JudgeState, say: Say) -> Measured:  # noqa: ARG002 (see `Request`)
        """See `Request.answer`."""
        session = _session(self.corpus, self.tune_seconds, self.dry_run)
        return Measured(record=session.record(self.slug))


@functools.cache
def _session(corpus: Path, tune_seconds: float, dry_run: bool) -> Session:
    return Session(load_corpus(corpus), tune_seconds, dry=dry_run)


def best_dtype(entry: Kernel) -> str:
    """bfloat16 where the kernel takes it, else float16, else what it lists first."""
    return next((name for name in _DTYPE_PREFERENCE if name in entry.dtypes), entry.dtypes[0])


def _first_correct(
    module: KernelModule, ranked: Sequence[tuple[Params, float]], inputs: list[Any]
) -> tuple[Params, float, list[dict[str, Any]]]:
    """The fastest configuration whose result is right, its error, and those that were wrong."""
    expected = _expected(module, inputs)
    wrong: list[dict[str, Any]] = []
    for params, _ in ranked:
        result = compare(module.kernel_function(*inputs, **params), expected, agrees=module.agrees)
        if result.problem is None:
            return params, result.norm_error, wrong
        wrong.append({"params": params, "problem": result.problem})
    raise RuntimeError(f"no configuration is right: {wrong[0]['problem']}")


def _expected(module: KernelModule, inputs: list[Any]) -> tuple[torch.Tensor, ...]:
    """The reference on wider inputs, rounded to its own dtypes; as it is where bits count."""
    outputs = as_tuple(module.reference(*inputs))
    if any(output.dtype in _EXACT for output in outputs):
        return outputs
    exact = as_tuple(module.reference(*(_widen(value) for value in inputs)))
    return tuple(value.to(output.dtype) for value, output in zip(exact, outputs, strict=True))


def _widen(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    return value.double() if value.dtype == torch.float32 else value.float()


def _checked_library(module: KernelModule, library: Callable[..., Any], inputs: list[Any]) -> Run:
    outputs = as_tuple(library(*inputs))
    # Values only: among equal values the library may choose other indices.
    pairs = [
        (actual, expected)
        for actual, expected in zip(outputs, _expected(module, inputs), strict=True)
        if expected.is_floating_point()
    ]
    result = compare(tuple(actual for actual, _ in pairs), tuple(expected for _, expected in pairs))
    if result.problem is not None:
        raise ValueError(result.problem)
    return lambda args: library(*args)


def _compiled(reference: Callable[..., Any], inputs: list[Any]) -> Run:
    torch._dynamo.reset()  # the limit on recompilations counts over all kernels otherwise
    compiled = torch.compile(reference, dynamic=False)
    compiled(*inputs)
    return lambda args: compiled(*args)


@contextlib.contextmanager
def _recorded_error(errors: dict[str, str], baseline: str) -> Iterator[None]:
    """Record why a baseline cannot be timed; the others still count."""
    try:
        yield
    except Exception as error:
        errors[baseline] = _error_line(error)


def _nbytes(values: Sequence[Any]) -> int:
    return sum(v.numel() * v.element_size() for v in values if isinstance(v, torch.Tensor))


def _flops(reference: Callable[..., Any], inputs: list[Any]) -> int:
    """FLOPs of the matrix products in the reference: PyTorch's own count, but of attention."""
    from torch.utils.flop_counter import FlopCounterMode

    custom = {getattr(torch.ops.aten, op): _attention_flops(pos) for op, pos in _ATTENTION.items()}
    with FlopCounterMode(display=False, custom_mapping=custom) as counter:
        reference(*inputs)
    return int(counter.get_total_flops())


# PyTorch's operators for attention, and the position of `is_causal` among their arguments.
_ATTENTION = {
    f"_scaled_dot_product_{name}_attention": position
    for name, position in (("flash", 4), ("efficient", 6), ("cudnn", 6))
}


def _attention_flops(causal_at: int) -> Callable[..., int]:
    """Two products of queries with the keys that they may see. PyTorch 2.11's count refuses heads
    that share keys, and no version's knows of the causal mask."""

    def count(query: Any, key: Any, value: Any, *arguments: Any, **options: Any) -> int:
        batch, heads, queries, width = query
        keys = key[-2]
        index = causal_at - 3
        causal = options.get("is_causal", arguments[index] if len(arguments) > index else False)
        scores = sum(min(q + 1, keys) for q in range(queries)) if causal else queries * keys
        return int(2 * batch * heads * scores * (width + value[-1]))

    return count


def _describe(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    return value


def _error_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:500]
