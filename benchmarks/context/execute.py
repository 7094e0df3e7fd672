"""Run the code that a context shows, in the interpreter, against the reference of its entry.

`python -m benchmarks.context.execute` reads jobs as JSON on standard input, one a line, and answers
each with one line: `{"slug", "problem"}`, where `problem` is null if the outputs agree. It runs
code of the corpus in this process: it is no sandbox.
"""

import importlib.util
import inspect
import json
import os
import subprocess
import sys
import tempfile
import types
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

# The largest check of the corpus takes some 20 s under the interpreter on two busy cores.
_TIMEOUT_S = 1200


@dataclass(frozen=True, slots=True)
class Job:
    """One example: the code as shown, and the entry that it is from."""

    slug: str
    code: str
    path: str
    """The entry's file, whose `make_inputs` and `reference` are the measure."""
    sizes: tuple[tuple[int, ...], ...]
    """Check sizes: the first that the fixed arguments allow is taken."""
    dtype: str = "float32"
    params: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str | int | None] = field(default_factory=dict)
    """Arguments that the code as shown fixes."""
    transposed: tuple[bool, ...] = ()
    """Layouts of the first operands that the code assumes, in rows of whole 16 bytes."""
    present: tuple[str, ...] = ()
    """Optional arguments that it needs: vectors as long as the result's rows."""
    last: bool | None = None
    """Whether it assumes work along the last dimension, or along one before it."""


def run(jobs: Iterable[Job]) -> dict[str, str | None]:
    """Return, for each slug, what is wrong with its code; None where it agrees."""
    lines = "".join(json.dumps(asdict(job)) + "\n" for job in jobs)
    if not lines:
        return {}
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.context.execute"],
        input=lines, text=True, capture_output=True, env=environment, check=False,
        timeout=_TIMEOUT_S,
    )  # fmt: skip
    answers = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    if process.returncode:
        raise RuntimeError(f"the checking process failed: {process.stderr[-2000:]}")
    return {answer["slug"]: answer["problem"] for answer in answers}


def _module(path: Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(f"shown_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check(job: dict[str, Any], folder: Path) -> str | None:
    import torch

    from kb.verify.compare import compare

    file = folder / f"{job['slug'].replace('-', '_')}.py"
    file.write_text(job["code"], encoding="utf-8")
    example, entry = _module(file), _module(Path(job["path"]))
    seed = zlib.crc32(job["slug"].encode())
    dtype = getattr(torch, job["dtype"])
    sizes = [_whole_rows(size) for size in job["sizes"]] if job["transposed"] else job["sizes"]
    if job["last"] is not None:
        sizes = [size for size in sizes if _along_last(entry, size, dtype) in {None, job["last"]}]
    for position, size in enumerate(sizes):
        inputs = _with_layouts(entry.make_inputs(list(size), dtype, "cpu", seed), job["transposed"])
        # An optional argument that the reference does not take is zeros, which change nothing.
        names = inspect.signature(entry.reference).parameters
        extra = {
            name: (torch.randn if name in names else torch.zeros)(inputs[1].shape[-1], dtype=dtype)
            for name in job["present"]
        }
        try:
            values, expected = _expected(entry, inputs, job["options"] | extra)
            break
        except RuntimeError:  # such as an output padding that needs a stride
            if position == len(sizes) - 1:
                raise
    parameters = inspect.signature(example.kernel_function).parameters
    arguments = {k: _copy(v) for k, v in values.items() if k in parameters}
    params = {name: value for name, value in job["params"].items() if name in parameters}
    comparison = compare(example.kernel_function(**arguments, **params), expected,
                    agrees=getattr(entry, "agrees", None))  # fmt: skip
    return comparison.problem


def _along_last(entry: types.ModuleType, size: Sequence[int], dtype: Any) -> bool | None:
    """Whether an entry works along the last dimension at a size; None if it takes no `dim`."""
    inputs = entry.make_inputs(list(size), dtype, "cpu", 0)
    parameters = inspect.signature(entry.kernel_function).parameters
    if "dim" not in parameters:
        return None
    arguments = dict(zip(parameters, inputs, strict=False))
    dim, rank = arguments.get("dim", parameters["dim"].default), inputs[0].dim()
    return bool(dim % rank == rank - 1)


def _whole_rows(size: Sequence[int]) -> list[int]:
    """A product's size with M, N and K multiples of 16."""
    return [*(-(-length // 16) * 16 for length in size[:3]), *size[3:]]


def _with_layouts(inputs: list[Any], transposed: Sequence[bool]) -> list[Any]:
    """The inputs, the first ones in the layouts that the code assumes."""
    pairs = zip(inputs, transposed, strict=False)
    arranged = [x.T.contiguous().T if swap else x.contiguous() for x, swap in pairs]
    return [*arranged, *inputs[len(arranged) :]]


def _expected(
    entry: types.ModuleType, inputs: list[Any], options: dict[str, Any]
) -> tuple[dict[str, Any], Any]:
    """Inputs by name with the fixed arguments in place, and the reference's result for them."""
    names = list(inspect.signature(entry.kernel_function).parameters)
    values = dict(zip(names, inputs, strict=False))
    fixed = {name: value for name, value in options.items() if name in names}
    fixed |= {k: bool(v) for k, v in fixed.items() if isinstance(values.get(k), bool)}
    values |= fixed
    known = inspect.signature(entry.reference).parameters
    expected = entry.reference(
        *(_copy(_widen(values[name])) for name in names[: len(inputs)]),
        **{k: _widen(v) for k, v in fixed.items() if k in known and k not in names[: len(inputs)]},
    )
    narrow = inputs[0].dtype != getattr(_widen(inputs[0]), "dtype", None)
    if not narrow:
        return values, expected
    dtype = inputs[0].dtype
    several = expected if isinstance(expected, tuple) else (expected,)
    parts = tuple(each.to(dtype) if each.is_floating_point() else each for each in several)
    return values, parts if isinstance(expected, tuple) else parts[0]


def _widen(value: Any) -> Any:
    """A float16 tensor in float32, so that the reference does not round on the way."""
    return value.float() if str(getattr(value, "dtype", "")) == "torch.float16" else value


def _copy(value: Any) -> Any:
    return value.clone() if hasattr(value, "clone") else value


def main() -> None:
    """Check the jobs on standard input."""
    import torch

    # Shown code runs on a card alone; there it asks how many programs to start.
    torch.cuda.get_device_properties = lambda _: types.SimpleNamespace(multi_processor_count=2)
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            job = json.loads(line)
            try:
                problem = _check(job, Path(folder))
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"[:300]
            print(json.dumps({"slug": job["slug"], "problem": problem}), flush=True)


if __name__ == "__main__":
    main()
