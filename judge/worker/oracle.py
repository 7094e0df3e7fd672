"""The problem's model in float64, in slices along dimension 0 where memory asks for it."""

import copy
import math
from typing import Any, Final, Literal

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from judge.worker import messages as m
from judge.worker.buffers import (
    BadBufferError,
    OpenBuffers,
    cast,
    default_dtype,
    dtype_name,
    spec_of,
)
from judge.worker.carried import find_carried_state
from judge.worker.mutations import mutated_inputs, mutated_model
from judge.worker.outputs import agree, flatten
from judge.worker.problem import LoadedProblem, move, set_state
from judge.worker.seeds import set_precision

# Inputs, outputs and this many temporaries as large as all of them are alive at a time in typical
# models (a normalization holds its input, the square, the scaled input and the result).
_TEMPORARIES: Final = 2

# Of the free device memory; eager and compiled contenders allocate in other processes.
_MEMORY_FRACTION: Final = 0.5

# After an out-of-memory error the number of slices is doubled, this often.
_RETRIES: Final = 6

Precision = Literal["float64", "float32"]


class Oracle:
    """Runs one problem's model in float64, or in float32 where an operator lacks float64.

    Parameters
    ----------
    problem
        The loaded problem; its model is copied and stays as it is.
    carried
        What `find_carried_state` returned at another shape of the problem; None: not called yet.
    """

    def __init__(self, problem: LoadedProblem, carried: list[str] | None = None) -> None:
        self._problem = problem
        self._models: dict[Precision, Any] = {}
        self._precision: Precision = "float64"
        self._why_float32 = ""
        self._narrowed = False
        self.carried = carried
        self._sliced: dict[tuple[Any, ...], frozenset[int]] = {}

    def run(self, task: m.Oracle, inputs: list[Any], buffers: OpenBuffers) -> m.OracleOutputs:
        """Compute the outputs for `inputs`, the task's, and write them into buffers.

        Floating-point inputs are taken as they are and raised to float64. The outputs have the
        dtype that the model then gives: float64 unless it casts by itself.
        """
        if task.into is None:
            unchanged = task.model_copy(update={"mutate": None})
            return self._answer(self._describe(inputs, unchanged))
        inputs = mutated_inputs(inputs, task.mutate)
        targets = [None if name is None else buffers[name] for name in task.into]
        chunks = self._chunks_for_memory(inputs, targets)
        try:
            for _ in range(_RETRIES):
                try:
                    return self._run(inputs, targets, task, chunks)
                except torch.OutOfMemoryError:
                    torch.cuda.empty_cache()
                    chunks *= 2
            return self._run(inputs, targets, task, chunks)
        finally:
            if self._problem.device.type == "cuda":  # other contenders need the memory
                torch.cuda.empty_cache()

    def _run(
        self, inputs: list[Any], targets: list[Any], task: m.Oracle, chunks: int
    ) -> m.OracleOutputs:
        sliced = self._sliceable(inputs, task.method) if chunks > 1 else frozenset[int]()
        rows = inputs[min(sliced)].shape[0] if sliced else 1
        step = math.ceil(rows / min(chunks, rows))
        starts = range(0, rows, step)
        specs: list[m.TensorSpec] = []
        for start in starts:
            part = _rows(inputs, sliced, slice(start, start + step)) if sliced else inputs
            outputs = self._evaluate(part, task)
            if len(outputs) != len(targets):
                raise ValueError(f"the model has {len(outputs)} outputs, not {len(targets)}")
            for output, target in zip(outputs, targets, strict=True):
                if target is not None:
                    _write(output, target, (start, start + step, rows))
            specs = specs or [spec_of(output) for output in outputs]
        if len(starts) > 1:  # the first slice has `step` rows
            specs = [
                m.TensorSpec(
                    shape=(spec.shape[0] // step * rows, *spec.shape[1:]), dtype=spec.dtype
                )
                for spec in specs
            ]
        return self._answer(specs, len(starts))

    def _answer(self, specs: list[m.TensorSpec], chunks: int = 1) -> m.OracleOutputs:
        return m.OracleOutputs(
            outputs=specs,
            precision=self._precision,
            why_float32=self._why_float32,
            narrowed=self._narrowed,
            carried=self.carried or [],
            chunks=chunks,
        )

    def _evaluate(self, inputs: list[Any], task: m.Oracle) -> list[Any]:
        """Run the model once; falls to float32 for good where float64 raises and float32 not."""
        try:
            return self._evaluate_in(self._precision, inputs, task)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            if self._precision == "float32":
                raise
            try:
                outputs = self._evaluate_in("float32", inputs, task)
            except torch.OutOfMemoryError:
                raise
            except Exception:
                raise error from None
            self._precision = "float32"
            self._why_float32 = m.one_line(str(error), 300)
            return outputs

    def _evaluate_in(self, precision: Precision, inputs: list[Any], task: m.Oracle) -> list[Any]:
        dtype = getattr(torch, precision)
        # A copy each time: batch statistics and the like that the model updates must not reach
        # the next evaluation.
        model = copy.deepcopy(self._model(precision))
        set_precision("ieee")  # for float32
        narrowing = _Narrowing()
        try:
            with (
                default_dtype(dtype),
                self._problem.device,
                torch.no_grad(),
                mutated_model(model, task.mutate),
                narrowing,
            ):
                call = model if task.method == "forward" else getattr(model, task.method)
                outputs = flatten(call(*(cast(value, dtype) for value in inputs)))
            if self.carried is None and task.into and not task.mutate:
                self.carried = self._find_carried(model, precision, inputs)
            return outputs
        finally:
            set_precision(self._problem.precision)
            self._narrowed = self._narrowed or narrowing.detected

    def _find_carried(self, used_model: Any, precision: Precision, inputs: list[Any]) -> list[str]:
        dtype = getattr(torch, precision)
        wide = [cast(value, dtype) for value in inputs]
        try:
            with default_dtype(dtype), self._problem.device, torch.no_grad():
                return find_carried_state(used_model, self._model(precision), wide)
        except torch.OutOfMemoryError:
            return []

    def _model(self, precision: Precision) -> Any:
        if precision not in self._models:
            model = copy.deepcopy(self._problem.model)
            set_state(model, self._problem.built)
            move(model, self._problem.device, getattr(torch, precision))
            self._models[precision] = model
        return self._models[precision]

    def _describe(self, inputs: list[Any], task: m.Oracle) -> list[m.TensorSpec]:
        """Describe the outputs, without memory where the model allows it."""
        self._model(self._precision)  # made now: under the mode it would be a fake, for good
        try:
            with FakeTensorMode(allow_non_fake_inputs=True) as mode:
                fake = [
                    mode.from_tensor(value) if isinstance(value, torch.Tensor) else value
                    for value in inputs
                ]
                outputs = self._evaluate_in(self._precision, fake, task)
                return [spec_of(output) for output in outputs]
        except Exception:
            return [spec_of(output) for output in self._evaluate(inputs, task)]

    def _chunks_for_memory(self, inputs: list[Any], targets: list[Any]) -> int:
        if self._problem.device.type != "cuda":
            return 1
        elements: int = sum(
            input_.numel() for input_ in (*inputs, *targets) if isinstance(input_, torch.Tensor)
        )
        free = int(torch.cuda.mem_get_info(self._problem.device)[0])
        return max(1, math.ceil(8 * elements * (1 + _TEMPORARIES) / (free * _MEMORY_FRACTION)))

    def _sliceable(self, inputs: list[Any], method: str) -> frozenset[int]:
        """Which inputs can be sliced along dimension 0 so that outputs are those of the slices.

        Shown on four rows (the first two and the last two): evaluated together, and in parts of
        one and three, the results must agree. First all inputs with as many rows as the first are
        taken to be batched, then the first alone, which tells a matrix from a second factor of
        the same size. Empty where nothing commutes (statistics over the batch).
        """
        key = (
            method,
            *(tuple(v.shape) if isinstance(v, torch.Tensor) else repr(v) for v in inputs),
        )
        if key not in self._sliced:
            self._sliced[key] = self._find_sliceable(inputs, method)
        return self._sliced[key]

    def _find_sliceable(self, inputs: list[Any], method: str) -> frozenset[int]:
        batched = [
            index
            for index, value in enumerate(inputs)
            if isinstance(value, torch.Tensor) and value.dim() > 0
        ]
        if not batched or (rows := inputs[batched[0]].shape[0]) < 4:
            return frozenset()
        same_rows = frozenset(index for index in batched if inputs[index].shape[0] == rows)
        for sliced in dict.fromkeys([same_rows, frozenset(batched[:1])]):
            indices = torch.tensor([0, 1, rows - 2, rows - 1], device=self._problem.device)
            samples = [
                value.index_select(0, indices) if index in sliced else value
                for index, value in enumerate(inputs)
            ]
            if self._commutes(samples, sliced, m.Oracle(inputs=[], method=method)):
                return sliced
        return frozenset()

    def _commutes(self, samples: list[Any], sliced: frozenset[int], task: m.Oracle) -> bool:
        try:
            whole = self._evaluate(samples, task)
            head = self._evaluate(_rows(samples, sliced, slice(0, 1)), task)
            tail = self._evaluate(_rows(samples, sliced, slice(1, 4)), task)
            return all(map(_is_concatenation, whole, head, tail))
        except torch.OutOfMemoryError:
            raise
        except Exception:
            return False  # such as a size that the model spells out


class _Narrowing(TorchDispatchMode):  # type: ignore[misc]
    """Sees whether the model itself casts to a format narrower than the oracle's."""

    detected = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not self.detected and func.name() in ("aten::_to_copy", "aten::copy_"):
            target_dtype = (kwargs or {}).get("dtype") or getattr(args[0], "dtype", None)
            source = args[1] if func.name() == "aten::copy_" else args[0]
            self.detected = _is_narrower(target_dtype, getattr(source, "dtype", None))
        return func(*args, **(kwargs or {}))


def _is_narrower(dtype: Any, other: Any) -> bool:
    if not (isinstance(dtype, torch.dtype) and isinstance(other, torch.dtype)):
        return False
    floating = dtype.is_floating_point and other.is_floating_point
    return bool(floating and dtype.itemsize < other.itemsize)


def _rows(inputs: list[Any], sliced: frozenset[int], rows: slice) -> list[Any]:
    return [value[rows] if index in sliced else value for index, value in enumerate(inputs)]


def _is_concatenation(whole: Any, head: Any, tail: Any) -> bool:
    """Whether `whole` is `head` (one row's share) above `tail` (three rows' share)."""
    if whole.dim() == 0 or tail.shape[0] != 3 * head.shape[0]:
        return False
    return agree(torch.cat([head, tail]), whole)


def _write(output: Any, target: Any, rows: tuple[int, int, int]) -> None:
    """Write the share of input rows [start, stop) of all into the whole output's buffer."""
    start, stop, total = rows
    share = target
    if start > 0 or stop < total:
        per_row, remainder = divmod(target.shape[0] if target.dim() else 0, total)
        if not remainder:
            share = target[start * per_row : stop * per_row]
    if share.shape != output.shape or share.dtype != output.dtype:
        raise BadBufferError(
            f"the output is {dtype_name(output.dtype)}{list(output.shape)}, its buffer "
            f"{dtype_name(share.dtype)}{list(share.shape)}"
        )
    share.copy_(output)
