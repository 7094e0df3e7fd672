"""Evaluate one kernel on one problem: correctness, then times, then a verdict.

The parts: `session.Session` starts sandboxed workers and lends memory,
`stage.Stage` sets the problem worker to a shape and makes cases, `correctness.Contestant` runs
them, `power.Power` proves that wrong kernels would fail, `contest.Contest` hands fresh workers to
`timing.time_contenders`, and `verdict.decide` weighs what was found.
"""

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import torch

from judge.evaluate.contest import Entrant
from judge.evaluate.gpulock import locked
from judge.evaluate.host import describe_host, resolve_device
from judge.evaluate.options import BASELINES, DTYPES, EAGER, Options
from judge.evaluate.result import Ceilings, Evaluation, Fault, TimingReport, Verdict
from judge.evaluate.scan import scan
from judge.evaluate.session import Session
from judge.evaluate.trial import Trial
from judge.evaluate.verdict import CONVERTED_TO_BFLOAT16, INTERPRETED_BFLOAT16, decide
from judge.problem.forms import as_kernel
from judge.problem.kernel import Form, KernelFile
from judge.problem.source import ProblemFile
from judge.problem.syntax import read_text
from judge.progress import Say, silent
from judge.sandbox.launch import Zygote
from kb.errors import InvalidInputError, KbError

__all__ = ["BASELINES", "DTYPES", "Options", "evaluate"]


def evaluate(
    problem_path: Path,
    kernel_path: Path,
    options: Options | None = None,
    *,
    zygote: Zygote | None = None,
    ceilings: Ceilings | None = None,
    on_progress: Say = silent,
) -> Evaluation:
    """Judge a kernel file against a problem file.

    Parameters
    ----------
    problem_path
        KernelBench's format: `Model`, `get_inputs`, `get_init_inputs`.
    kernel_path
        `ModelNew`, `kernel_function`, or a `.cu` with a declared entry point.
    zygote
        Where workers fork from; None starts one, which takes some seconds.
    ceilings
        Of this card, measured before in this process; None measures them.

    Raises
    ------
    KbError
        The problem cannot be read or run, there is no GPU, the sandbox is incomplete, or the card
        is busy. A fault of the kernel is not an error; the verdict reports it.
    """
    options = options or Options()
    _validate(options)
    files = problem_path, kernel_path
    evaluation = _evaluate_once(files, options, zygote, ceilings, on_progress)
    if evaluation.verdict is Verdict.INCONCLUSIVE and INTERPRETED_BFLOAT16 in evaluation.reasons:
        # What is wrong in float32 too is the kernel's own fault, not the interpreter's.
        in_float32 = options.model_copy(update={"dtype": "float32"})
        single = _evaluate_once(files, in_float32, zygote, ceilings, on_progress)
        if single.verdict is Verdict.WRONG:
            reasons = tuple(f"in float32: {reason}" for reason in single.reasons)
            return single.model_copy(update={"reasons": reasons})
    return evaluation


def _evaluate_once(
    files: tuple[Path, Path],
    options: Options,
    zygote: Zygote | None,
    ceilings: Ceilings | None,
    on_progress: Say,
) -> Evaluation:
    problem_path, kernel_path = files
    start, date = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    problem = ProblemFile.read(problem_path)
    text = read_text(kernel_path)
    rivals = [
        # Numbered: files in two folders may have one name.
        Entrant(f"{number}:{path.name}", KernelFile.read(path))
        for number, path in enumerate(options.against, 1)
    ]
    device = resolve_device(options.device, interpret=options.interpret)
    host = describe_host(device)
    trial = Trial(problem, device, options, on_progress, rivals, ceilings)
    language = "unknown"
    try:
        kernel = KernelFile.parse(text.text, kernel_path.name)
        trial.evidence.is_own_model = text.text == as_kernel(problem.text, EAGER)
        trial.evidence.scan = scan(text.text, kernel_path.name)
        if options.interpret and "tl.bfloat16" in text.text:
            trial.evidence.value_caveat = CONVERTED_TO_BFLOAT16
    except KbError as error:
        trial.evidence.wrong.append(f"the kernel file cannot be used: {error}")
        trial.evidence.faults.append(Fault(compiling=True, error=type(error).__name__))
    else:
        if kernel.form is Form.CUDA and device == "cpu":
            raise InvalidInputError(
                f"{kernel_path.name} is CUDA and needs a GPU; without one only Triton kernels "
                "can be checked"
            )
        language = kernel.language.value
        trial.evidence.language = kernel.language
        threads = _one_thread() if options.interpret else contextlib.nullcontext()
        with (
            threads,
            # Evaluations never overlap on one card.
            locked(host.card, say=on_progress) if host.card else contextlib.nullcontext(),
            Session(device, interpret=device == "cpu", zygote=zygote) as session,
        ):
            trial.run(session, kernel)
    decision = decide(trial.evidence)
    report = trial.report or TimingReport(timings=())
    return Evaluation(
        problem=problem_path.name,
        problem_sha256=problem.sha256,
        kernel=kernel_path.name,
        kernel_sha256=text.sha256,
        language=language,
        dtype=options.dtype,
        precision=options.precision,
        device=device,
        interpreted=device == "cpu",
        gpu=host.gpu,
        versions=host.versions,
        date=date,
        verdict=decision.verdict,
        reasons=decision.reasons,
        fault=decision.fault,
        disclosures=(*decision.disclosures, *trial.notes, *report.notes),
        calibrated=report.calibrated,
        oracle=trial.oracle,
        cases=tuple(outcome.case for outcome in trial.evidence.outcomes),
        power=tuple(trial.evidence.power),
        timings=report.timings,
        ratios=report.ratios,
        walls=report.walls,
        floor=report.floor,
        ceilings=report.ceilings,
        clocks=report.clocks,
        sandbox=tuple(trial.layers),
        seconds=time.perf_counter() - start,
    )


def _validate(options: Options) -> None:
    if options.dtype is not None and options.dtype not in DTYPES:
        raise InvalidInputError(f"no dtype '{options.dtype}': choose from {', '.join(DTYPES)}")
    if unknown := set(options.baselines) - set(BASELINES):
        raise InvalidInputError(f"no baseline '{min(unknown)}': choose from {', '.join(BASELINES)}")


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Compare small tensors in one thread: more would spin while the workers need the cores."""
    previous = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(previous)
