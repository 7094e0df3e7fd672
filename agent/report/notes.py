"""Verified outcomes of a run as notes that `kb ingest RUN` takes.

Only what the judge found goes into a note: verdicts, paired times, metrics of the profiler, and
the closed vocabulary of what can fail. Hypotheses, proposers' remarks, reflections and the messages
of failing kernels are claims of models and of their programs, and stay out. So a note's text has
no word of theirs, but for a family that is a technique of the taxonomy.
"""

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from agent.optimize.candidate import Judged, Outcome, Stage
from agent.optimize.config import RunConfig
from agent.optimize.events import Standing
from agent.optimize.files import cannot_write, write_atomically
from agent.optimize.record import Record
from agent.optimize.run import read_evaluation, read_run
from agent.optimize.summary import FORM_NAMES
from judge.evaluate.result import Ratio, Verdict
from judge.problem.shapes import input_shapes
from kb.errors import KbError
from kb.notes import FOLDER, Note
from kb.vocabulary import find_metric, technique_titles

# What a failure may be called. A kernel can raise whatever it likes, with any text.
_FAILURES: Final = (
    "OutOfResources", "CompilationError", "CompileTimeAssertionFailure", "PTXASError",
    "OutOfMemoryError", "SyntaxError", "IndentationError", "ImportError", "ModuleNotFoundError",
    "NameError", "AttributeError", "TypeError", "ValueError", "RuntimeError",
)  # fmt: skip
_PARAMETER: Final = re.compile(r"^[A-Za-z_]\w{0,39}$")
_MAX_PARAMETERS: Final = 12
_MAX_SHAPES: Final = 4
_NO_TECHNIQUE: Final = "no technique of the taxonomy"
_FAMILIES: Final = {"tune": "changed meta-parameters", "recipe": "a kernel of the knowledge base"}


def write_notes(root: Path) -> list[Path]:
    """Write the notes of a run into its folder, and remove those that hold no more.

    Files that are as they should be are not touched, so reading a run changes nothing.

    Raises
    ------
    RunFolderError
        `root` is no run folder, its journal is damaged, or it cannot be written.
    """
    config, record = read_run(root)
    folder = root / FOLDER
    contents = {
        folder / f"{note.candidate}.md": _note_file(note, text)
        for note, text in notes_of(config, record, root)
    }
    for path, text in contents.items():
        if not path.is_file() or path.read_bytes() != text.encode():
            write_atomically(path, text)
    for path in folder.glob("*.md"):
        if path not in contents:
            try:
                path.unlink()
            except OSError as error:
                raise cannot_write(path, error) from error
    return list(contents)


def notes_of(config: RunConfig, record: Record, root: Path) -> Iterator[tuple[Note, str]]:
    """Each verified outcome of a run with its text, in the order of judging.

    A dry run has none: it measures nothing, and checks at reduced sizes.
    """
    standing = record.standing
    if standing is None or config.interpret or None in (standing.gpu, standing.architecture):
        return
    writer = _NoteWriter(config, record, standing, root)
    first: dict[str, Judged] = {}
    for judged in record.history:
        first.setdefault(judged.id, judged)
    yield from filter(None, map(writer.note, first.values()))


