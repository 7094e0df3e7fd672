"""Loads PyTorch and Triton's interpreter once, then runs each script it is told of in a fork.

Reads one JSON object a line: `arguments` (a script and its own) and `output`, a file name; what the
script prints goes to that file, its errors to `<output>.err`. Answers each with the exit status.
"""

import json
import os
import runpy
import sys
import traceback

import torch  # noqa: F401 (loaded before the forks, as the next)
import triton.language  # noqa: F401
from triton.runtime import interpreter

import kb.verify.compare
import kb.verify.kernel_module  # noqa: F401
from kb.interpreter import make_faster


def run(arguments: list[str], output: str) -> None:
    """Become the script; the process ends with it."""
    status = 1
    for stream, name in ((sys.stdout, output), (sys.stderr, f"{output}.err")):
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(descriptor, stream.fileno())
    try:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main() -> None:
    """Take one script after the other until stdin ends."""
    make_faster(interpreter)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            run(job["arguments"], job["output"])
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


if __name__ == "__main__":
    main()
