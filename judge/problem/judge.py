"""A problem file's literal `JUDGE`: how outputs are compared, which sizes are valid."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SizeRule(_Strict):
    """What values of one module-level integer constant are valid."""

    min: Annotated[int, Field(ge=0)] = 1
    """The least value that shape variants may take."""
    max: Annotated[int, Field(ge=0)] | None = None
    multiple: Annotated[int, Field(ge=1)] = 1
    """Values are multiples of this."""
    fixed: bool = False
    """Variants leave the constant as it is."""

    @model_validator(mode="after")
    def _some_value_is_left(self) -> Self:
        if self.max is not None and self.max < self.nearest(self.min):
            raise ValueError("no multiple lies between min and max")
        return self

    def nearest(self, value: int) -> int:
        """The greatest allowed value up to `value`, or the least allowed one."""
        if self.max is not None:
            value = min(value, self.max)
        down = value // self.multiple * self.multiple
        return down if down >= self.min else -(-self.min // self.multiple) * self.multiple


class DeclaredTolerance(_Strict):
    """Bounds that replace the judge's own for the outputs' dtype.

    `norm` is on ‖actual − expected‖ / ‖expected‖, `worst` on max|actual − expected| /
    max|expected|.
    """

    norm: Annotated[float, Field(gt=0, le=1)]
    worst: Annotated[float, Field(gt=0, le=1)]


class JudgeDeclaration(_Strict):
    """What a problem file says about its judging; every key has a default."""

    rule: Literal["nvfp4"] | None = None
    """A comparison of its own; None compares by tolerance."""
    fused: bool = False
    """NVFP4: the quantized values are computed, so scales and codes have midpoint allowances."""
    layout: Literal["linear", "swizzled"] = "linear"
    """NVFP4: scales row-major, or in tiles of 128 x 4."""
    codes: Annotated[int, Field(ge=0)] = 0
    """NVFP4: which output holds the codes, uint8 [..., N / 2]."""
    scales: Annotated[int, Field(ge=0)] = 1
    """NVFP4: which output holds the scales, E4M3 bytes."""
    global_scale: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 1.0
    """NVFP4: the scale g of the whole tensor, taken as float32."""
    values: str = "values"
    """NVFP4: the method of `Model` that returns, from the inputs, what is quantized: [..., N]
    float32, or float64 where the model runs in float64."""
    constants: dict[str, SizeRule] = Field(default_factory=dict)
    """Rules for shape variants, by constant: `N`, or `shape[0]` for an element of a tuple."""
    tolerance: DeclaredTolerance | None = None
