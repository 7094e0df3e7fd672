"""Profiles a verified kernel file: ncu's counters where they can be had, static facts always."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, ValidationError

from judge.evaluate.clocks import card_id
from judge.evaluate.gpulock import locked
from judge.evaluate.host import NoGpuError, resolve_device
from judge.options import RunOptions
from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.profile import ncu as nsight
from judge.profile.launching import ProgramRun, Programs, python_module, read_output
from judge.profile.report import profile_kernels
from judge.profile.result import KernelProfile, Profile, SanitizerReport
from judge.profile.sanitize import Tool, find_sanitizer, read_log, sanitize_command
from judge.profile.spec import MAX_ANSWER_BYTES, Answer, Spec
from judge.profile.static import facts_for
from judge.progress import Progress, Say, silent
from judge.sandbox.launch import Zygote
from judge.sandbox.layers import Layer, LayerName
from kb.architectures import parse_architecture
from kb.errors import InvalidInputError, KbError
from kb.gpus import all_specs
from kb.profiles.ncu_tables import parse_csv

_MAX_REPORT_BYTES = 1 << 30
_MAX_TABLE_BYTES = 64 << 20
_IMPORT_TIMEOUT_S = 180.0
_COMPILE_TIMEOUT_S = 300.0
_REGISTERS = "launch__registers_per_thread"
# What is left out of the sandbox, step by step, where the profiler does not work under it: sockets
# and ptrace first, then its view of files and processes, then its user.
_STEPS = (
    frozenset({LayerName.SECCOMP, LayerName.NETWORK}),
    frozenset({LayerName.PROCESSES, LayerName.MOUNTS, LayerName.LANDLOCK}),
    frozenset({LayerName.USER, LayerName.PRIVILEGES}),
)
_AS_ROOT = _STEPS[-1]
_MOST_RETRIES = 10


class Request(RunOptions):
    """What to profile, and how."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    problem: ProblemFile
    kernel: KernelFile
    device: str = "cuda:0"
    trust: bool = True
    """False refuses to run the files where the sandbox is not enough for code from strangers."""
    architecture: str | None = None
    """For the static facts where nothing runs on a GPU."""
    ncu: Path | None = None
    """A particular ncu."""
    static_only: bool = False
    sanitize: Sequence[Tool] = ()
    calls: int = 1
    """Calls of the kernel file inside the profiled range."""
    timeout: float = 600.0
    """Seconds for ncu, and for each run of the sanitizer."""
    report: Path | None = None
    """Where ncu's report is kept, for its own user interface."""
    locked: bool = False
    """The caller already holds the GPU's lock."""
    say: Say = silent
    """Takes progress."""

    def spec(self, **changes: object) -> str:
        """The JSON that a program reads as its input."""
        return Spec.model_validate(
            {
                "problem_source": self.problem.text,
                "kernel_source": self.kernel.text,
                "form": str(self.kernel.form),
                "device": self.device,
                "dtype": self.dtype,
                "precision": self.precision,
                "calls": self.calls,
                **changes,
            }
        ).model_dump_json()


@dataclass
class _Counters:
    """What ncu gave."""

    kernels: tuple[KernelProfile, ...]
    answer: Answer
    version: str
    layers: tuple[Layer, ...]


