"""A language model's view of the same evidence: structured, checked against it, never trusted.

Any OpenAI-compatible endpoint that takes a JSON schema as `response_format`. A reply is refused
when it cites a metric or a value that was not measured, or a technique that was not on offer.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Annotated

from jinja2 import Environment, StrictUndefined
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.diagnose.facts import Facts, fact
from agent.diagnose.result import Bottleneck, Diagnosis, Evidence, Finding, Opinion
from agent.diagnose.techniques import Catalog
from agent.endpoint.client import Endpoint
from agent.endpoint.errors import RefusedError, UnusableReplyError, one_line
from kb.refusals import first_problem
from kb.vocabulary import all_metrics

# Rides out a short limit without keeping a terminal waiting.
MAX_RETRIES = 2
REQUEST_SECONDS = 120.0  # a local model on one GPU may think for a minute
# Malformed once can be chance; twice is a model that cannot do it.
ATTEMPTS = 2
# Models round what they cite; 1 % is beyond any rounding that keeps three digits.
_VALUE_TOLERANCE = 0.01
# Bytes of source beyond this bury the evidence.
_SOURCE_CHARS = 16_000


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")


class CitedEvidence(_Reply):
    """One metric that the model cites."""

    metric: str
    value: float
    meaning: str


class CitedFinding(_Reply):
    """One cause in the model's words."""

    cause: Annotated[str, Field(min_length=1)]
    category: Bottleneck
    severity: Annotated[float, Field(ge=0, le=1)]
    evidence: Annotated[list[CitedEvidence], Field(min_length=1)]


class JudgeReply(_Reply):
    """What the model has to answer; its JSON schema goes with the request."""

    bottleneck: Bottleneck
    summary: Annotated[str, Field(min_length=1)]
    findings: Annotated[list[CitedFinding], Field(min_length=2, max_length=2)]
    techniques: list[str]


def ask_model(
    model: str,
    base_url: str | None,
    facts: Facts,
    diagnosis: Diagnosis,
    catalog: Catalog,
    *,
    max_retries: int = MAX_RETRIES,
    timeout: float = REQUEST_SECONDS,
) -> Opinion:
    """A model's opinion on the evidence that the rules had.

    `model`, `base_url`, `max_retries` and `timeout` are those of `agent.endpoint.client.Endpoint`.

    Raises
    ------
    LlmError
        There is no endpoint or it fails, the model refuses, or its reply is malformed twice; one
        line.
    """
    endpoint = Endpoint(model, base_url, max_retries=max_retries, timeout=timeout)
    citable = evidence_of(facts, diagnosis)
    language = facts.source.language if facts.source is not None else None
    fitting = catalog.fitting(language, facts.architecture)
    titles = {entry.slug: entry.title for entry in fitting}
    messages = [{"role": "user", "content": prompt(facts, citable, titles)}]
    problem = ""
    for _ in range(ATTEMPTS):
        text = _answer(endpoint, messages)
        try:
            reply = JudgeReply.model_validate_json(text)
        except ValidationError as error:
            problem = first_problem(error)
        else:
            problem = _check(reply, citable, titles)
            if not problem:
                return _opinion(model, reply, citable)
        correction = f"That answer cannot be used: {problem}. Answer again, corrected."
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": correction},
        ]
    raise UnusableReplyError(
        f"model '{model}' gave an unusable answer {ATTEMPTS} times: {one_line(problem)}"
    )


def _answer(endpoint: Endpoint, messages: Sequence[Mapping[str, str]]) -> str:
    schema = {"name": "diagnosis", "schema": JudgeReply.model_json_schema(), "strict": True}
    reply = endpoint.complete(
        {
            "messages": list(messages),
            "response_format": {"type": "json_schema", "json_schema": schema},
            "temperature": 0,
        }
    )
    choice = reply.completion.choices[0]
    if choice.message.refusal:
        reason = one_line(choice.message.refusal)
        raise RefusedError(f"model '{endpoint.model}' refused to answer: {reason}")
    if choice.finish_reason == "content_filter":
        raise RefusedError(f"model '{endpoint.model}': the endpoint's filter withheld the answer")
    return choice.message.content or ""


