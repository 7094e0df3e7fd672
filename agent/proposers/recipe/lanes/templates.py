"""Triton expressions of operators, `{0}` and `{1}` their operands; conditions are 1 or 0."""

from collections.abc import Mapping
from typing import Any, Final, cast

from agent.proposers.recipe import fuse
from judge.graph import reference
from judge.worker import messages as m

BOTH: Final = "tl.where(({0} != 0.0) & ({1} != 0.0), 1.0, 0.0)"
EITHER: Final = "tl.where(({0} != 0.0) | ({1} != 0.0), 1.0, 0.0)"
# Beside those of fused chains. Near zero the series' first terms.
_TEMPLATES: Final[Mapping[str, str]] = {
    "floor.default": "tl.floor({0})",
    "ceil.default": "tl.ceil({0})",
    "trunc.default": "tl.where({0} < 0.0, tl.ceil({0}), tl.floor({0}))",
    "tan.default": "tl.sin({0}) / tl.cos({0})",
    "log10.default": "tl.log({0}) * 0.4342944819032518",
    "log1p.default": "tl.where(tl.abs({0}) < 0.1, {0} * (1.0 - {0} * (0.5 - {0} * (0.33333333"
    " - {0} * (0.25 - {0} * (0.2 - {0} * (0.16666667 - {0} * 0.14285714)))))), tl.log(1.0 + {0}))",
    "expm1.default": "tl.where(tl.abs({0}) < 0.1, {0} * (1.0 + {0} * (0.5 + {0} * (0.16666667"
    " + {0} * (0.041666667 + {0} * (0.0083333333 + {0} * 0.0013888889))))), tl.exp({0}) - 1.0)",
    "sign.default": "tl.where({0} > 0.0, 1.0, tl.where({0} < 0.0, -1.0, {0}))",
    "isfinite.default": 'tl.where(tl.abs({0}) < float("inf"), 1.0, 0.0)',
    "isnan.default": "tl.where({0} != {0}, 1.0, 0.0)",
    "logical_not.default": "tl.where({0} == 0.0, 1.0, 0.0)",
    "bitwise_not.default": "1.0 - {0}",
    "logical_and.default": BOTH,
    "logical_or.default": EITHER,
    "logical_xor.default": "tl.where(({0} != 0.0) != ({1} != 0.0), 1.0, 0.0)",
    "remainder.Scalar": "{0} - {1} * tl.floor({0} / {1})",
    "remainder.Tensor": "{0} - {1} * tl.floor({0} / {1})",
    "div.Scalar": "{0} / {1}",
    "pow.Tensor_Tensor": "tl.exp2({1} * tl.log2({0}))",
    "lerp.Scalar": "{0} + {2} * ({1} - {0})",
    "lerp.Tensor": "{0} + {2} * ({1} - {0})",
    "logaddexp.default": "tl.where({0} == {1}, {0} + 0.6931471805599453, tl.maximum({0}, {1})"
    " + tl.log(1.0 + tl.exp(-tl.abs({0} - {1}))))",
    "clamp.Tensor": "tl.where({0} < {1}, {1}, tl.where({0} > {2}, {2}, {0}))",
    "where.Scalar": "tl.where({0} != 0.0, {1}, {2})",
    "where.ScalarSelf": "tl.where({0} != 0.0, {1}, {2})",
    "where.ScalarOther": "tl.where({0} != 0.0, {1}, {2})",
    "masked_fill.Tensor": "tl.where({1} != 0.0, {2}, {0})",
}
_ON_BOOLS: Final[Mapping[str, str]] = {
    "bitwise_and.Tensor": "{0} * {1}", "__and__.Tensor": "{0} * {1}",
    "bitwise_or.Tensor": "tl.maximum({0}, {1})", "__or__.Tensor": "tl.maximum({0}, {1})",
    "bitwise_xor.Tensor": "tl.abs({0} - {1})",
}  # fmt: skip


def template_of(node: m.GraphNode) -> str | None:
    """An operator as a Triton expression of its arguments; None where there is none."""
    short = node.op.removeprefix("aten.")
    if any(reference(arg) is None and fuse.number(arg) is None for arg in node.args):
        return None
    if len(node.kwargs) == 1 and not node.kwargs.keys().isdisjoint(("alpha", "value")):
        return _scaled(short, *node.kwargs.values())
    if short == "_to_copy.default" and node.tensors[0].dtype == "bool":
        return "tl.where({0} != 0.0, 1.0, 0.0)"
    known = fuse.template_of(node)
    if known is not None or node.kwargs:
        return known
    on_bools = _ON_BOOLS.get(short) if node.tensors[0].dtype == "bool" else None
    if short == "pow.Tensor_Scalar" and not float(cast("float", node.args[1])).is_integer():
        return _TEMPLATES["pow.Tensor_Tensor"]
    return on_bools or _TEMPLATES.get(short)


def _scaled(short: str, factor: Any) -> str | None:
    """An addition of a multiple."""
    if not isinstance(factor, int | float):
        return None
    return {
        "add.Tensor": f"{{0}} + {{1}} * {float(factor)!r}",
        "sub.Tensor": f"{{0}} - {{1}} * {float(factor)!r}",
        "addcmul.default": f"{{0}} + {{1}} * {{2}} * {float(factor)!r}",
        "addcdiv.default": f"{{0}} + {{1}} / {{2}} * {float(factor)!r}",
    }.get(short)
