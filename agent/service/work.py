"""The steps of one evaluation: judge, profile, diagnose, retrieve.

The code that was sent runs in the sandbox of a judging process alone, and never with `--trust`.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, Protocol

from agent.diagnose.diagnose import diagnose, gather_facts
from agent.diagnose.inputs import ProfileData, from_profile
from agent.diagnose.result import Diagnosis
from agent.diagnose.techniques import Catalog
from agent.optimize.advice import build_query, chunks_of, finite_metrics
from agent.optimize.judge_process import JudgeError, JudgeLostError, JudgeProcess
from agent.optimize.judge_requests import Describe, Evaluate, TakeProfile
from agent.service.models import (
    MAX_EXCLUDED,
    ContextWanted,
    EvaluationAnswer,
    EvaluationRequest,
    PhaseName,
)
from judge.evaluate.options import EAGER
from judge.evaluate.result import RIGHT, Evaluation
from judge.profile.result import Profile
from judge.progress import Say, silent
from kb.context.models import ContextRequest, ContextResponse
from kb.errors import KbError
from kb.gpus import GpuSpec, find_spec

_SUFFIXES: Final = {"python": ".py", "cuda": ".cu"}

Reporter = Callable[[PhaseName, str], None]
"""Takes a phase and a line of its progress; an empty one where the phase begins."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One evaluation: what was sent, its files, and where progress and notes go."""

    request: EvaluationRequest
    problem: Path
    kernel: Path
    report: Reporter
    notes: list[str] = field(default_factory=list)

    def reporter(self, phase: PhaseName) -> Say:
        return lambda progress: self.report(phase, progress.text)


class Knowledge(Protocol):
    """The index, as the server reads it."""

    def check(self, request: ContextRequest) -> None:
        """Refuse a context that the server would refuse.

        Raises
        ------
        InvalidInputError
            It exceeds a limit, or its GPU is unknown.
        """

    def context(self, request: ContextRequest) -> ContextResponse:
        """What `POST /v1/context` answers.

        Raises
        ------
        KbError
            There is no usable index.
        """

    def techniques(self) -> Catalog:
        """The techniques that a diagnosis chooses from; those of the shipped corpus where the
        index has none."""


