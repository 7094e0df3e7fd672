"""Forms of the problem's own model: as it is, and what `torch.compile` makes of it."""

from typing import Final, Literal, get_args

ModelForm = Literal["eager", "compile", "max-autotune"]
EAGER: Final = "eager"
MODEL_FORMS: Final[tuple[ModelForm, ...]] = get_args(ModelForm)
"""All of them, `EAGER` first."""
COMPILED: Final[dict[str, dict[str, bool | str]]] = {
    # Shapes are constants: torch.compile would otherwise take the second shape that it meets, such
    # as a reduced one before the full one, for the first of many, and generate slower code for all.
    "compile": {"dynamic": False},
    "max-autotune": {"dynamic": False, "mode": "max-autotune-no-cudagraphs"},
}
"""Arguments of `torch.compile`, by form."""

# Appended to the problem: its own model as a kernel file.
_AS_KERNEL: Final = '\n\nclass ModelNew(Model):\n    """The problem\'s own model{how}."""\n'
_COMPILING: Final = """
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.compile({options})
"""


def as_kernel(problem: str, form: ModelForm) -> str:
    """A kernel file (`ModelNew`) with the problem's own model in one form; it runs by itself.

    A compiled form compiles at its first call, and anew for other shapes or dtypes.
    """
    text = problem.rstrip() + "\n"
    if form == EAGER:
        return text + _AS_KERNEL.format(how="")
    options = ", ".join(f"{name}={value!r}" for name, value in COMPILED[form].items())
    how = ", compiled at its first call"
    return text + _AS_KERNEL.format(how=how) + _COMPILING.format(options=options)