def evidence_of(facts: Facts, diagnosis: Diagnosis) -> dict[str, Evidence]:
    """All that may be cited, by name: every metric, and what was computed from code and runs."""
    citable = {
        metric.name: facts.evidence(metric.name, "")
        for metric in all_metrics()
        if metric.name in facts.metrics
    }
    position = diagnosis.roofline
    figures = {
        "roofline.intensity": ("Arithmetic intensity", position.intensity, "FLOP/byte"),
        "roofline.ridge": ("Intensity of the ridge", position.ridge, "FLOP/byte"),
        "roofline.memory_fraction": ("Bandwidth over the roof", position.memory_fraction, ""),
        "roofline.compute_fraction": ("FLOP/s over the roof", position.compute_fraction, ""),
        "roofline.traffic_ratio": ("Bytes moved over needed", position.traffic_ratio, ""),
        "evaluation.floor_fraction": ("Floor over time", position.floor_fraction, ""),
    }
    for name, (label, value, unit) in figures.items():
        if value is not None:
            citable[name] = fact(name, label, value, unit)
    for finding in diagnosis.findings:
        for evidence in finding.evidence:
            citable.setdefault(evidence.metric, evidence.model_copy(update={"meaning": ""}))
    for evidence in _static(facts):
        citable.setdefault(evidence.metric, evidence)
    return citable


def _static(facts: Facts) -> list[Evidence]:
    static = facts.static
    if static is None:
        return []
    return [
        fact("static.registers", "Registers per thread", static.registers, ""),
        fact("static.shared_bytes", "Shared memory per block", static.shared_bytes, "byte"),
        fact("static.instructions", "Instructions in the code", static.instructions, ""),
        *(
            fact(f"static.mix.{name}", f"Instructions: {name.replace('_', ' ')}", count, "")
            for name, count in static.mix.items()
        ),
    ]


def prompt(facts: Facts, citable: Mapping[str, Evidence], titles: Mapping[str, str]) -> str:
    """The request's text: card, evidence by section, techniques, source."""
    section = {metric.name: metric.section for metric in all_metrics()}
    grouped: dict[str, list[Evidence]] = {}
    for name, evidence in citable.items():
        grouped.setdefault(section.get(name, name.split(".")[0]), []).append(evidence)
    source = facts.source.text[:_SOURCE_CHARS] if facts.source is not None else ""
    template = (files("agent.diagnose") / "judge_prompt.md.j2").read_text(encoding="utf-8")
    # Plain text for a model, not HTML; values are set in as they are.
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701
    return environment.from_string(template).render(
        spec=facts.spec,
        sections=list(grouped.items()),
        techniques=sorted(titles.items()),
        source=source,
        # Of the text itself, so that the text cannot hold it by chance, and the prompt is the same
        # for the same facts.
        mark=hashlib.sha256(source.encode()).hexdigest()[:12],
    )


def _check(reply: JudgeReply, citable: Mapping[str, Evidence], titles: Mapping[str, str]) -> str:
    """What is wrong with a reply that has the right form; empty if nothing."""
    for finding in reply.findings:
        for citation in finding.evidence:
            measured = citable.get(citation.metric)
            if measured is None:
                return f"the metric '{citation.metric}' was not measured"
            close = math.isclose(
                citation.value, measured.value, rel_tol=_VALUE_TOLERANCE, abs_tol=1e-9
            )
            if not close:
                return f"{citation.metric} is {measured.value:.6g}, not {citation.value:.6g}"
    first, second = (
        {evidence.metric for evidence in finding.evidence} for finding in reply.findings
    )
    if first == second:
        return "the two findings rest on the same metrics: they have to be distinct"
    for slug in reply.techniques:
        if slug not in titles:
            return f"the technique '{slug}' is not on offer"
    return ""


def _opinion(model: str, reply: JudgeReply, citable: Mapping[str, Evidence]) -> Opinion:
    findings = tuple(
        Finding(
            rule="model",
            cause=" ".join(finding.cause.split()),
            category=finding.category,
            severity=finding.severity,
            evidence=tuple(
                citable[evidence.metric].model_copy(
                    update={"meaning": " ".join(evidence.meaning.split())}
                )
                for evidence in finding.evidence
            ),
        )
        for finding in reply.findings
    )
    return Opinion(
        model=model,
        bottleneck=reply.bottleneck,
        summary=" ".join(reply.summary.split()),
        findings=findings,
        techniques=tuple(dict.fromkeys(reply.techniques)),
    )
