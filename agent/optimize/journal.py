"""An append-only file of events, one JSON object a line, that survives a kill at any moment."""

import os
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from agent.optimize.events import EVENT, Event
from agent.optimize.files import RunFolderError, cannot_write, sync_folder
from kb.refusals import first_problem


def read_events(path: Path) -> tuple[list[Event], int]:
    """The events, and the length in bytes of the file's sound part.

    A last line without its end is what a kill leaves of a write: it did not happen.

    Raises
    ------
    RunFolderError
        A line before the last is damaged, or the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror}") from error
    events: list[Event] = []
    valid = 0
    for number, line in enumerate(data.splitlines(keepends=True), 1):
        end = valid + len(line)
        if not line.endswith(b"\n"):
            break
        try:
            events.append(EVENT.validate_json(line))
        except ValidationError as error:
            if end == len(data):
                break  # a torn page: the line's end reached the disk, its middle did not
            what = first_problem(error)
            raise RunFolderError(f"{path}:{number}: not an event of a run: {what}") from error
        valid = end
    return events, valid


class Journal:
    """Appends events; each is on the disk when `append` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.events, self._valid_bytes = read_events(path)
        try:
            new = not path.exists()
            self._file = path.open("ab", buffering=0)
            self._cut()
            if new:
                sync_folder(path.parent)
        except OSError as error:
            raise cannot_write(path, error) from error

    def append(self, event: Event) -> None:
        """Add an event and wait until the disk has it.

        Raises
        ------
        RunFolderError
            The disk is full or gone; the journal is as before.
        """
        line = event.model_dump_json().encode() + b"\n"
        try:
            # An interrupt may have come in the middle of the last append.
            self._cut()
            view = memoryview(line)
            while view:
                view = view[self._file.write(view) or 0 :]
            os.fsync(self._file.fileno())
        except OSError as error:
            with suppress(OSError):
                self._cut()
            raise cannot_write(self._path, error) from error
        self._valid_bytes += len(line)

    def _cut(self) -> None:
        if os.fstat(self._file.fileno()).st_size != self._valid_bytes:
            self._file.truncate(self._valid_bytes)

    def close(self) -> None:
        """End writing."""
        self._file.close()
