"""The profiled program: calls a kernel file on its problem's inputs between profiler marks.

`python bootstrap.py judge.profile.target SPEC ANSWER`, run under Nsight Compute or
compute-sanitizer in the sandbox. What counts is called between cudaProfilerStart and -Stop.
"""

import sys
import tempfile
from pathlib import Path

import torch

from judge.profile.compiled import library_facts, triton_facts
from judge.profile.spec import Answer, Spec
from judge.profile.subject import load
from kb.nvcc import device_architecture
from kb.verify.compile_target import recorded


def main(spec_path: str, answer_path: str) -> None:
    """Run what the spec says and write the answer."""
    spec = Spec.model_validate_json(Path(spec_path).read_text(encoding="utf-8"))
    notes: list[str] = []
    index = torch.device(spec.device).index or 0
    torch.cuda.set_device(index)
    with tempfile.TemporaryDirectory(prefix="kb-profile-") as folder:
        call = load(spec, Path(folder))
        for _ in range(spec.warmup):
            call()
        torch.cuda.synchronize()
        with recorded() as launched:
            torch.cuda.profiler.start()
            for _ in range(spec.calls):
                call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
        architecture = device_architecture(index)
        static = triton_facts(launched, notes) + library_facts(architecture, notes)
    answer = Answer(
        gpu=torch.cuda.get_device_name(index),
        architecture=architecture,
        static=tuple(static),
        notes=tuple(notes[:50]),
    )
    Path(answer_path).write_text(answer.model_dump_json(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
