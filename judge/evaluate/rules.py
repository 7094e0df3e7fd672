"""What the outputs of one case have to be: the oracle's values and the problem's own rule."""

import copy
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from judge.evaluate.compare import Difference, Expected, compare, expect
from judge.evaluate.nvfp4 import BLOCK, Nvfp4Difference, compare_nvfp4, quantize, swizzle
from judge.evaluate.result import Counterexample
from judge.evaluate.tolerance import (
    NORM_OVER_EAGER,
    WORST_OVER_EAGER,
    Bounds,
    candidate_limits,
    eager_limits,
    integer_limits,
    looks_like_tf32,
    usual_eager_limits,
)
from judge.problem.judge import JudgeDeclaration
from judge.worker.messages import Precision

# Elements looked at in one go.
_PART = 1 << 24
# Sums of doubles in another order differ by less than this, relatively, unless they cancel.
_SAME = 1e-12


@dataclass(frozen=True, slots=True)
class Checked:
    """All outputs of one call held against a reference."""

    differences: tuple[Difference | None, ...]
    """By output; None where the NVFP4 rule judged it."""
    nvfp4: Nvfp4Difference | None = None
    structure: str | None = None
    """What is wrong with the number of outputs."""
    hint: str = ""
    """What the size of the error suggests."""

    @property
    def problem(self) -> str | None:
        """What is wrong, in one line; None where all is right."""
        if self.structure:
            return self.structure
        problems = [] if self.nvfp4 is None or not self.nvfp4.problem else [self.nvfp4.problem]
        for number, difference in enumerate(self.differences):
            if difference is not None and difference.problem:
                prefix = f"output {number}: " if len(self.differences) > 1 else ""
                problems.append(prefix + difference.problem)
        return "; ".join(problems) + self.hint if problems else None

    @property
    def examples(self) -> tuple[Counterexample, ...]:
        """The first few wrong elements."""
        counterexamples = list(self.nvfp4.examples) if self.nvfp4 else []
        for difference in self.differences:
            counterexamples += difference.examples if difference else ()
        return tuple(counterexamples[:5])

    def largest(self, name: str) -> float | None:
        """The largest `max_abs`, `max_rel` or `norm_ratio` over the outputs; None if none."""
        return max((getattr(d, name) for d in self.differences if d is not None), default=None)

    def unequal(self, output: int) -> int:
        """Elements of one output that are not the rounded oracle's."""
        difference = self.differences[output] if output < len(self.differences) else None
        return difference.unequal if difference else 0