def has_gpu() -> bool:
    """Whether this machine has a device file of an NVIDIA GPU."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def profile(request: Request, zygote: Zygote | None = None) -> Profile:
    """Profile a kernel file on its problem's inputs, in the sandbox.

    The problem and the kernel file run in one process there, since nothing is judged by what it
    says: profile kernels that were evaluated before. What cannot be had becomes a note.

    Parameters
    ----------
    zygote
        What processes fork from (with torch loaded, not for the interpreter); by default one is
        started, which takes seconds.

    Raises
    ------
    InvalidInputError
        If there is no GPU and no architecture is given, what is given is none, or there is no such
        device.
    KbError
        If the sandbox cannot be set up.
    """
    notes: list[str] = []
    counters: _Counters | None = None
    reports: list[SanitizerReport] = []
    gpu = has_gpu()
    if request.architecture is not None:
        parse_architecture(request.architecture)
    if not gpu and request.architecture is None:
        raise InvalidInputError("this machine has no GPU: name a target, such as --arch sm_90a")
    lock_gpu = gpu and not request.locked and (request.sanitize or not request.static_only)
    card = _card(request.device) if lock_gpu else None
    with Programs(zygote, trust=request.trust) as programs, ExitStack() as locks:
        if card is not None:  # nothing else of ours shall run on the card that is counted
            locks.enter_context(locked(card, say=request.say))
        if request.static_only:
            notes.append("static facts only: nothing was run on a GPU")
        elif not gpu:
            notes.append("no GPU on this machine: static facts only")
        else:
            try:
                counters = _run_ncu(request, programs, notes)
            except KbError as error:
                notes.append(str(error))
        for tool in request.sanitize:
            request.say(Progress(f"compute-sanitizer: {tool}"))
            reports.append(_sanitize(request, programs, tool, gpu=gpu))
        if counters is None:
            answer, layers = _compile(request, programs)
        else:
            answer, layers = counters.answer, counters.layers
    notes += answer.notes
    kernels = []
    for kernel in counters.kernels if counters else ():
        facts = facts_for(kernel.name, kernel.metrics.get(_REGISTERS), answer.static)
        kernels.append(kernel.model_copy(update={"static": facts}))
    return Profile(
        problem=request.problem.name,
        kernel=request.kernel.name,
        gpu=answer.gpu,
        architecture=answer.architecture,
        ncu_version=counters.version if counters else None,
        calls=request.calls if counters else 0,
        kernels=tuple(kernels),
        static=answer.static,
        sanitizer=tuple(reports),
        notes=tuple(notes),
        layers=layers,
    )


def _card(device: str) -> str:
    """What the lock of a card is named by: its UUID, or its place where torch sees no card.

    Raises
    ------
    InvalidInputError
        `device` names no card, or none that torch sees.
    """
    if device == "cpu":
        raise InvalidInputError("nothing is profiled on a CPU; --static-only needs no GPU")
    try:
        return card_id(resolve_device(device, interpret=False))
    except (NoGpuError, ImportError, AssertionError, RuntimeError):
        return device


def _run_ncu(request: Request, programs: Programs, notes: list[str]) -> _Counters:
    """Run ncu, leaving out layers that it cannot work under, and read its report."""
    tool = nsight.find_ncu(request.ncu)
    version = nsight.version(tool)
    known_names = nsight.known_metrics(tool)
    spec = programs.write_file("spec.json", request.spec())
    program = python_module("judge.profile.target", str(spec), "{scratch}/answer.json")
    read_paths = [spec, *nsight.install_folders(tool)]
    rejected: set[str] = set()
    without: frozenset[LayerName] = frozenset()
    for _ in range(_MOST_RETRIES):
        request.say(Progress(f"Nsight Compute {version}"))
        metrics = nsight.select_metrics(known_names, rejected)
        report = Path("{scratch}/report.ncu-rep")
        run = programs.run(
            nsight.collect_command(tool, report, metrics, program),
            timeout=request.timeout,
            read=read_paths,
            gpu=True,
            without=without,
            alive=nsight.CONNECTED,
        )
        try:
            return _read_counters(request, programs, tool, run, version)
        except nsight.UnknownMetricsError as error:
            if error.names <= rejected:
                raise
            if rejected and not known_names:  # it names one at a time; do not start for each
                rejected |= {m.name.partition(".")[0] for m in metrics if m.varies}
            rejected |= error.names
        except nsight.NcuError as error:
            # As root a process without rights may still be refused what root may read.
            step = _next_step(error, without)
            if step is None:
                raise
            without |= step
            layers = ", ".join(sorted(without))
            notes.append(f"profiled without {layers}, because the profiler failed with it: {error}")
    raise nsight.NcuError("ncu rejected too many metrics: is this ncu recent enough for the GPU?")


def _next_step(
    error: nsight.NcuError, without: frozenset[LayerName]
) -> frozenset[LayerName] | None:
    if isinstance(error, nsight.FinalError):
        return None
    if isinstance(error, nsight.PermissionDeniedError):
        return None if os.geteuid() != 0 or without >= _AS_ROOT else _AS_ROOT
    return next((step for step in _STEPS if not step <= without), None)


def _read_counters(
    request: Request, programs: Programs, tool: Path, run: ProgramRun, version: str
) -> _Counters:
    if run.timed_out and nsight.CONNECTED not in run.output:
        raise nsight.NcuError("ncu did not connect to the program that it started")
    if run.timed_out:
        raise nsight.FinalError(
            f"ncu did not finish within {request.timeout:.0f} s: raise the limit with --timeout"
        )
    report = read_output(run.scratch / "report.ncu-rep", _MAX_REPORT_BYTES)
    answer = _answer(run)
    error = nsight.failure(run.output, run.exit.code, report_exists=report is not None)
    if error is not None:
        if answer is None and "Traceback (most recent call last)" in run.output:
            message = _exception_in(run.output)
            raise nsight.FinalError(f"the kernel file failed under the profiler: {message}")
        raise error
    assert report is not None
    if answer is None:
        raise nsight.FinalError(f"the profiled program returned no result: {run.last_line()}")
    report_path = programs.write_file("report.ncu-rep", report)
    if request.report is not None:
        try:
            request.report.write_bytes(report)
        except OSError as cause:
            raise InvalidInputError(f"cannot write {request.report}: {cause.strerror}") from cause
    imported = programs.run(
        nsight.import_command(tool, report_path, Path("{scratch}/raw.csv")),
        timeout=_IMPORT_TIMEOUT_S,
        read=[report_path, *nsight.install_folders(tool)],
    )
    table = read_output(imported.scratch / "raw.csv", _MAX_TABLE_BYTES)
    if imported.exit.code != 0:
        raise nsight.FinalError(f"ncu could not read its own report: {imported.last_line()}")
    launches = parse_csv(table.decode(errors="replace") if table else imported.output)
    return _Counters(profile_kernels(launches), answer, version, run.layers)


def _exception_in(output: str) -> str:
    """The last line of a traceback, which names the exception; ncu's own lines follow it."""
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("==")]
    return lines[-1].strip()[:300] if lines else "an exception"


