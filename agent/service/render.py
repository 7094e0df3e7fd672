"""An evaluation as text that a model reads."""

from agent.diagnose.render import render as render_diagnosis
from agent.service.models import EvaluationAnswer, EvaluationJob, JobState
from judge.evaluate.render import render as render_evaluation


def render(job: EvaluationJob) -> str:
    """State, verdict and times, diagnosis, what is missing, and the next context."""
    if job.answer is not None:
        return _answer(job.id, job.answer)
    head = f"Evaluation {job.id} is {job.state}"
    if job.state is JobState.QUEUED:
        return f"{head}, {job.ahead or 0} before it."
    if job.state is JobState.FAILED:
        return f"{head}: {job.error}"
    phase = job.phases[-1] if job.phases else None
    return f"{head}: {phase.name}: {phase.said}" if phase is not None else f"{head}."


def _answer(job_id: str, answer: EvaluationAnswer) -> str:
    blocks = [f"Evaluation {job_id}", render_evaluation(answer.evaluation)]
    if answer.diagnosis is not None:
        blocks.append("\n".join(render_diagnosis(answer.diagnosis)))
    if answer.notes:
        blocks.append("\n".join(f"- {note}" for note in answer.notes))
    if answer.context is not None:
        blocks.append(f"What the knowledge base says:\n\n{answer.context.text}")
    return "\n\n".join(blocks)
