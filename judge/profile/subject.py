"""The kernel file as a callable on its problem's inputs, in one process.

For judging, problem and candidate are kept in separate processes. Here they share one, since
nothing is decided by what it says: a profile describes a kernel that was verified before.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from judge.profile.spec import Spec
from judge.worker.contender import load_kernel
from judge.worker.messages import LoadProblem
from judge.worker.problem import LoadedProblem


def load(spec: Spec, folder: Path) -> Callable[[], Any]:
    """Execute both files and make the inputs; the result calls the kernel on them.

    The files are written to `folder`.
    """
    problem = LoadedProblem(
        LoadProblem(
            source=spec.problem_source,
            device=spec.device,
            dtype=spec.dtype,
            precision=spec.precision,
            seed=spec.seed,
        ),
        folder,
    )
    inputs = problem.inputs(spec.seed)
    tensors = {parameter.name: tensor for parameter, tensor in problem.tensors()}
    description = problem.describe()
    command = description.kernel(
        [problem.input_spec(value, i).name for i, value in enumerate(inputs)],
        source=spec.kernel_source,
        form=spec.form,
        device=spec.device,
        dtype=spec.dtype,
        precision=spec.precision,
        seed=spec.seed,
    )
    run = load_kernel(command, tensors, folder)
    return lambda: run(*inputs)
