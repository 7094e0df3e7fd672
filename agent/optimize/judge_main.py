"""The process that evaluates and profiles for a run: `python -m agent.optimize.judge_main FD`.

A process of its own, so that whatever happens to torch, the driver or the card while it judges ends
it and not the run. It reads one request a line from stdin, {"request": "module:Class", "fields":
{...}}, and writes to the descriptor FD lines of progress ({"say": ..., "step": ...}) and one answer
for each request ({"ok": ...} or {"error": ..., "lacking": [...]}). It ends with its parent: when
stdin ends, whatever it is doing.
"""

import importlib
import json
import os
import queue
import sys
import threading
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from agent.optimize.judge_process import JudgeError
from agent.optimize.judge_requests import JudgeState, Request
from judge.memory import advised
from judge.progress import Progress
from judge.sandbox.layers import IncompleteSandboxError
from kb.errors import KbError


def main(descriptor: int) -> None:
    """Serve until stdin ends."""
    with os.fdopen(descriptor, "w", encoding="utf-8") as replies:
        sending = threading.Lock()

        def send(message: Progress | BaseModel | Exception) -> None:
            with sending:
                replies.write(write_message(message) + "\n")
                replies.flush()

        state = JudgeState()
        for line in _read_requests():
            try:
                send(read_request(line).answer(state, send))
            except Exception as error:
                state.forget()  # it may be what is broken
                send(error)


def write_message(message: Progress | BaseModel | Exception) -> str:
    """Progress, the answer or why there is none, as a line that `read_message` reads."""
    match message:
        case Progress(text, step):
            return json.dumps({"say": text, "step": step})
        case BaseModel():
            return json.dumps({"ok": message.model_dump(mode="json")})
    lacking = message.lacking if isinstance(message, IncompleteSandboxError | JudgeError) else ()
    text = str(message)
    if not isinstance(message, KbError):
        text = advised(message) or f"{type(message).__name__}: {message}"
    return json.dumps({"error": text, "lacking": lacking})


def read_request(line: str) -> Request[Any]:
    """Parse one line of the parent, whose word is trusted.

    Raises
    ------
    ValueError
        It is not a request.
    """
    data = json.loads(line)
    module, _, name = data["request"].partition(":")
    request_class = getattr(importlib.import_module(module), name)
    if not issubclass(request_class, Request):
        raise ValueError(f"{name} is not a request")  # noqa: TRY004 (a value of the line)
    request: Request[Any] = request_class.model_validate(data["fields"])
    return request


def _read_requests() -> Iterator[str]:
    lines: queue.Queue[str] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            lines.put(line)
        # The parent is gone or wants an end: nothing that runs here is of use to anybody.
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    while True:
        yield lines.get()


if __name__ == "__main__":
    main(int(sys.argv[1]))
