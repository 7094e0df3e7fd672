"""Checks on CUDA C++ text: library calls, streams, threads, and reaching out of the kernel."""

import itertools
import re

from judge.evaluate.finding import Finding, Severity

# Where a comment or a literal begins. What ends it is searched for apart: a pattern for the whole
# would try every "/*" up to the end of a text that closes none of them.
_BEGINNING = re.compile(r"""//|/\*|(?<![A-Za-z0-9_])(?:u8|[uUL])?R"([^()\\\s]{0,16})\(|["']""")
# A literal ends on its line, or the file does not compile: "/*" inside one begins no comment, so
# that nothing can be hidden behind it.
_LITERAL_END = {
    quote: re.compile(rf"(?:[^\\\n{quote}]|\\.)*+(?:{quote}|$)?", re.MULTILINE) for quote in "\"'"
}
_NOT_A_BREAK = re.compile(r"[^\n]")
# More of one kind tell a reader nothing.
_MOST_MATCHES = 200


PATTERNS: tuple[tuple[str, Severity, str, str], ...] = (
    (
        "library-call", "disclose",
        r"\b(?:cublas|cudnn|cusparse|cufft|cusolver|cutensor|nvjpeg|nccl)\w*\s*\(",
        "calls an NVIDIA library to do the work",
    ),
    (
        "library-call", "disclose",
        r"\b(?:at|torch)::(?:(?:native|linalg|nn::functional|special)::)?(?!empty|zeros|ones|full|"
        r"tensor|from_blob|Tensor|kFloat|kHalf|kBFloat16|k[A-Z]|TensorOptions|device|dtype|Device|"
        r"ScalarType|IntArrayRef|OptionalDeviceGuard|cuda|stable|arange|scalar_tensor|NoGradGuard|"
        r"AutoDispatch|Library|optional|Scalar|SymInt|globalContext|CppFunction|PackedTensor|"
        r"GenericPackedTensor|RestrictPtrTraits|DefaultPtrTraits|opmath_type|acc_type|ceil_div)"
        r"(?=[a-z_]\w*\s*\()\w+",
        "calls ATen to do the work",
    ),
    (
        "library-call", "disclose", r"\b(?:cub|thrust)::\w+",
        "uses CUB or Thrust for part of the work",
    ),
    (
        "other-stream", "suspect",
        r"\b(?:cudaStreamCreate\w*|cuStreamCreate\w*|getStreamFromPool|cudaStreamPerThread|"
        r"cudaStreamBeginCapture|cudaGraphLaunch)\b",
        "works on a stream of its own, which events on the current stream may not see",
    ),
    (
        "other-card", "suspect",
        r"\b(?:cudaSetDevice|cudaDeviceEnablePeerAccess|cuCtxCreate)\w*\s*\(",
        "selects a GPU itself",
    ),
    (
        "process", "suspect",
        r"\bstd::(?:thread|jthread|async)\b|"
        r"(?<![.>:\w])(?:pthread_create|fork|vfork|execv\w*|popen|system|clone)\s*\(",
        "starts threads or processes",
    ),
    (
        "reaches-out", "suspect",
        r"\b(?:dlsym|dlopen|mprotect|ptrace|process_vm_\w+|LD_PRELOAD|Py_\w+|PyObject_\w+|"
        r"PyRun_\w+|PyEval_\w+|cupti\w+)\s*[({]?",
        "reaches beyond the kernel, into libraries, memory or the interpreter",
    ),
    (
        "reads-reference", "suspect",
        r"(?<![.>:\w])(?:fopen|open)\s*\(|\bstd::ifstream\b|/proc/",
        "opens files",
    ),
    (
        "patched-measurement", "cheat",
        r"\bcuda(?:EventElapsedTime|EventRecord|DeviceSynchronize|StreamSynchronize|"
        r"EventSynchronize)\w*\s*\([^;{}]{0,400}\)\s{0,80}\{",
        "defines a function of the CUDA runtime that the judge uses to measure",
    ),
)  # fmt: skip
"""Things to look for in CUDA text without comments: rule, severity, pattern and explanation."""


def without_comments(text: str) -> str:
    """`text` with comments blanked; line breaks stay. What no "*/" closes runs to the end."""
    parts: list[str] = []
    missing: set[str] = set()
    copied = position = 0
    while (begins := _BEGINNING.search(text, position)) is not None:
        mark = begins[0]
        if mark in ("//", "/*"):
            closing = "\n" if mark == "//" else "*/"
            end = text.find(closing, begins.end())
            position = len(text) if end < 0 else end + (2 if mark == "/*" else 0)
            parts += (
                text[copied : begins.start()],
                _NOT_A_BREAK.sub(" ", text[begins.start() : position]),
            )
            copied = position
        elif mark in _LITERAL_END:
            literal = _LITERAL_END[mark].match(text, begins.end())
            position = begins.end() if literal is None else max(literal.end(), begins.end())
        else:
            closing = f'){begins[1]}"'
            end = -1 if closing in missing else text.find(closing, begins.end())
            position = begins.end() if end < 0 else end + len(closing)
            if end < 0:
                missing.add(closing)  # not searched for once more
    return "".join([*parts, text[copied:]])


def join_continued_lines(text: str) -> str:
    """`text` as a compiler joins its lines: a line that ends in a backslash goes on in the next.

    The line breaks that this takes away follow the joined line, so that line numbers stay.
    """
    joined: list[str] = []
    removed = 0
    for line in text.replace("\r\n", "\n").replace("??/", "\\").split("\n"):
        stripped = line.rstrip(" \t\f\v\r")
        if stripped.endswith("\\"):
            joined.append(stripped[:-1])
            removed += 1
        else:
            joined += [line, "\n" * (removed + 1)]
            removed = 0
    return "".join(joined).removesuffix("\n")


def cuda_findings(text: str, first_line: int) -> list[Finding]:
    """Findings in CUDA C++ text whose first line is `first_line` of its file."""
    joined = join_continued_lines(text)
    # Inside a raw literal lines are not joined: where it ends cannot be told from the joined text.
    # What may be a comment is then read like the rest.
    code = joined if 'R"' in text and joined != text else without_comments(joined)
    findings = []
    for rule, severity, pattern, explanation in PATTERNS:
        line, searched = first_line, 0
        for match in itertools.islice(re.finditer(pattern, code), _MOST_MATCHES):
            line += code.count("\n", searched, match.start())
            searched = match.start()
            evidence = " ".join(match[0].split())
            findings.append(Finding(rule, severity, line, evidence, explanation))
    return findings
