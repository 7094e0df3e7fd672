"""compute-sanitizer: what its log says, and what is said where it cannot run."""

import pytest

from judge.profile import ncu
from judge.profile.sanitize import SanitizerError, find_sanitizer, read_log, sanitize_command

# The form of the tool's manual (Compute Sanitizer, "Memcheck Tool", "Understanding errors").
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"
FOUND = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at unaligned_kernel():0x160 in memcheck_demo.cu:6
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x400100001 is misaligned
=========     Saved host backtrace up to driver entry point at kernel launch time
=========     Host Frame: [0x2774ec]
=========
========= Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure"
=========     Saved host backtrace up to driver entry point at error
=========
========= ERROR SUMMARY: 2 errors
"""
RACES = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at sumKernel(int *):0x100 in r.cu:12
=========     and Read access at sumKernel(int *):0x160 in r.cu:15 [508 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""


def test_a_clean_run_has_no_errors():
    report = read_log("memcheck", CLEAN, "")
    assert (report.errors, report.findings, report.detail) == (0, (), "0 errors")


def test_each_error_is_one_line_with_its_place():
    report = read_log("memcheck", FOUND, "")
    assert report.errors == 2
    first, second = report.findings
    assert first.startswith("Invalid __global__ write of size 4 bytes at unaligned_kernel():0x160")
    assert "memcheck_demo.cu:6" in first
    assert second.startswith("Program hit cudaErrorLaunchFailure")


def test_errors_of_several_processes_are_added():
    assert read_log("memcheck", FOUND + CLEAN + FOUND, "").errors == 4


def test_races_are_hazards():
    report = read_log("racecheck", RACES, "")
    assert (report.errors, report.detail) == (1, "1 hazard")
    assert report.findings[0].startswith("Error: Race reported between Write access")


@pytest.mark.parametrize(
    ("log", "output", "said"),
    [
        ("", "========= Error: Device not supported.", "does not support this device"),
        ("", "Traceback ...\nValueError: no", "no summary: ValueError: no"),
        ("", "", "printed nothing"),
    ],
)
def test_what_could_not_be_checked_is_no_clean_bill(log, output, said):
    report = read_log("memcheck", log, output)
    assert report.errors is None
    assert said in report.detail


def test_a_run_that_was_ended_is_not_clean_even_if_it_printed_so():
    assert read_log("memcheck", CLEAN, "", timed_out=True).errors is None


def test_an_absent_sanitizer_is_said(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(ncu.os, "access", lambda *_: False)
    with pytest.raises(SanitizerError, match="compute-sanitizer was not found"):
        find_sanitizer()


def test_the_tool_and_the_program_are_on_the_command_line(tmp_path):
    command = sanitize_command(tmp_path / "cs", "racecheck", "log.txt", ["python", "x.py"])
    assert command[1:3] == ["--tool", "racecheck"]
    assert command[-2:] == ["python", "x.py"]
