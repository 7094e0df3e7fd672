"""How models spell the operators that are recognised, as patterns over an exported graph."""

from typing import Final

from agent.proposers.recipe.patterns import Const, Var, only, op

X: Final = Var("x")
SQUARE: Final = (op("mul.Tensor", X, X), op("pow.Tensor_Scalar", X, 2), op("square.default", X))
MEAN_SQUARE: Final = op("add.Tensor", op("mean.dim", SQUARE, Const("dim"), True), Const("eps"))
NORM: Final = (
    op("mul.Tensor", X, op("rsqrt.default", MEAN_SQUARE)),
    op("div.Tensor", X, op("sqrt.default", MEAN_SQUARE)),
    op("mul.Tensor", X, op("pow.Tensor_Scalar", MEAN_SQUARE, -0.5)),
)
RMSNORM: Final = (
    op("rms_norm.default", X, Const("shape"), Var("weight"), Const("eps")),
    op("rms_norm.default", X, Const("shape"), Const("no_weight"), Const("eps")),
    op("mul.Tensor", NORM, Var("weight")),
    NORM,
)
# Layer norm: the variance is PyTorch's, or that of the centred values.
MEAN: Final = op("mean.dim", X, Const("dim"), True)
CENTRED: Final = op("sub.Tensor", X, MEAN)
VARIANCE: Final = (
    op("var.dim", X, Const("dim"), False, True),
    op("mean.dim", (op("pow.Tensor_Scalar", CENTRED, 2), op("square.default", CENTRED),
                          op("mul.Tensor", CENTRED, CENTRED)), Const("dim"), True),
)  # fmt: skip
SPREAD: Final = op("add.Tensor", VARIANCE, Const("eps"))
STANDARDISED: Final = (
    op("div.Tensor", CENTRED, op("sqrt.default", SPREAD)),
    op("mul.Tensor", CENTRED, op("rsqrt.default", SPREAD)),
)
SCALED: Final = op("mul.Tensor", STANDARDISED, Var("weight"))
LAYERNORM: Final = (
    op("add.Tensor", SCALED, Var("bias")), SCALED, STANDARDISED,
)  # fmt: skip
GATE: Final = Var("gate")
SILU: Final = (op("silu.default", GATE), op("mul.Tensor", GATE, op("sigmoid.default", GATE)))
PRODUCT: Final = (
    op("matmul.default", Var("a"), Var("b")),
    op("mm.default", Var("a"), Var("b")),
    op("mv.default", Var("a"), Var("b")),
)
BUILT_IN_BIAS: Final = (
    op("linear.default", Var("a"), Var("w"), Var("bias")),
    op("addmm.default", Var("bias"), Var("a"), Var("b")),
)
LINEAR_BIAS: Final = (
    *BUILT_IN_BIAS,
    op("add.Tensor", PRODUCT, Var("bias")),
    op("add.Tensor", only("linear.default", Var("a"), Var("w")), Var("bias")),
)
GELU_LINEAR: Final = op("gelu.default", LINEAR_BIAS)
LINEAR: Final = (PRODUCT, only("linear.default", Var("a"), Var("w")))
