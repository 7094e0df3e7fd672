"""Commands of the judge to a worker and the worker's replies; imports no torch.

One message is one line of JSON. Every command carries `id` and `do`, every reply the same `id` and
`ok`. A reply comes from an untrusted process: what it says is a claim, its form is validated here.

Tensors never travel in messages. The judge allocates *buffers*, tells the worker how to open them
(`Open`), and names them afterwards.
"""

from typing import Final, TypeVar

from pydantic import ValidationError

# This module is the whole protocol under one name; what is defined where is of no concern outside.
from judge.worker.commands import *  # noqa: F403
from judge.worker.replies import *  # noqa: F403
from judge.worker.replies import MAX_ERROR_CHARS, Failed, Reply
from judge.worker.tensors import *  # noqa: F403
from kb.refusals import first_problem

# A reply holds names, shapes and times: 100,000 launch times need 2 MB at most at full precision,
# so orders are limited below and anything longer than this is an attack.
MAX_REPLY_BYTES: Final = 1 << 20

# Commands carry source text; the judge is trusted, so this only catches mistakes.
MAX_COMMAND_BYTES: Final = 16 << 20

_DEVICE_ERRORS: Final = ("CUDA error", "cudaError", "device-side assert", "illegal memory access")

R = TypeVar("R", bound=Reply)


def one_line(text: str, limit: int = MAX_ERROR_CHARS) -> str:
    """`text` on one line without control characters, at most `limit` characters."""
    head = text[: 4 * limit]
    line = " ".join("".join(c if c.isprintable() else " " for c in head).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def is_device_error(message: str) -> bool:
    """Whether an error is one after which a process cannot use the GPU any more."""
    return any(marker in message for marker in _DEVICE_ERRORS)


def read_reply(line: bytes, expected: type[R], number: int) -> R | Failed:
    """Parse one line of a worker as the reply to command `number`.

    Raises
    ------
    ValueError
        It is not JSON of the expected form, or answers another command.
    """
    try:
        failed = Failed.model_validate_json(line)
    except ValidationError:
        pass
    else:
        if failed.id == number:
            return failed
        raise ValueError(f"it answers command {failed.id}, not {number}")
    try:
        reply = expected.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(one_line(first_problem(error))) from None
    if reply.id != number:
        raise ValueError(f"it answers command {reply.id}, not {number}")
    return reply
