"""What a piece of code is for: a kernel's body, device code that kernels call, the host's side."""

import re

from ingest.chunkers import Piece

KERNEL, DEVICE, HOST, TYPE, OTHER = "kernel", "device", "host", "type", "other"
ROLES = (KERNEL, DEVICE, HOST, TYPE, OTHER)

# A jitted function that neither asks where it runs nor writes anything is called by one that does.
_ENTRY = re.compile(
    r"\b(?:program_id|num_programs)\(|\b(?:tl|gl|ttgl)\.(?:store|atomic_\w+)\(|\.store\("
)
_CUTE_KERNEL = re.compile(r"^[ \t]*@cute\.kernel\b", re.MULTILINE)
_CUTE_DEVICE = re.compile(r"^[ \t]*@(?:cute\.jit|dsl_user_op)\b", re.MULTILINE)
# How a host starts work on the device; a function that does is no device code.
_LAUNCH = re.compile(r"<<<|\.launch\(|\bcudaLaunchKernel\w*\(|\bcuLaunchKernel\w*\(")
_DEVICE_MARK = re.compile(
    r"\b__device__\b|\b[A-Z][A-Z0-9_]*_(?:DEVICE|INLINE)\b|\b__forceinline__\b"
)
_TYPE_MARK = re.compile(r"\s*(?:class|struct|union|enum)\b")
_TEMPLATE = re.compile(r"\s*template\s*<")
# What only runs on a device, where no mark says so.
_DEVICE_WORD = re.compile(r"\bthreadIdx\b|\bblockIdx\b|\b__sync\w+\(|\basm\s+volatile\b|\b__shfl_")


def role_of(piece: Piece) -> str:
    """The role of a piece, one of `ROLES`; empty for a document."""
    if piece.language in {"markdown", "text"}:
        return ""
    if piece.symbol is None:
        return OTHER
    return _in_cpp(piece) if piece.language in {"cuda", "cpp"} else _in_python(piece)


def _in_python(piece: Piece) -> str:
    if piece.is_kernel:
        return KERNEL if _ENTRY.search(piece.text) or piece.calls else DEVICE
    if _CUTE_KERNEL.search(piece.text):
        return KERNEL
    if _CUTE_DEVICE.search(piece.text) and not _LAUNCH.search(piece.text):
        return DEVICE
    if (piece.signature or "").startswith("class "):
        return TYPE
    return HOST


def _in_cpp(piece: Piece) -> str:
    if piece.is_kernel:
        return KERNEL
    head = piece.signature or ""
    if _TYPE_MARK.match(_after_templates(head)):
        return TYPE
    if _LAUNCH.search(piece.text):
        return HOST
    if _DEVICE_MARK.search(head) or _DEVICE_WORD.search(piece.text):
        return DEVICE
    return HOST


def _after_templates(head: str) -> str:
    """A declaration without its template headers; empty where they were cut short."""
    while match := _TEMPLATE.match(head):
        depth, at = 1, match.end()
        while depth and at < len(head):
            depth += (head[at] == "<") - (head[at] == ">")
            at += 1
        head = head[at:]
    return head
