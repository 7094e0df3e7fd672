"""The compiling program: static facts of a kernel file at its problem's shapes, without a GPU.

Runs in a fork of the zygote, in the sandbox. The problem and the kernel file run on tensors without
contents (torch's fake tensors) that claim to be on a GPU, so shapes of any size cost nothing; each
Triton launch is compiled and not made. What needs contents or a real GPU raises, and the facts
found until then are kept.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._subclasses import fake_tensor

from judge.profile.compiled import library_facts, triton_facts
from judge.profile.result import StaticFacts
from judge.profile.spec import Answer, Spec
from judge.profile.static import facts_of
from judge.profile.subject import load
from judge.worker.problem import apply_to_fakes
from kb import nvcc
from kb.architectures import parse_architecture
from kb.verify.compile_target import WARP_THREADS, CompileTarget, recorded

_DEVICE = "cuda:0"


def main(spec_path: str, answer_path: str) -> None:
    """Compile what the spec says and write the answer."""
    spec = Spec.model_validate_json(Path(spec_path).read_text(encoding="utf-8"))
    assert spec.architecture is not None
    notes: list[str] = []
    tempfile.tempdir = None  # what this was forked from had another one
    with tempfile.TemporaryDirectory(prefix="kb-compile-") as folder:
        if spec.form == "cuda":
            static = _cuda(spec, Path(folder))
        else:
            static = _python(spec, Path(folder), notes)
    answer = Answer(architecture=spec.architecture, static=tuple(static), notes=tuple(notes[:50]))
    Path(answer_path).write_text(answer.model_dump_json(), encoding="utf-8")


def _cuda(spec: Spec, folder: Path) -> list[StaticFacts]:
    assert spec.architecture is not None
    source = folder / "kernel.cu"
    source.write_text(spec.kernel_source, encoding="utf-8")
    cubin = nvcc.compile_cubin(source, spec.architecture)
    return list(facts_of(cubin, "nvcc", spec.architecture))


def _python(spec: Spec, folder: Path, notes: list[str]) -> list[StaticFacts]:
    assert spec.architecture is not None
    launched: list[Any] = []
    try:
        with (
            pretended_gpu(spec.architecture, spec.multiprocessors),
            recorded(compile_only=True, notes=notes) as launched,
        ):
            load(spec.model_copy(update={"device": _DEVICE}), folder)()
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        notes.append(f"without a GPU, the kernel file failed with: {type(error).__name__}: {text}")
    return triton_facts(launched, notes) + library_facts(spec.architecture, notes)


class _Driver(CompileTarget):
    """What Triton and its autotuner ask as well where the kernel file's own host code runs."""

    def get_active_torch_device(self) -> Any:
        return torch.device(_DEVICE)

    def get_device_interface(self) -> Any:
        return torch.cuda

    def get_benchmarker(self) -> Any:
        return lambda *_, **__: 0.0


def _item(tensor: Any, index: Any) -> Any:
    """What `tensor[index]` is, through operators."""
    items = list(index) if isinstance(index, tuple) else [index]
    named = sum(item is not None and item is not Ellipsis for item in items)
    place = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    items[place : place + 1] = [slice(None)] * (tensor.dim() - named)
    gathered: list[Any] = []
    for item in items:
        dim = len(gathered)
        if item is None:
            tensor = tensor.unsqueeze(dim)
        elif isinstance(item, slice):
            step = 1 if item.step is None else item.step
            tensor = torch.ops.aten.slice.Tensor(tensor, dim, item.start, item.stop, step)
        elif isinstance(item, int):
            tensor = tensor.select(dim, item)
            continue
        gathered.append(torch.as_tensor(item) if isinstance(item, torch.Tensor | list) else None)
    if all(item is None for item in gathered):
        return tensor
    return torch.ops.aten.index.Tensor(tensor, gathered)


# What reads or changes contents, which are not there. Pointers are aligned as an allocator's are;
# and what changes contents in place, indexes or copies a torch without CUDA cannot do on fake
# tensors.
_ON_FAKES: dict[str, Callable[..., Any]] = {
    "data_ptr": lambda _: 0,
    "copy_": lambda self, *_, **__: self,
    "uniform_": lambda self, *_, **__: self,
    "__setitem__": lambda *_: None,
    "__getitem__": _item,
    "contiguous": lambda self, **_: (
        self if self.is_contiguous() else self.clone(memory_format=torch.contiguous_format)
    ),
}


@contextlib.contextmanager
def pretended_gpu(architecture: str, multiprocessors: int) -> Iterator[None]:
    """Let code believe in a GPU of an architecture: tensors have shapes and no contents.

    Parameters
    ----------
    multiprocessors
        What kernels that launch one block for each get told.
    """
    capability = parse_architecture(architecture).capability
    major, minor = divmod(capability, 10)
    properties = SimpleNamespace(
        name=f"a GPU of {architecture}",
        major=major,
        minor=minor,
        multi_processor_count=multiprocessors,
        warp_size=WARP_THREADS,
        max_threads_per_multi_processor=2048,
        total_memory=80 << 30,
    )
    answers = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda *_: None,
        "synchronize": lambda *_: None,
        "get_device_name": lambda *_: properties.name,
        "get_device_properties": lambda *_: properties,
        "get_device_capability": lambda *_: (major, minor),
        "current_stream": lambda *_: SimpleNamespace(cuda_stream=0, synchronize=lambda: None),
    }
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError):
            from triton.runtime.driver import driver  # noqa: PLC0415 (triton may be missing)

            driver.set_active(_Driver(capability))
        for name, answer in answers.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        # It would touch the GPU that `is_available` speaks of.
        stack.enter_context(
            mock.patch.object(fake_tensor, "init_gpu_context", lambda *_: None, create=True)
        )
        for name, method in _ON_FAKES.items():
            fake = fake_tensor.FakeTensor
            stack.enter_context(mock.patch.object(fake, name, method, create=True))
        stack.enter_context(mock.patch.object(torch.nn.Module, "_apply", apply_to_fakes))
        stack.enter_context(fake_tensor.FakeTensorMode(allow_non_fake_inputs=True))
        yield
