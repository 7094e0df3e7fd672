"""Replace the sandboxed process by a program, named over the channel.

One JSON line {"arguments": [str], "environment": {str: str}}. Its output is captured as any
sandboxed process's; the channel closes when it starts.
"""

import json
import os
import socket
from collections.abc import Mapping, Sequence

from judge.sandbox.entries import first_line
from judge.sandbox.policy import Policy


def line(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> bytes:
    """Return the request that starts the program `arguments`."""
    request = {"arguments": list(arguments), "environment": dict(environment or {})}
    return json.dumps(request).encode() + b"\n"


def main(channel: socket.socket, _policy: Policy) -> None:
    """Read the request and execute the program in place of this process."""
    request = json.loads(first_line(channel))
    arguments = request["arguments"]
    os.execvpe(arguments[0], arguments, os.environ | request["environment"])  # noqa: S606
