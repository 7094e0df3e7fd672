"""Honest Triton kernels with a problem each: the shipped ones, and those beside the attacks."""

import inspect
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.judge.cases import read_suite
from kb.corpus.entries import Kernel
from kb.corpus.loader import load_corpus

CORPUS = Path(__file__).parents[2] / "corpus"
_PROBLEM = """

{sizes}


class Model(torch.nn.Module):
    def forward(self, {names}):
        return reference({names})


def get_inputs():
    seed = torch.initial_seed() % (1 << 31)
    return list(make_inputs([{constants}], torch.{dtype}, "cpu", seed))


def get_init_inputs():
    return []
"""
# What the interpreter computes in: bfloat16 it takes for integers.
_DTYPES = ("float32", "float16")


@dataclass(frozen=True, slots=True)
class Subject:
    """One honest kernel and the problem that it solves."""

    name: str
    problem: str
    """Text of the problem file, at small sizes."""
    kernel: str
    """Text of the kernel file."""


def subjects() -> Iterator[Subject]:
    """All that Triton's interpreter can run, by name.

    Shipped kernels are imported for their numbers of inputs.
    """
    for case in read_suite("honest"):
        if case.needs == "cpu" and case.path.suffix == ".py":
            text = case.problem_source(small=True)
            yield Subject(f"suite/{case.name}", text, case.source())
    for entry in load_corpus(CORPUS).kernels:
        if entry.entry.language == "triton":
            subject = _shipped_subject(CORPUS / entry.path, entry.entry)
            if subject is not None:
                yield subject


def _shipped_subject(path: Path, entry: Kernel) -> Subject | None:
    """A shipped kernel with its own reference as the model; None where it has a rule of its own."""
    import torch

    from kb.verify.kernel_module import load_kernel_module

    assert os.environ.get("TRITON_INTERPRET") == "1"
    module = load_kernel_module(path)
    dtype = next((name for name in _DTYPES if name in entry.dtypes), None)
    if module.agrees is not None or dtype is None:
        return None
    size = list(entry.sizes.check[0])
    inputs = module.make_inputs(size, getattr(torch, dtype), "cpu", 0)
    parameters = list(inspect.signature(module.reference).parameters)
    if len(inputs) > len(parameters):
        return None
    constants = [f"SIZE{number}" for number in range(len(size))]
    text = path.read_text()
    problem = text + _PROBLEM.format(
        sizes="\n".join(f"{n} = {v}" for n, v in zip(constants, size, strict=True)),
        names=", ".join(parameters[: len(inputs)]),
        constants=", ".join(constants),
        dtype=dtype,
    )
    return Subject(f"corpus/{path.stem}", problem, text)
