"""Whether a mutant's results differ from the reference's anywhere, found without the judge.

The judge tries a few shapes; this tries many, larger ones too, with three kinds of values each.
"""

import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import torch

from judge.problem.kernel import Form, KernelFile
from judge.problem.source import ProblemFile
from judge.problem.variants import Sizes, Variant, propose
from judge.worker.contender import load_kernel
from judge.worker.inputs import fill
from judge.worker.messages import LoadProblem, ValueKind
from judge.worker.outputs import flatten
from judge.worker.problem import LoadedProblem
from kb.verify.compare import compare

_BLOCKS = (16, 32, 64, 128, 256, 1024, 2048)
_ELEMENTS = 1 << 16
_SHAPES = 24
_KINDS = (ValueKind.NORMAL, ValueKind.GIVEN, ValueKind.LARGE)

# How long beyond its time a comparison may go on: one call is never interrupted.
_GRACE_SECONDS = 20.0

Outcome = Literal["escaped", "equal", "raises", "untold"]


def differs(problem: str, kernel: str, original: str, seconds: float) -> tuple[Outcome, str]:
    """Compare a kernel with its original where that is right, in a process of its own.

    Returns
    -------
    `escaped` and the first shape at which its results are beyond tolerance, with what is wrong
    there; `equal` where they never are; `raises` where only the original answers; `untold` where
    nothing was compared: the process ended, or the time was over.
    """
    # A fork of this process would hold locks of threads that it does not have.
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(
        target=_send, args=(sender, problem, kernel, original, seconds), daemon=True
    )
    process.start()
    sender.close()
    try:
        if receiver.poll(seconds + _GRACE_SECONDS):
            reply: tuple[Outcome, str] = receiver.recv()
            return reply
    except EOFError:
        pass
    finally:
        process.kill()
        process.join()
        receiver.close()
    return "untold", ""


def _send(sender: Connection, problem: str, kernel: str, original: str, seconds: float) -> None:
    warnings.simplefilter("ignore")  # overflows of NumPy's, which a result shows
    torch.set_num_threads(1)
    sender.send(_search(problem, kernel, original, time.monotonic() + seconds))


def _search(problem: str, kernel: str, original: str, deadline: float) -> tuple[Outcome, str]:
    compared = raised = False
    for variant in _variants(ProblemFile.parse(problem)):
        if time.monotonic() > deadline:
            break
        with tempfile.TemporaryDirectory() as folder:
            try:
                for difference in _differences(variant, kernel, original, Path(folder)):
                    compared = True
                    if difference:
                        return "escaped", difference
            except _RaisedError:
                raised = True
            except Exception:  # no shape of the problem, or of the original
                continue
    return "equal" if compared else "raises" if raised else "untold", ""


class _RaisedError(Exception):
    """The kernel raises where its original answers."""


def _variants(problem: ProblemFile) -> Iterator[str]:
    sizes = Sizes(problem, _ELEMENTS)
    variants: list[Variant] = []
    for block in _BLOCKS:
        variants += sizes.enlarge(block)[0].values()
        aligned = sizes.whole_blocks(block)
        variants += [aligned] if aligned is not None else []
    for seed in range(_SHAPES // 4):
        variants += propose(problem, seed, variants=4, limit_elements=_ELEMENTS // 4)
    yield problem.text
    for variant in sorted(variants, key=lambda variant: sum(variant.constants.values())):
        yield problem.with_constants(variant.constants)


def _differences(source: str, kernel: str, original: str, folder: Path) -> Iterator[str]:
    """Differences of the kernel's outputs, by kind of values; none where the original is wrong."""
    command = LoadProblem(source=source, device="cpu", seed=1)
    loaded = LoadedProblem(command, folder)
    for number, kind in enumerate(_KINDS):
        inputs = loaded.inputs(number)
        for index, value in enumerate(inputs):
            if isinstance(value, torch.Tensor):
                fill(value, kind, number, index)
        with torch.no_grad():
            expected = tuple(flatten(loaded.model(*_copies(inputs))))
        if compare(_outputs(original, loaded, inputs, folder), expected).problem:
            continue
        try:
            actual = _outputs(kernel, loaded, inputs, folder)
        except Exception as error:
            raise _RaisedError from error
        problem = compare(actual, expected).problem
        shapes = [list(v.shape) if isinstance(v, torch.Tensor) else v for v in inputs]
        yield f"{kind.value} values, inputs {shapes}: {problem}"[:300] if problem else ""


def _outputs(kernel: str, loaded: LoadedProblem, inputs: list[Any], folder: Path) -> Any:
    description = loaded.describe()
    command = description.kernel(
        [loaded.input_spec(value, i).name for i, value in enumerate(inputs)],
        source=kernel,
        form="ModelNew" if KernelFile.parse(kernel).form is Form.MODEL_NEW else "kernel_function",
        device="cpu",
        seed=1,
    )
    run = load_kernel(
        command, {parameter.name: tensor for parameter, tensor in loaded.tensors()}, folder
    )
    return tuple(flatten(run(*_copies(inputs))))


def _copies(inputs: list[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