class _NoteWriter:
    """Writes the notes of one run."""

    def __init__(self, config: RunConfig, record: Record, standing: Standing, root: Path) -> None:
        self._config, self._record, self._standing, self._root = config, record, standing, root
        self._operator = operator_of(config.problem.stem)
        self._shapes = _shapes(config)
        self._leader_ids = {
            judged.id: round_.advised.leader
            for _, round_ in sorted(record.rounds.items())
            if round_.advised is not None
            for judged in round_.in_order()
        }

    def note(self, judged: Judged) -> tuple[Note, str] | None:
        """The note of a candidate; None where nothing about it is verified."""
        outcome = self._final_outcome(judged)
        if outcome.timed:
            return self._timing_note(judged, outcome)
        refuted = outcome.stage in (Stage.COMPILE, Stage.VERIFY)
        if refuted and outcome.verdict in (Verdict.WRONG, Verdict.CHEAT):
            return self._failure_note(judged, outcome)
        return None

    def _final_outcome(self, judged: Judged) -> Outcome:
        """The outcome, with the ratios of a last session beside those of its round."""
        confirmed = self._record.confirmed.get(judged.id)
        if confirmed is None or not confirmed.judged.outcome.timed:
            return judged.outcome
        last = confirmed.judged.outcome
        final = {ratio.over for ratio in last.ratios}
        ratios = (*last.ratios, *(r for r in judged.outcome.ratios if r.over not in final))
        return last.model_copy(update={"ratios": ratios, "profile": judged.outcome.profile})

    def _timing_note(self, judged: Judged, outcome: Outcome) -> tuple[Note, str] | None:
        comparison = self._choose_ratio(judged, outcome)
        if comparison is None:
            return None
        ratio, sentence = comparison
        if not ratio.significant:
            word, title = "none", "no change beyond the noise"
        elif ratio.ratio > 1:
            word, title = "faster", f"{ratio.ratio:.3f}x faster"
        else:
            word, title = "slower", f"slower, {ratio.ratio:.3f}x"
        lines = [f"{sentence}: {_change(ratio)}."]
        # A parent that is also the start is described once.
        described = {ratio.over}
        if ratio.over == "leader" and self._leader_ids.get(judged.id) == self._record.start.id:
            described.add("start")
        lines += [
            f"Against {_CONTENDERS[other.over]}: {_change(other)}."
            for other in outcome.ratios
            if other.over in _CONTENDERS and other.over not in described and _is_finite(other)
        ]
        share = outcome.floor_fraction
        floor = f", {share:.0%} of the floor" if share is not None else ""
        lines.append(f"Median {outcome.median_ms:.4g} ms{floor}. Verdict: {outcome.verdict}.")
        lines += self._metrics(judged)
        paired = ratio.model_dump(include={"ratio", "low", "high"})
        note = self._make_note(judged, title, word).model_copy(update=paired)
        return note, self._text(judged, note, lines)

    def _choose_ratio(self, judged: Judged, outcome: Outcome) -> tuple[Ratio, str] | None:
        """What it is judged by: its parent where both were timed together, else the start."""
        leader = self._leader_ids.get(judged.id)
        usable = {ratio.over: ratio for ratio in outcome.ratios if _is_finite(ratio)}
        paired = usable.get("leader")
        parents = judged.candidate.parents
        if paired is not None and leader in parents:
            which = "its parent" if len(parents) == 1 else "one of its parents"
            return paired, f"Compared with {which} {leader}, in one session"
        if "start" in usable:
            return usable["start"], "Compared with the start of the run, in one session"
        if paired is not None:
            other = f"the best so far, {leader} (not its parent)"
            return paired, f"Compared with {other}, in one session"
        return None

    def _failure_note(self, judged: Judged, outcome: Outcome) -> tuple[Note, str]:
        word = "cheat" if outcome.verdict is Verdict.CHEAT else "wrong"
        how = "did not compile or load" if outcome.stage is Stage.COMPILE else _WORDS[word]
        lines = [f"Failed: the kernel {how} (verdict {outcome.verdict})."]
        if outcome.stage is Stage.COMPILE and outcome.error in _FAILURES:
            lines.append(f"Kind of error: {outcome.error}.")
        lines += self._failed_case(judged)
        repair_ids = [
            repair.candidate.id
            for round_ in self._record.rounds.values()
            for repair in round_.repaired.values()
            if repair.failed == judged.id and repair.candidate is not None
        ]
        if any(item.id in repair_ids[:1] and item.outcome.right for item in self._record.history):
            lines.append(f"A repair of it, {repair_ids[0]}, is right.")
        note = self._make_note(judged, f"failed ({word})", "failed")
        return note, self._text(judged, note, lines)

    def _failed_case(self, judged: Judged) -> list[str]:
        """The first case that it got wrong, in the judge's own numbers."""
        evaluation = read_evaluation(self._root, judged.id)
        for case in evaluation.cases if evaluation is not None else ():
            if case.counted and not case.passed and case.norm_ratio is not None:
                allowed = f", {case.tolerance:.3g} allowed" if case.tolerance is not None else ""
                return [
                    f"At the {case.shape} shape with {case.kind} inputs the error is "
                    f"{case.norm_ratio:.3g} of the result's norm{allowed}."
                ]
        return []

    def _metrics(self, judged: Judged) -> list[str]:
        """How the metric moved that the proposer named, where both sides were profiled."""
        hypothesis = judged.candidate.hypothesis
        metric = find_metric(hypothesis.metric) if hypothesis and hypothesis.metric else None
        leader = self._leader_ids.get(judged.id)
        if metric is None or leader is None or leader not in judged.candidate.parents:
            return []
        before = (self._record.find(leader).outcome.profile or {}).get(metric.name)
        after = (judged.outcome.profile or {}).get(metric.name)
        if before is None or after is None or not math.isfinite(before + after):
            return []
        return [f"{metric.label} ({metric.name}): from {before:.4g} to {after:.4g} {metric.unit}."]

    def _make_note(self, judged: Judged, title: str, word: str) -> Note:
        family = self._family_title(judged)
        return Note.model_validate(
            {
                "title": f"{self._operator} on {self._standing.gpu}: {family}, {title}",
                "candidate": judged.id,
                "operator": self._operator,
                "shapes": self._shapes,
                "dtype": self._config.dtype,
                "gpu": self._standing.gpu,
                "architecture": self._standing.architecture,
                "technique": judged.family if judged.family in technique_titles() else None,
                "outcome": word,
            }
        )

    def _family_title(self, judged: Judged) -> str:
        return technique_titles().get(judged.family) or _FAMILIES.get(judged.family, _NO_TECHNIQUE)

    def _text(self, judged: Judged, note: Note, lines: list[str]) -> str:
        shapes = f", inputs {note.shapes}" if note.shapes else ""
        # None is written, too: what dtype the problem gives is in its own file.
        dtype = f", {note.dtype}" if note.dtype else ""
        head = f"{note.operator}{shapes}{dtype}, on {note.gpu} ({note.architecture})."
        change = f"Change: {self._family_title(judged)}."
        if note.technique is not None:
            title = technique_titles()[note.technique]
            change = f"Technique, as its proposer named it: {title} ({note.technique})."
        parameters = _parameters(judged)
        paragraphs = [head, change, *lines, *([parameters] if parameters else [])]
        versions = self._standing.versions
        tools = [f"{name} {versions[name]}" for name in ("torch", "triton") if name in versions]
        if tools:
            paragraphs.append(f"Measured with {', '.join(tools)}.")
        return "\n".join(paragraphs)


