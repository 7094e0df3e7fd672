"""Checks on CUDA C++ text: library calls, streams, threads, and reaching out of the kernel."""

import re
from dataclasses import dataclass

from agent.evaluate.finding import Finding, Severity

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class CudaPattern:
    """One thing to look for in CUDA text without comments."""

    rule: str
    severity: Severity
    pattern: re.Pattern[str]
    explanation: str


def _pattern(rule: str, severity: Severity, pattern: str, explanation: str) -> CudaPattern:
    return CudaPattern(rule, severity, re.compile(pattern), explanation)


PATTERNS = (
    _pattern(
        "library-call", "disclose",
        r"\b(?:cublas|cudnn|cusparse|cufft|cusolver|cutensor|nvjpeg|nccl)\w*\s*\(",
        "calls a library of NVIDIA's for the work",
    ),
    _pattern(
        "library-call", "disclose",
        r"\b(?:at|torch)::(?:(?:native|linalg|nn::functional|special)::)?(?!empty|zeros|ones|full|"
        r"tensor|from_blob|Tensor|kFloat|kHalf|kBFloat16|k[A-Z]|TensorOptions|device|dtype|Device|"
        r"ScalarType|IntArrayRef|OptionalDeviceGuard|cuda|stable|arange|scalar_tensor|NoGradGuard|"
        r"AutoDispatch|Library|optional|Scalar|SymInt|globalContext|CppFunction|PackedTensor|"
        r"GenericPackedTensor|RestrictPtrTraits|DefaultPtrTraits|opmath_type|acc_type|ceil_div)"
        r"(?=[a-z_]\w*\s*\()\w+",
        "calls ATen for the work",
    ),
    _pattern(
        "library-call", "disclose", r"\b(?:cub|thrust)::\w+",
        "uses CUB or Thrust for part of the work",
    ),
    _pattern(
        "other-stream", "suspect",
        r"\b(?:cudaStreamCreate\w*|cuStreamCreate\w*|getStreamFromPool|cudaStreamPerThread|"
        r"cudaStreamBeginCapture|cudaGraphLaunch)\b",
        "works on a stream of its own, which events on the current stream may not see",
    ),
    _pattern(
        "process", "suspect",
        r"\bstd::(?:thread|jthread|async)\b|"
        r"(?<![.>:\w])(?:pthread_create|fork|vfork|execv\w*|popen|system|clone)\s*\(",
        "starts threads or processes",
    ),
    _pattern(
        "reaches-out", "suspect",
        r"\b(?:dlsym|dlopen|mprotect|ptrace|process_vm_\w+|LD_PRELOAD|Py_\w+|PyObject_\w+|"
        r"PyRun_\w+|PyEval_\w+|cupti\w+)\s*[({]?",
        "reaches beyond the kernel, into libraries, memory or the interpreter",
    ),
    _pattern(
        "reads-reference", "suspect",
        r"(?<![.>:\w])(?:fopen|open)\s*\(|\bstd::ifstream\b|/proc/",
        "opens files",
    ),
    _pattern(
        "patched-measurement", "cheat",
        r"\bcuda(?:EventElapsedTime|EventRecord|DeviceSynchronize|StreamSynchronize|"
        r"EventSynchronize)\w*\s*\([^;{}]*\)\s*\{",
        "defines a function of the CUDA runtime that the judge measures with",
    ),
)  # fmt: skip


def without_comments(text: str) -> str:
    """`text` with comments blanked; line breaks stay."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def cuda_findings(text: str, first_line: int) -> list[Finding]:
    """Findings in CUDA C++ text whose first line is `first_line` of its file."""
    bare = without_comments(text)
    found = []
    for each in PATTERNS:
        for match in each.pattern.finditer(bare):
            line = first_line + bare.count("\n", 0, match.start())
            evidence = " ".join(match[0].split())
            found.append(Finding(each.rule, each.severity, line, evidence, each.explanation))
    return found
