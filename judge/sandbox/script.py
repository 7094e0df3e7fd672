"""Run Python source, sent over the channel, inside the sandbox.

One JSON line {"source": str}; the script finds `channel` (a connected socket) and `policy` among
its globals.
"""

import json
import socket

from judge.sandbox.entries import first_line
from judge.sandbox.policy import Policy


def main(channel: socket.socket, policy: Policy) -> None:
    """Read the request and execute it."""
    request = json.loads(first_line(channel))
    code = compile(request["source"], "<script>", "exec")
    # What runs here is not trusted, and confined by now: that is what this process is for.
    exec(code, {"__name__": "__main__", "channel": channel, "policy": policy})  # noqa: S102
