"""Input and output of the profiled and of the compiling program; imports no torch."""

from typing import Literal

from pydantic import Field

from judge.evaluate.result import Model
from judge.profile.result import StaticFacts

# Untrusted code writes the answer: what is larger than this is not read.
MAX_ANSWER_BYTES = 16 << 20


class Spec(Model):
    """One problem and one kernel file, and how often to call it."""

    problem_source: str
    """Text of the problem file."""
    kernel_source: str
    """Text of the kernel file."""
    form: Literal["ModelNew", "kernel_function", "cuda"]
    """How the kernel file is called."""
    device: str = "cuda:0"
    """Where it runs."""
    architecture: str | None = None
    """What to compile for; None: for the device."""
    multiprocessors: int = 1
    """What the compiling program says of the card that is not there."""
    dtype: str | None = None
    """What floating-point inputs and parameters are cast to."""
    precision: Literal["ieee", "tf32"] = "ieee"
    """Whether float32 products may use TF32."""
    seed: int = 0
    """Seed of the model and its inputs."""
    warmup: int = Field(default=2, ge=0)
    """Calls before the profiled ones: compilation, autotuning, lazy set-up."""
    calls: int = Field(default=1, ge=1)
    """Profiled calls."""


class Answer(Model):
    """What the program found: claims of a process that runs untrusted code."""

    gpu: str | None = Field(default=None, max_length=200)
    """Name of the card."""
    architecture: str | None = Field(default=None, max_length=20)
    """What the facts below were compiled for."""
    static: tuple[StaticFacts, ...] = Field(default=(), max_length=2000)
    """Facts of the kernels that the candidate compiled."""
    notes: tuple[str, ...] = Field(default=(), max_length=50)
    """What could not be done."""