@dataclass(eq=False)
class Evaluator:
    """Carries out evaluations one after the other in one judging process."""

    knowledge: Knowledge
    device: str | None = None
    """`cuda:N`; None takes the first GPU."""
    start_process: Callable[[], JudgeProcess] = JudgeProcess

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._judge: JudgeProcess | None = None
        self._resolved_device: str | None = None
        self._cancelled = False

    def begin(self) -> None:
        """Prepare for the next evaluation: clear an earlier `cancel`."""
        self._cancelled = False

    def run(
        self, folder: Path, request: EvaluationRequest, shown_ids: Sequence[str], report: Reporter
    ) -> EvaluationAnswer:
        """Judge a candidate to the end.

        Its files are put into `folder`, which the caller removes. `shown_ids` are ids and slugs
        that the reader has.

        Raises
        ------
        KbError
            It cannot be judged.
        """
        problem = folder / "problem" / f"{request.name or 'problem'}.py"
        kernel = folder / "kernel" / f"kernel{_SUFFIXES[request.kernel_language]}"
        for path, text in ((problem, request.problem), (kernel, request.kernel)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        try:
            return self._run(_Task(request, problem, kernel, report), shown_ids)
        except JudgeError:
            raise
        except BaseException:
            self.close()  # its answer may be on its way still: not to be taken for the next one's
            raise

    def _run(self, task: _Task, shown_ids: Sequence[str]) -> EvaluationAnswer:
        request, notes = task.request, task.notes
        evaluation = self._evaluate(task)
        spec = _card(evaluation, notes)
        profile: Profile | None = None
        diagnosis: Diagnosis | None = None
        if evaluation.verdict in RIGHT:
            if request.profile:
                profile = self._profile(task)
            task.report(PhaseName.DIAGNOSE, "")
            diagnosis = self._diagnose(task, evaluation, profile, spec)
        context: ContextResponse | None = None
        if request.context is not None:
            task.report(PhaseName.RETRIEVE, "")
            query = self.context_request(
                request,
                request.context,
                shown_ids,
                diagnosis=diagnosis,
                metrics=profile.metrics if profile is not None else None,
                spec=spec,
                language=evaluation.language,
            )
            try:
                context = self.knowledge.context(query)
                if context.abstained and request.context.query is None and query.query:
                    # A name and a diagnosis may say too little where the kernel's text says enough.
                    context = self.knowledge.context(query.model_copy(update={"query": None}))
            except KbError as error:
                notes.append(f"no context: {error}")
        chunk_names = chunks_of(context) if context is not None else ()
        new_names = [name for name in dict.fromkeys(chunk_names) if name not in set(shown_ids)]
        return EvaluationAnswer(
            verdict=evaluation.verdict,
            evaluation=evaluation,
            profile=profile,
            diagnosis=diagnosis,
            context=context,
            shown=[*shown_ids, *new_names][-MAX_EXCLUDED:],
            notes=notes,
        )

    @staticmethod
    def context_request(
        request: EvaluationRequest,
        options: ContextWanted,
        shown_ids: Sequence[str],
        *,
        diagnosis: Diagnosis | None = None,
        metrics: dict[str, float] | None = None,
        spec: GpuSpec | None = None,
        language: str = "",
    ) -> ContextRequest:
        """The request to the index for an evaluation."""
        query = options.query or build_query(request.name or "", diagnosis, shown_ids).strip(". ")
        cuda = language == "cuda" or request.kernel_language == "cuda"
        target: Literal["triton", "cuda"] = "cuda" if cuda else "triton"
        return ContextRequest(
            query=query or None,
            kernel=request.kernel,
            profile=finite_metrics(metrics) or None,
            gpu=options.gpu or (spec.architecture if spec is not None else None),
            language=target,
            max_tokens=options.tokens,
            max_chars=options.max_chars,
            max_examples=options.max_examples,
            exclude=list(shown_ids),
        )

    def _evaluate(self, task: _Task) -> Evaluation:
        task.report(PhaseName.JUDGE, "")
        judge, device = self._judge_and_device(task)
        request = Evaluate.like(
            task.request,
            problem=task.problem,
            kernel=task.kernel,
            device=device,
            baselines=tuple(dict.fromkeys((EAGER, *task.request.baselines))),
        )
        return judge.ask(request, task.reporter(PhaseName.JUDGE)).evaluation

    def _profile(self, task: _Task) -> Profile | None:
        if task.request.interpret:
            task.notes.append("not profiled: nothing runs on a GPU with interpret")
            return None
        task.report(PhaseName.PROFILE, "")
        try:
            judge, device = self._judge_and_device(task)
            request = TakeProfile.like(
                task.request, problem=task.problem, kernel=task.kernel, device=device
            )
            return judge.ask(request, task.reporter(PhaseName.PROFILE)).profile
        except (JudgeError, JudgeLostError) as error:
            task.notes.append(f"not profiled: {error}")
            return None

    def _diagnose(
        self, task: _Task, evaluation: Evaluation, profile: Profile | None, spec: GpuSpec | None
    ) -> Diagnosis | None:
        measured = from_profile(profile) if profile is not None else ProfileData({})
        try:
            facts = gather_facts(measured, spec, evaluation, task.request.kernel)
            catalog = self.knowledge.techniques()
            return diagnose(facts, catalog, notes=measured.notes, ignored=measured.ignored)
        except KbError as error:
            task.notes.append(f"no diagnosis: {error}")
            return None

    def _judge_and_device(self, task: _Task) -> tuple[JudgeProcess, str]:
        """The judging process and the device to use."""
        with self._lock:
            if self._cancelled:
                raise JudgeLostError("it is being ended")
            if self._judge is None:
                self._judge, self._resolved_device = self.start_process(), None
            judge, device = self._judge, "cpu" if task.request.interpret else self._resolved_device
        if device is None:
            task.report(PhaseName.JUDGE, "starting the judge")
            device = judge.ask(Describe(device=self.device), silent).devices[0]
            self._resolved_device = device
        return judge, device

    def cancel(self) -> None:
        """End what is being judged, from another thread: `run` then raises soon, or returns."""
        with self._lock:
            self._cancelled = True
            if self._judge is not None:
                self._judge.cancel()
                self._judge = None

    def close(self) -> None:
        """End the judging process; the next evaluation starts another one."""
        with self._lock:
            if self._judge is not None:
                self._judge.close()
                self._judge = None


def _card(evaluation: Evaluation, notes: list[str]) -> GpuSpec | None:
    if evaluation.gpu is None:
        return None
    try:
        return find_spec(evaluation.gpu)
    except KbError as error:
        notes.append(f"no roofs: {error}")
        return None
