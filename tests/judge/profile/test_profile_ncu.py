"""Running Nsight Compute: through the sandbox, with every way in which it may fail."""

import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from profile_files import MATMUL, PROBLEM

from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.profile import ncu, profiler
from judge.profile.profiler import Request, profile
from judge.profile.result import StaticFacts
from judge.profile.spec import Answer
from judge.sandbox.launch import Zygote
from judge.sandbox.layers import LayerName

HERE = Path(__file__).parent
DURATION = "gpu__time_duration.sum"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
REGISTERS = "launch__registers_per_thread"
FACTS = StaticFacts(
    function="matmul", name="matmul", origin="triton", architecture="sm_90a", registers=106,
    spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, shared_bytes=98304, instructions=356,
)  # fmt: skip
LAUNCHES = [
    {"kernel": "matmul", "metrics": {DURATION: 9000, SM: 80.5, REGISTERS: 106}},
    {"kernel": "void at::relu<float>(float *)", "metrics": {DURATION: 1000, SM: 5.0}},
]


@pytest.fixture(scope="module")
def zygote():
    with Zygote(torch=False) as bare:
        yield bare


@pytest.fixture
def run(tmp_path, monkeypatch, zygote):
    """Profile with a stand-in for ncu, and one for the program that needs a GPU."""
    tools = tmp_path / "tools"
    tools.mkdir()
    tmp_path.chmod(0o755)
    for name in ("raw_page.py", "fake_ncu.py"):
        shutil.copy(HERE / name, tools)
    program = tools / "program.py"
    answer = Answer(gpu="NVIDIA H200", architecture="sm_90a", static=(FACTS,))
    (tools / "answer.json").write_text(answer.model_dump_json())
    program.write_text(
        f"import shutil, sys\nshutil.copyfile({str(tools / 'answer.json')!r}, sys.argv[2])\n"
    )
    starter = tools / "ncu"
    starter.write_text(f'#!/bin/sh\nexec {sys.executable} {tools}/fake_ncu.py "$@"\n')
    starter.chmod(0o755)
    monkeypatch.setattr(profiler, "has_gpu", lambda: True)
    monkeypatch.setattr(profiler, "_own_architecture", lambda: None)
    monkeypatch.setattr(
        profiler, "python_module", lambda _, *rest: [sys.executable, str(program), *rest]
    )

    def with_script(*, program_text=None, **options):
        script = {"launches": LAUNCHES, "known": ["sm__cycles_active"]}
        names = ("unknown", "print", "code", "sleep", "deaf", "known", "launches")
        script |= {name: options.pop(name) for name in names if name in options}
        (tools / "script.json").write_text(json.dumps(script))
        if program_text is not None:
            program.write_text(program_text)
        ncu.known_metrics.cache_clear()
        request = Request(
            problem=ProblemFile.parse(PROBLEM),
            kernel=KernelFile.parse(MATMUL),
            ncu=starter,
            **options,
        )
        return profile(request, zygote)

    return with_script


def test_kernels_come_with_their_metrics_and_their_machine_code(run):
    found = run()
    assert (found.gpu, found.ncu_version, found.calls) == ("NVIDIA H200", "2025.3.1.0", 1)
    matmul, relu = found.kernels
    assert (matmul.name, matmul.share) == ("matmul", 0.9)
    assert matmul.metrics == {DURATION: 9000.0, SM: 80.5, REGISTERS: 106.0}
    assert matmul.static == FACTS
    assert relu.static is None
    assert found.metrics == matmul.metrics
    assert found.notes == ()
    assert all(layer.active for layer in found.layers if layer.name is LayerName.SECCOMP)


def test_metrics_that_this_ncu_refuses_are_missing_and_the_others_are_there(run):
    found = run(unknown=["dram__bytes_read.sum", "lts__t_bytes.sum"])
    [matmul, _] = found.kernels
    assert {"dram__bytes_read.sum", "lts__t_bytes.sum"} <= set(matmul.missing)
    assert matmul.metrics[SM] == 80.5


