"""Run Python source, sent over the channel, inside the sandbox.

One JSON line {"source": str}; the script finds `channel` (a connected socket) and `policy` among
its globals.
"""

import json
import socket

from judge.sandbox.policy import Policy


def request(source: str) -> bytes:
    """The line that has the entry function run `source`."""
    return json.dumps({"source": source}).encode() + b"\n"


def main(channel: socket.socket, policy: Policy) -> None:
    """Read the request and execute it."""
    line = bytearray()
    while not line.endswith(b"\n"):  # byte by byte: what follows stays in the socket for the script
        byte = channel.recv(1)
        if not byte:
            raise EOFError("the channel closed before a request came")
        line += byte
    code = compile(json.loads(line)["source"], "<script>", "exec")
    # What runs here is not trusted, and confined by now: that is what this process is for.
    exec(code, {"__name__": "__main__", "channel": channel, "policy": policy})  # noqa: S102
