"""The run folder: request, journal, and every file that a run produces.

::

    RUN/
      config.json            RunConfig
      environment.json       machine and versions, at the start
      journal.jsonl          events, the only truth: everything else can be made from it
      problem/NAME.py        the problem file
      kernels/ID.py          every candidate
      evaluations/ID.json    `Evaluation` of each candidate that was judged
      profiles/ID.json       `Profile` of each that was profiled
      rounds/NN/*.json       diagnosis, context, proposals and outcomes of a round, to be read
      llm/NNNN.json          requests and replies of a language model
      best.py                the best so far, a file that runs by itself; where PyTorch's own
                             form is faster at the end, that
      lock                   held by the process that works on the run
"""

import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

import kb
from agent.optimize.candidate import Candidate
from agent.optimize.config import RunConfig
from agent.optimize.events import Event, Proposed, Repaired, Started
from agent.optimize.files import PART, RunFolderError, cannot_write, write_atomically
from agent.optimize.journal import Journal, read_events
from agent.optimize.record import Record, Round
from judge.evaluate.result import Evaluation
from judge.profile.result import Profile
from kb.refusals import refusal

_CONFIG = "config.json"
_JOURNAL = "journal.jsonl"
_M = TypeVar("_M", bound=BaseModel)


class RunFolder:
    """A run folder that this process owns. A context manager that holds its lock.

    `RunFolder.create` starts one, `RunFolder.resume` takes one up again, and `read_run` reads one
    without the lock.
    """

    def __init__(self, root: Path, config: RunConfig) -> None:
        self.root = root
        self.config = config
        self._lock = FileLock(root / "lock", is_singleton=False, thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise RunFolderError(f"another process is working on the run in {root}") from None
        except OSError as error:
            raise cannot_write(root, error) from error
        try:
            for leftover in root.rglob(f".*{PART}"):
                leftover.unlink(missing_ok=True)
            self._journal = Journal(root / _JOURNAL)
            self.record = Record.of(self._journal.events)
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    def create(cls, root: Path, config: RunConfig) -> Self:
        """Start a run in a folder that is empty or not there yet.

        Raises
        ------
        RunFolderError
            There is something in it, or it cannot be written.
        """
        if (root / _CONFIG).exists():
            raise RunFolderError(
                f"{root} already holds a run: continue it with --resume {root}, or name another "
                "folder with --out"
            )
        try:
            if root.is_dir() and any(not _is_leftover(path) for path in root.iterdir()):
                raise RunFolderError(f"{root} is not empty: name another folder with --out")
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise cannot_write(root, error) from error
        write_atomically(_problem_path(root, config), config.problem.source)
        write_atomically(root / "environment.json", json.dumps(_environment(), indent=2) + "\n")
        # Last: a folder with a config is a run.
        write_atomically(root / _CONFIG, config.model_dump_json(indent=2) + "\n")
        return cls(root, config)

    @classmethod
    def resume(cls, root: Path, config: RunConfig | None = None) -> Self:
        """Resume a run, with a changed `config` if one is given.

        Raises
        ------
        RunFolderError
            There is none, it is damaged, or another process works on it.
        """
        old_config = read_config(root)
        folder = cls(root, config or old_config)
        try:
            if config is not None and config != old_config:
                write_atomically(root / _CONFIG, config.model_dump_json(indent=2) + "\n")
            folder._restore()
        except BaseException:
            folder.close()
            raise
        return folder

    def _restore(self) -> None:
        """Write files that a kill after the journal entry may have lost."""
        if not self.problem_path.exists():
            write_atomically(self.problem_path, self.config.problem.source)
        for candidate in self.record.candidates():
            self.keep_candidate(candidate)

    @property
    def problem_path(self) -> Path:
        """The copy of the problem file."""
        return _problem_path(self.root, self.config)

    def keep_candidate(self, candidate: Candidate) -> Path:
        """Write a candidate's file, if it is not there."""
        path = self.root / "kernels" / candidate.file
        if not path.exists():
            write_atomically(path, candidate.source)
        return path

    def append(self, event: Event) -> None:
        """Record an event in the journal and `record`, then update the files for readers."""
        if isinstance(event, Started):
            self.keep_candidate(event.standing.start.candidate)
        if isinstance(event, Proposed):
            for candidate in event.candidates:
                self.keep_candidate(candidate)
        if isinstance(event, Repaired) and event.candidate is not None:
            self.keep_candidate(event.candidate)
        self._journal.append(event)
        self.record.add(event)
        number = getattr(event, "round", None)
        if number is not None:
            self._write_round(self.record.round(number))

    def keep_evaluation(self, candidate: str, evaluation: Evaluation, kind: str = "") -> None:
        """Write the whole evaluation; `kind` keeps a second one apart."""
        path = self.root / "evaluations" / f"{candidate}{kind}.json"
        write_atomically(path, evaluation.model_dump_json(indent=1) + "\n")

    def keep_profile(self, candidate: str, profile: Profile) -> None:
        """Write the whole profile."""
        path = self.root / "profiles" / f"{candidate}.json"
        write_atomically(path, profile.model_dump_json(indent=1) + "\n")

    def keep_best(self, source: str, suffix: str, head: str) -> None:
        """Write the best kernel as a file that runs by itself, with `head` as leading comment."""
        mark = "//" if suffix != ".py" else "#"
        comment = "".join(f"{mark} {line}".rstrip() + "\n" for line in head.splitlines())
        # A .cu file's leading comment declares its entry: what is said goes to its end.
        text = comment + source if mark == "#" else f"{source.rstrip()}\n\n{comment}"
        write_atomically(self.root / f"best{suffix}", text)
        for other in {".py", ".cu"} - {suffix}:  # of an earlier best
            (self.root / f"best{other}").unlink(missing_ok=True)

    def profile(self, candidate: str) -> Profile | None:
        """The profile of a candidate, if it is there and sound."""
        return _load(Profile, self.root / "profiles" / f"{candidate}.json")

    def _write_round(self, round_: Round) -> None:
        folder = self.root / "rounds" / f"{round_.number:02d}"
        parts = {
            "diagnosis": round_.advised and _json(round_.advised.diagnosis),
            "context": round_.advised and _json(round_.advised.context),
            "proposals": _without_sources(_json(round_.proposed)),
            "outcomes": [_without_sources(_json(judged)) for judged in round_.in_order()],
            "decisions": _json(round_.closed),
        }
        for name, part in parts.items():
            if not part:
                continue
            text = json.dumps(part, indent=1) + "\n"
            path = folder / f"{name}.json"
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                write_atomically(path, text)

    def close(self) -> None:
        """Free the lock."""
        self._journal.close()
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_config(root: Path) -> RunConfig:
    """The configuration of a run.

    Raises
    ------
    RunFolderError
        `root` is no run folder.
    """
    path = root / _CONFIG
    try:
        return RunConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunFolderError(f"{root} is not a run folder: {path.name}: {reason}") from error
    except ValidationError as error:
        raise RunFolderError(f"{path} is invalid: {refusal(error)}") from error


def read_run(root: Path) -> tuple[RunConfig, Record]:
    """Read a run folder as it is, also while another process works on it.

    Raises
    ------
    RunFolderError
        `root` is no run folder, or its journal is damaged.
    """
    config = read_config(root)
    events, _ = read_events(root / _JOURNAL)
    return config, Record.of(events)


def read_evaluation(root: Path, candidate: str) -> Evaluation | None:
    """The evaluation of a candidate of a run, if it is there and sound."""
    return _load(Evaluation, root / "evaluations" / f"{candidate}.json")


def now() -> str:
    """UTC time, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _problem_path(root: Path, config: RunConfig) -> Path:
    # The name alone: a path would lead out of the folder.
    return root / "problem" / Path(config.problem.name).name


def _is_leftover(path: Path) -> bool:
    """Whether a file can be left over from a kill while a run was being created."""
    return path.name in ("problem", "environment.json", "lock") or path.name.endswith(PART)


def _environment() -> dict[str, Any]:
    return {
        "kernel-kb": kb.__version__,
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "began": now(),
    }


def _load(model: type[_M], path: Path) -> _M | None:
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _json(model: BaseModel | None) -> Any:
    return model.model_dump(mode="json") if model is not None else None


def _without_sources(data: Any) -> Any:
    """JSON without the candidates' text, which is in `kernels`."""
    if isinstance(data, dict):
        return {key: _without_sources(value) for key, value in data.items() if key != "source"}
    return [_without_sources(element) for element in data] if isinstance(data, list) else data