class Reference:
    """The oracle's outputs for one case, and how others are compared with them.

    Parameters
    ----------
    outputs
        The oracle's tensors for the outputs of `forward`; None where `values` stands for them.
    dtypes
        The torch dtypes of eager's outputs.
    terms
        Length of the longest sum behind one output element.
    values
        NVFP4: the oracle's values before quantization, [..., n].
    sensitivities
        Of the outputs to the inputs, where they are known; see `compare.expect`.
    """

    def __init__(
        self,
        outputs: Sequence[Any | None],
        dtypes: Sequence[Any],
        declaration: JudgeDeclaration,
        *,
        precision: Precision = "ieee",
        terms: float = 1.0,
        values: Any = None,
        sensitivities: Sequence[float] = (),
    ) -> None:
        self.declaration = declaration
        self.precision = precision
        self.terms = terms
        self.values: Any = None if values is None else values.reshape(-1, values.shape[-1])
        self.expected = [
            None if tensor is None else expect(tensor, dtype, sensitivity)
            for tensor, dtype, sensitivity in zip(
                outputs, dtypes, sensitivities or [0.0] * len(dtypes), strict=True
            )
        ]
        # g is a float32 number wherever it is used.
        self._g = float(torch.tensor(declaration.global_scale, dtype=torch.float32))

    def at(self, outputs: Sequence[Any | None]) -> "Reference":
        """The same of other outputs of the oracle, on inputs close by; sizes stay as they are."""
        other = copy.copy(self)
        other.expected = [
            tensor if tensor is None or values is None else replace(tensor, values=values)
            for tensor, values in zip(self.expected, outputs, strict=True)
        ]
        return other

    def eager_limits(self) -> list[Bounds | None]:
        """Bounds within which eager has to be for the case to count."""
        limits: list[Bounds | None] = []
        for tensor in self.expected:
            if tensor is None:
                limits.append(None)
            elif tensor.exact:
                limits.append(integer_limits(tensor.values.numel()))
            else:
                limits.append(eager_limits(tensor.dtype, self.precision, terms=self.terms))
        return limits

    def describe_eager_error(self, eager: Checked) -> str | None:
        """How far eager is off beyond what its format does; None where it is not."""
        for tensor, difference in zip(self.expected, eager.differences, strict=True):
            if tensor is None or tensor.exact or difference is None or self.declaration.tolerance:
                continue
            usual = usual_eager_limits(tensor.dtype, self.precision, terms=self.terms)
            if difference.norm_ratio > usual.norm or difference.max_rel > usual.worst:
                return (
                    f"eager itself has large errors ({difference.norm_ratio:.2g} of the norm, "
                    f"{difference.max_rel:.2g} of an element): a kernel may have "
                    f"{NORM_OVER_EAGER:g} and {WORST_OVER_EAGER:g} times these"
                )
        return None

    def candidate_limits(self, eager: Checked) -> list[Bounds | None]:
        """Bounds for a candidate, given how far eager is off; the problem's own where declared."""
        declared = self.declaration.tolerance
        limits: list[Bounds | None] = []
        for tensor, difference in zip(self.expected, eager.differences, strict=True):
            if tensor is None or difference is None:
                limits.append(None)
                continue
            if tensor.exact:
                eagers = difference.unequal, difference.max_abs
                limits.append(integer_limits(tensor.values.numel(), eagers))
                continue
            bounds = candidate_limits(
                tensor.dtype,
                self.precision,
                terms=self.terms,
                eager_norm=difference.norm_ratio,
                eager_worst=difference.max_rel,
            )
            if declared is not None:
                bounds = replace(bounds, norm=declared.norm, worst=declared.worst)
            limits.append(bounds)
        return limits

    def check(
        self, outputs: Sequence[Any], limits: Sequence[Bounds | None], exact: Collection[int] = ()
    ) -> Checked:
        """Compare tensors on the oracle's device; outputs in `exact` must equal the oracle."""
        if len(outputs) != len(self.expected):
            return Checked((), None, f"{len(outputs)} outputs instead of {len(self.expected)}")
        differences = tuple(
            None
            if tensor is None
            else compare(outputs[i], tensor, None if i in exact else limits[i], i)
            for i, tensor in enumerate(self.expected)
        )
        nvfp4, judge = None, self.declaration
        if self.values is not None:
            packed = outputs[judge.codes], outputs[judge.scales]
            nvfp4 = compare_nvfp4(*packed, self.values, judge, self._g)
        hint = ""
        for tensor, difference in zip(self.expected, differences, strict=True):
            if (
                tensor
                and difference
                and difference.problem
                and looks_like_tf32(tensor.dtype, self.precision, difference.norm_ratio)
            ):
                hint = " (typical of products in TF32 or float16; --tf32 allows TF32)"
        return Checked(differences, nvfp4, None, hint)

    def answer_like(self, templates: Sequence[Any], kind: str) -> list[Any]:
        """A wrong answer in the templates' place: `zeros`, or each output's `mean`.

        Under the NVFP4 rule the mean is that of the magnitudes, quantized.
        """
        outputs = [tensor.zero_() for tensor in templates]
        if kind == "zeros":
            return outputs
        for tensor, target in zip(outputs, self.expected, strict=True):
            if target is not None:
                tensor.fill_(_mean(target))
        if self.values is not None:
            self._quantize(torch.full_like(self.values, float(self.values.abs().mean())), outputs)
        return outputs

    def from_oracle(
        self, oracle: Sequence[Any | None], values: Any, templates: Sequence[Any]
    ) -> list[Any]:
        """What a kernel with the oracle's (mutated) results would store, in the templates."""
        for target, source in zip(templates, oracle, strict=True):
            if source is not None:
                target.copy_(source)
        if values is not None:
            self._quantize(values.reshape(-1, values.shape[-1]), templates)
        return list(templates)

    def differs(self, oracle: Sequence[Any | None], values: Any) -> bool:
        """Whether other exact results are others indeed, not the same sums in another order."""
        pairs = [
            (source, tensor.values)
            for source, tensor in zip(oracle, self.expected, strict=True)
            if source is not None and tensor is not None
        ]
        if values is not None:
            pairs.append((values, self.values))
        return any(_differs(first, second) for first, second in pairs)

    def _quantize(self, values: Any, outputs: Sequence[Any]) -> None:
        codes, scales = quantize(values, self._g)
        rows, length = values.shape
        if self.declaration.layout == "swizzled":
            scales = swizzle(scales.reshape(rows, length // BLOCK))
        for tensor, packed in (
            (outputs[self.declaration.codes], codes),
            (outputs[self.declaration.scales], scales),
        ):
            tensor.reshape(-1).view(torch.uint8).copy_(packed.reshape(-1))


def _differs(a: Any, b: Any) -> bool:
    for left, right in zip(a.reshape(-1).split(_PART), b.reshape(-1).split(_PART), strict=True):
        if not left.is_floating_point():
            if not bool(torch.equal(left, right)):
                return True
            continue
        left, right = left.double(), right.double()  # noqa: PLW2901 (8-bit formats: no arithmetic)
        same = (left == right) | (left.isnan() & right.isnan())
        if bool((~same & ((left - right).abs() > _SAME * right.abs())).any()):
            return True
    return False


def _mean(expected: Expected) -> Any:
    """The mean of the finite elements, in what the dtype can hold."""
    if expected.dtype is torch.bool:
        return bool(expected.values.double().mean() > 0.5)
    if expected.exact:
        return round(float(expected.values.double().mean()))
    total: complex = 0.0
    count = 0
    for chunk in expected.values.reshape(-1).split(_PART):
        wide = chunk if expected.dtype.is_complex else chunk.double()  # 8-bit formats have no sums
        finite = wide[torch.isfinite(wide)]
        total += complex(finite.sum())
        count += finite.numel()
    mean = total / count if count else 0.0
    return mean if expected.dtype.is_complex else mean.real
