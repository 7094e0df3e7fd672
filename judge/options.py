"""The options that whatever runs a kernel has in common, declared once."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from kb.docstrings import describe_fields


class RunOptions(BaseModel):
    """How problem and kernel are run."""

    model_config = ConfigDict(frozen=True, extra="forbid", json_schema_extra=describe_fields)

    dtype: str | None = None
    """Floating-point inputs and parameters are converted to it; None leaves them as given."""
    tf32: bool = False
    """TF32 is allowed in float32 products, to all contenders."""
    device: str | None = None
    """`cuda:N`, or `cpu` for Triton's interpreter; None takes the first GPU."""
    interpret: bool = False
    """Triton's interpreter on the CPU, at reduced sizes, without times."""
    trust: bool = False
    """Run although the sandbox lacks layers that code of unknown origin needs."""

    @property
    def precision(self) -> Literal["ieee", "tf32"]:
        """What float32 products may round to."""
        return "tf32" if self.tf32 else "ieee"

    @classmethod
    def like(cls, other: BaseModel, **fields: Any) -> Self:
        """These options with what `other` has under the same names, and with `fields`."""
        shared = cls.model_fields.keys() & type(other).model_fields.keys()
        return cls(**{name: getattr(other, name) for name in shared} | fields)