def test_what_varies_by_card_is_asked_only_where_ncu_lists_it(run):
    hopper = "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_elapsed"
    launches = [{"kernel": "matmul", "metrics": {DURATION: 1, hopper: 60.0}}]
    assert hopper in run(launches=launches).kernels[0].missing
    listed = run(
        launches=launches, known=["sm__cycles_active", "sm__pipe_tensor_op_hmma_cycles_active"]
    )
    assert listed.kernels[0].metrics[hopper] == 60.0


def test_where_ncu_lists_nothing_what_varies_is_dropped_after_two_refusals(run):
    names = [metric.name for metric in ncu.select_metrics(()) if metric.varies]
    found = run(known=[], unknown=names)
    assert found.notes == ()
    assert set(names) <= set(found.kernels[0].missing)
    assert found.kernels[0].metrics[SM] == 80.5


def test_without_permission_it_says_what_to_do_and_the_rest_goes_on(run):
    found = run(print="==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access")
    assert found.kernels == ()
    assert any("NVreg_RestrictProfilingToAdminUsers=0" in note for note in found.notes)
    retried = [note for note in found.notes if note.startswith("profiled without")]
    # Only root has rights that the sandbox could have taken away.
    assert len(retried) == (1 if os.geteuid() == 0 else 0)


def test_where_the_profiler_cannot_start_layers_are_left_out_one_step_at_a_time(run):
    found = run(print="==ERROR== Failed to initialize the profiler: LibraryNotLoaded")
    retried = [note for note in found.notes if note.startswith("profiled without")]
    assert len(retried) == 3
    assert "seccomp" in retried[0]
    assert "landlock" not in retried[0]
    assert "landlock" in retried[1]
    assert any("gVisor" in note for note in found.notes)


def test_a_program_that_fails_is_not_tried_again(run):
    found = run(program_text="raise ValueError('no such shape')\n")
    [note, _] = found.notes
    assert note == "the kernel file failed under the profiler: ValueError: no such shape"


def test_a_profiler_that_hangs_is_ended(run):
    found = run(sleep=60, timeout=1.0)
    assert any("did not finish within 1 s" in note for note in found.notes)


def test_a_profiler_that_does_not_connect_is_tried_with_fewer_layers(run):
    found = run(deaf=60, timeout=0.5)
    retried = [note for note in found.notes if note.startswith("profiled without")]
    assert len(retried) == 3
    assert "did not connect" in retried[0]


def test_no_kernel_in_the_range_is_said_so(run):
    found = run(print="==WARNING== No kernels were profiled.", code=0)
    assert any("launched no GPU kernel" in note for note in found.notes)


def test_an_answer_that_is_no_answer_is_refused(run):
    found = run(program_text="import sys\nopen(sys.argv[2], 'w').write('{\"gpu\": 7}')\n")
    assert found.kernels == ()
    assert any("returned no result" in note for note in found.notes)


def test_a_link_in_place_of_the_answer_is_not_followed(run, tmp_path):
    secret = tmp_path / "secret.json"
    secret.write_text(Answer(gpu="secret").model_dump_json())
    text = f"import os, sys\nos.symlink({str(secret)!r}, sys.argv[2])\n"
    assert run(program_text=text).gpu is None


def test_an_absent_ncu_is_a_note_and_a_wrong_path_as_well(run, monkeypatch, tmp_path):
    found = run()
    assert found.kernels
    with pytest.raises(ncu.NcuError, match="not an executable file"):
        ncu.find_ncu(tmp_path / "nothing")
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(ncu.os, "access", lambda *_: False)
    with pytest.raises(ncu.NcuError, match="install it with the CUDA toolkit"):
        ncu.find_ncu()


def test_ncu_is_told_to_leave_clocks_and_to_count_only_the_marked_range():
    command = ncu.collect_command(
        Path("/opt/ncu"), Path("r.ncu-rep"), ncu.select_metrics(()), ["python", "x.py"]
    )
    pairs = dict(pairwise(command))
    assert pairs["--clock-control"] == "none"
    assert pairs["--profile-from-start"] == "off"
    assert pairs["--target-processes"] == "all"
    assert command[-2:] == ["python", "x.py"]
    assert DURATION in pairs["--metrics"].split(",")
    read = ncu.import_command(Path("/opt/ncu"), Path("r.ncu-rep"), Path("raw.csv"))
    assert dict(pairwise(read))["--print-units"] == "base"