_WORDS: Final = {"cheat": "did not do the work, or not in the time it claims", "wrong": "was wrong"}
_CONTENDERS: Final[dict[str, str]] = {"start": "the start of the run"} | {
    str(form): called for form, called in FORM_NAMES.items()
}


def operator_of(stem: str) -> str:
    """What a problem computes, by its name: `36_RMSNorm_` is RMSNorm."""
    words = re.sub(r"[^A-Za-z0-9.]+", " ", stem).strip()
    return re.sub(r"^\d+ (?=\S)", "", words)[:80] or "a problem without a name"


def _shapes(config: RunConfig) -> str:
    try:
        all_shapes = input_shapes(config.problem.source, config.problem.name) or []
    except KbError:
        return ""
    shapes = ["x".join(map(str, shape)) or "scalar" for shape in all_shapes[:_MAX_SHAPES]]
    more = [f"and {len(all_shapes) - _MAX_SHAPES} more"] if len(all_shapes) > _MAX_SHAPES else []
    return ", ".join([*shapes, *more])[:200]


def _change(ratio: Ratio) -> str:
    interval = f"(95 % interval {ratio.low:.3f} to {ratio.high:.3f})"
    if not ratio.significant:
        return f"no change beyond the noise {interval}"
    return f"{ratio.ratio:.3f}x {'faster' if ratio.ratio > 1 else 'as fast (slower)'} {interval}"


def _is_finite(ratio: Ratio) -> bool:
    return all(math.isfinite(value) and value > 0 for value in (ratio.ratio, ratio.low, ratio.high))


def _parameters(judged: Judged) -> str:
    """Numbers that were chosen; words could be anything."""
    settings = [
        f"{name}={value}"
        for name, value in sorted(judged.candidate.params.items())
        if _PARAMETER.match(name) and isinstance(value, int | float)
    ]
    return f"Parameters: {', '.join(settings[:_MAX_PARAMETERS])}." if settings else ""


def _note_file(note: Note, text: str) -> str:
    head = yaml.safe_dump(note.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n{text}\n"