def _answer(run: ProgramRun) -> Answer | None:
    data = read_output(run.scratch / "answer.json", MAX_ANSWER_BYTES)
    try:
        return None if data is None else Answer.model_validate_json(data)
    except ValidationError:
        return None


def _compile(request: Request, programs: Programs) -> tuple[Answer, tuple[Layer, ...]]:
    """Static facts without running anything on a GPU; what fails becomes a note."""
    architecture = request.architecture or _own_architecture()
    if architecture is None:
        return Answer(notes=("no static facts: name a target with --arch",)), ()
    request.say(Progress(f"compiling for {architecture}"))
    spec = programs.write_file(
        "compile.json",
        request.spec(architecture=architecture, multiprocessors=_multiprocessors(architecture)),
    )
    run = programs.call(
        "judge.profile.compiling",
        str(spec),
        "{scratch}/answer.json",
        timeout=_COMPILE_TIMEOUT_S,
        read=[spec],
        environment={"TORCH_CUDA_ARCH_LIST": _arch_list(architecture)},
    )
    answer = _answer(run)
    if answer is None:
        why = "it took too long" if run.timed_out else run.last_line()[:300]
        answer = Answer(architecture=architecture, notes=(f"no static facts: {why}",))
    return answer, run.layers


def _own_architecture() -> str | None:
    from kb.nvcc import device_architecture  # noqa: PLC0415 (imports torch)

    try:
        return device_architecture()
    except KbError:
        return None


def _multiprocessors(architecture: str) -> int:
    """Those of the first known card of the architecture; 1 where none is known."""
    capability = parse_architecture(architecture).capability
    specs = all_specs().values()
    same = [s for s in specs if parse_architecture(s.architecture).capability == capability]
    return same[0].sms if same else 1


def _arch_list(architecture: str) -> str:
    """`sm_90a` → `9.0a`, as torch's extension builder takes it."""
    parsed = parse_architecture(architecture)
    major, minor = divmod(parsed.capability, 10)
    return f"{major}.{minor}{parsed.suffix}"


def _sanitize(request: Request, programs: Programs, tool: Tool, *, gpu: bool) -> SanitizerReport:
    try:
        sanitizer = find_sanitizer()
    except KbError as error:
        return SanitizerReport(tool=tool, errors=None, detail=str(error))
    if not gpu:
        return SanitizerReport(tool=tool, errors=None, detail="there is no GPU on this machine")
    spec = programs.write_file("sanitize.json", request.spec(warmup=0, calls=1))
    program = python_module("judge.profile.target", str(spec), "{scratch}/answer.json")
    run = programs.run(
        sanitize_command(sanitizer, tool, "{scratch}/sanitizer.log", program),
        timeout=request.timeout,
        read=[spec, *nsight.install_folders(sanitizer)],
        gpu=True,
        # torch's allocator keeps large blocks, within which accesses out of bounds are not seen.
        environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    )
    log = read_output(run.scratch / "sanitizer.log", _MAX_TABLE_BYTES) or b""
    return read_log(tool, log.decode(errors="replace"), run.output, timed_out=run.timed_out)
