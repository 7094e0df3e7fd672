"""Syntax-tree checks: what attacks show, and that honest kernels show none of it."""

import time
from pathlib import Path

import pytest

from judge.evaluate.scan import scan
from judge.evaluate.scan_cuda import cuda_findings
from judge.problem.syntax import ProblemFileError
from kb.context.models import MAX_KERNEL_CHARS

CORPUS = Path(__file__).parents[3] / "corpus" / "kernels"
KERNELS = sorted(path for path in CORPUS.rglob("*") if path.suffix in (".py", ".cu"))

HEAD = """
import torch
import triton
import triton.language as tl

@triton.jit
def _copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)

def _launch(x):
    y = torch.empty_like(x)
    _copy[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


def found(source):
    return {(each.rule, each.severity) for each in scan(source)}


def body(*lines):
    """A kernel_function with this body, after HEAD."""
    return HEAD + "\ndef kernel_function(x, y=None):\n" + "".join(f"    {line}\n" for line in lines)


CHEATS = {
    "assigns to torch.cuda.Event": "torch.cuda.Event = object",
    "assigns to a method of it": "torch.cuda.Event.elapsed_time = lambda self, end: 0.001",
    "through an alias": "E = torch.cuda.Event\nE.elapsed_time = lambda self, end: 0.001",
    "through from-import": "from torch.cuda import Event as E\nE.record = print",
    "setattr": "setattr(torch.cuda, 'synchronize', lambda *a: None)",
    "object.__setattr__": "object.__setattr__(torch, 'allclose', lambda *a, **k: True)",
    "a module's dict": "torch.__dict__['allclose'] = lambda *a, **k: True",
    "vars": "vars(torch)['allclose'] = lambda *a, **k: True",
    "dict.update": "torch.__dict__.update(allclose=lambda *a, **k: True)",
    "in a tuple": "torch.allclose, a = (lambda *a, **k: True), 1",
    "time": "import time\ntime.perf_counter = lambda: 0.0",
    "time under another name": "import time as t\nt.perf_counter = lambda: 0.0",
    "time through __import__": "__import__('time').perf_counter = lambda: 0.0",
    "time through importlib": "import importlib\nimportlib.import_module('time').time = lambda: 0",
    "builtins": "import builtins\nbuiltins.abs = lambda x: 0",
    "torch.testing": "torch.testing.assert_close = lambda *a, **k: None",
    "triton.testing": "triton.testing.do_bench = lambda *a, **k: 0.0",
    "Tensor's comparison": "torch.Tensor.__eq__ = lambda a, b: True",
    "the type of an input": "type(torch.ones(1)).__sub__ = lambda a, b: a",
    "a concatenated name": "setattr(torch, 'all' + 'close', lambda *a, **k: True)",
    "deleting": "del torch.cuda.Event",
    "mock": "from unittest import mock\nmock.patch('torch.allclose').start()",
    "a loaded module": "import sys\nsys.modules['time'] = None",
    "the loaded modules": "import sys\nfor m in sys.modules.values():\n    pass",
    "gc": "import gc\nreferences = [o for o in gc.get_objects()]",
    "gc renamed": "from gc import get_objects as g\ng()",
    "getattr on gc": "import gc\ngetattr(gc, 'get_' + 'objects')()",
    "frames": "import sys\nsys._getframe(1)",
    "inspect": "import inspect\ninspect.currentframe().f_back.f_locals",
    "a traceback's frame": "try:\n    1/0\nexcept Exception as e:\n"
    "    f = e.__traceback__.tb_frame",
    "subclasses": "torch.nn.Module.__subclasses__()",
    "another process": "maps = open('/proc/self/maps')",
    "the judge": "import judge.evaluate.judge",
    "the judge through importlib": "import importlib\n"
    "importlib.import_module('judge.worker.originals')",
    "the judge, put together": "import sys\nsys.modules['.'.join(('judge', 'worker'))].main",
    "loaded modules of another": "import logging\nlogging.sys.modules.get(name())",
    "a closure": "def look(function):\n    return function.__closure__[0].cell_contents",
    "getattr on a closure": "def look(cell):\n    return getattr(cell, 'cell_' + 'contents')",
    "host code as a GPU kernel": "@triton.jit\ndef _setup():\n    import gc\n"
    "    gc.get_objects()\n_setup.fn()",
    "a GPU kernel that reads files": "@triton.jit\ndef _look():\n"
    "    open('/proc/1/maps')\n_look.fn()",
    "dispatch": "from torch.utils._python_dispatch import TorchDispatchMode\n"
    "class Spy(TorchDispatchMode):\n    pass",
    "the interpreter": "import ctypes\nctypes.pythonapi.PyGILState_Check()",
    "what a function is": "scan = len\nscan.__code__ = None",
    "a type kept in a variable": "kind = type(torch.ones(1))\nkind.__sub__ = lambda a, b: a",
    "an event's clock": "event = make()\nevent.elapsed_time = lambda end: 0.0",
    "a clock by name": "setattr(make(), 'elapsed' + '_time', lambda *a: 0.0)",
    "the replies": "import pydantic\npydantic.BaseModel.model_dump_json = lambda self: ''",
    "a walk of the stack": "import traceback\nfor f, _ in traceback.walk_stack(None):\n    pass",
    "getattr on frames": "def look(frame):\n    return getattr(frame, 'f_' + 'locals')",
}  # fmt: skip


@pytest.mark.parametrize("source", CHEATS.values(), ids=CHEATS)
def test_what_no_honest_kernel_does_is_a_cheat_wherever_it_stands(source):
    assert "cheat" in {severity for _, severity in found(HEAD + source)}
    indented = [f"{line}" for line in source.splitlines()]
    assert "cheat" in {severity for _, severity in found(body(*indented, "return _launch(x)"))}


def test_cuda_text_in_a_python_file_is_read_at_its_lines():
    source = (
        "import torch\nfrom torch.utils.cpp_extension import load_inline\n"
        'SOURCE = r"""\n#include <cuda_runtime.h>\n// cublasSgemm( in a comment\n'
        "void f() { cudaStream_t s; cudaStreamCreate(&s); cublasSgemm(h); std::thread t(g); }\n"
        '"""\nmodule = load_inline("m", cpp_sources="", cuda_sources=SOURCE)\n'
        "def kernel_function(x):\n    return module.f(x)\n"
    )
    rules = {(each.rule, each.line) for each in scan(source)}
    assert rules == {("other-stream", 6), ("library-call", 6), ("process", 6)}


def test_a_cuda_file():
    text = "/* cudaStreamCreate */\n__global__ void k();\nauto y = at::matmul(a, b);\n"
    assert [(each.rule, each.line) for each in scan(text, "k.cu")] == [("library-call", 3)]
    timer = "cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) { *ms = 0; }"
    assert [each.severity for each in scan(timer, "k.cu")] == ["cheat"]
    assert scan("cudaEventRecord(start, stream); x = torch::empty_like(y);", "k.cu") == []
    assert [each.rule for each in scan("cudaSetDevice(1);", "k.cu")] == ["other-card"]


HONEST = {
    "caches descriptors by address": (
        "key = (x.data_ptr(), x.shape)",
        "if key not in DESCRIPTORS:",
        "    DESCRIPTORS[key] = TensorDescriptor.from_tensor(x, [16])",
        "return _launch(x)",
    ),
    "checks alignment": ("assert x.data_ptr() % 16 == 0", "return _launch(x)"),
    "makes contiguous": ("x = x.contiguous()", "return _launch(x)"),
    "casts as the model does": ("return _launch(x).to(x.dtype)",),
    "asks for the stream": ("s = torch.cuda.current_stream().cuda_stream", "return _launch(x)"),
    "sets an allocator": ("triton.set_allocator(lambda n, a, s: torch.empty(n))",
                          "return _launch(x)"),
    "pads": ("x = torch.nn.functional.pad(x, (0, 3))", "return _launch(x)"),
    "returns a view": ("return _launch(x).view(-1).reshape(x.shape).t()",),
    "raises clearly": ("try:", "    return _launch(x)", "except RuntimeError as e:",
                       "    raise ValueError('shape') from e"),
    "suppresses in tuning": ("import contextlib", "with contextlib.suppress(Exception):",
                             "    triton.testing.do_bench(lambda: _launch(x))",
                             "return _launch(x)"),
    "uses math": ("import math", "n = math.sqrt(x.numel()) + sum([1]) + max(1, 2)",
                  "return _launch(x)"),
    "guards the device": ("with torch.cuda.device(x.device):", "    return _launch(x)"),
    "takes a dtype by name": ("d = getattr(torch, str(x.dtype).split('.')[1])",
                              "return _launch(x)"),
    "names a set": ("seen = set()", "seen.add(1)", "return _launch(x)"),
    "asks what is loaded": ("import sys", "here = sys.modules[__name__]", "return _launch(x)"),
    "imports generated source": (
        "import importlib.util, sys",
        "spec = importlib.util.spec_from_file_location('generated', 'generated.py')",
        "sys.modules['generated'] = importlib.util.module_from_spec(spec)",
        "return _launch(x)",
    ),
    "counts on its own class": ("class Own:", "    def step(self):",
                                "        type(self).steps = 1", "return _launch(x)"),
    "locks": ("import threading", "with threading.Lock():", "    return _launch(x)"),
}  # fmt: skip


@pytest.mark.parametrize("lines", HONEST.values(), ids=HONEST)
def test_honest_idioms_pass_unmentioned(lines):
    assert found(body(*lines)) == set()


MODULE_LEVEL = {
    "autotune": "@triton.autotune(configs=[triton.Config({'B': 16})], key=['n'])\n@triton.jit\n"
    "def k(x, n, B: tl.constexpr):\n    tl.store(x, tl.sum(tl.load(x) @ tl.load(x)))\n",
    "heuristics": "@triton.heuristics({'E': lambda a: a['n'] % 16 == 0})\n@triton.jit\n"
    "def k(x, n, E: tl.constexpr):\n    y = tl.load(x).to(tl.float16)\n    tl.store(x, y.sum())\n",
    "a launcher cache": "import functools\n@functools.cache\ndef get(a):\n"
    "    return torch.cuda.get_device_properties(0).multi_processor_count\n",
    "ctypes": "import ctypes\nfrom kb import nvcc\nlib = nvcc.load('k.cu')\n"
    "lib.go.argtypes = [ctypes.c_void_p]\nlib.go.restype = ctypes.c_int\n",
    "compat shim": "from triton.language.extra import libdevice\n"
    "if not hasattr(tl, 'tanh'):\n    tanh = libdevice.tanh\n",
    "its own source": "from pathlib import Path\nHERE = Path(__file__).with_suffix('.cu')\n",
}


@pytest.mark.parametrize("extra", MODULE_LEVEL.values(), ids=MODULE_LEVEL)
def test_honest_module_level_code_passes_unmentioned(extra):
    assert found(extra.join(("import torch\nimport triton\nimport triton.language as tl\n",
                             body("return _launch(x)")))) == set()  # fmt: skip


def test_settings_and_shims_are_not_held_against_the_kernel():
    lines = (
        "torch.backends.cuda.matmul.allow_tf32 = True\n"
        "torch.set_float32_matmul_precision('high')\ntriton.knobs.autotuning.print = 1\n"
        "tl.tanh = print\nimport os\nos.environ['X'] = '1'\n"
    )
    assert found(HEAD + lines) == set()


# What a technique is about may be what a cheat does as well: it is told, and not held against it.
TOLD = {"smooth_steps_graph.cu": {"other-stream"}}


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_the_corpus_kernels_show_nothing_but_what_they_are_about(path):
    findings = scan(path.read_text(), path.name)
    assert {each.rule for each in findings} == TOLD.get(path.name, set())
    assert all(each.severity != "cheat" for each in findings)


def test_large_and_deep_files_are_checked_in_seconds_or_refused():
    lines = [f"a{i} = b{i}.data_ptr()\nc.x{i} = d{i} @ e\nkind{i}.y = 1" for i in range(1500)]
    source = body("if x:", *(f"    {each}" for line in lines for each in line.splitlines()))
    started = time.monotonic()
    assert len(scan(source)) <= 600
    assert time.monotonic() - started < 15
    with pytest.raises(ProblemFileError, match="nested too deeply"):
        scan(body("return x" + ".a" * 3000))


SLOW = {
    "comments without end": ("/* " * 60_000, "k.cu"),
    "calls without end": ("cudaEventRecord(" * 12_000, "k.cu"),
    "raw strings without end": ('R"(' * 60_000, "k.cu"),
    "strings in Python": ('"""#include ' + "/* " * 60_000 + '"""', "k.py"),
    "methods of one name": (
        "def kernel_function(x):\n"
        + "    x.m\n" * 8000
        + "class A:\n"
        + "    def m(self): pass\n" * 5000,
        "k.py",
    ),
    "large evidence": (
        "import torch\n" + "setattr(torch,'x'," * 60 + "[" + "1," * 90_000 + "]" + ")" * 60,
        "k.py",
    ),
    "a chain of assignments": (
        "def kernel_function(x):\n"
        + "".join(f" a{i + 1} = a{i}\n" for i in range(5000, 0, -1))
        + " a1 = x\n return a5001\n",
        "k.py",
    ),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("text", "name"), SLOW.values(), ids=SLOW)
def test_no_file_keeps_the_judge_busy(text, name):
    """Each of these took minutes or hours, in the judge's own process."""
    assert len(text) <= MAX_KERNEL_CHARS + 20_000
    scan(text, name)


def test_comments_are_what_the_compiler_takes_for_them():
    thread = "std::thread t(f);"
    for seen in (
        f'const char *a = "/*"; {thread} const char *b = "*/";',
        f"char a = '\"'; /* x */ {thread} char b = '\"';",
        f'auto a = R"x(/*)x"; {thread}',
        f'auto a = "\\"/*"; {thread}',
        f"int a = 1'000'000; {thread}",
    ):
        assert [each.rule for each in scan(seen, "k.cu")] == ["process"], seen
    for hidden in (f"// {thread}", f"/* {thread} */", f'/* " */ /* {thread} */', f"/* {thread}"):
        assert scan(hidden, "k.cu") == [], hidden


def test_what_is_no_python_is_refused_with_its_line():
    with pytest.raises(ProblemFileError, match=r"k\.py:2: not Python"):
        scan("x = 1\ndef f(:\n", "k.py")


@pytest.mark.parametrize(
    "hidden",
    [
        'const char *x = "a \\\n /*";\ncudaSetDevice(1);\nconst char *y = "*/";\n',
        'const char *x = "a ??/\n /*";\ncudaSetDevice(1);\nconst char *y = "*/";\n',
        'auto x = R"d(\n)\\\nd"/*)d";\ncudaSetDevice(1);\n// */\n',
        "cudaSet\\\nDevice\\  \n(1);\n",
    ],
)
def test_lines_that_a_compiler_joins_hide_no_code(hidden: str) -> None:
    assert [each.rule for each in cuda_findings(hidden, 1)] == ["other-card"]


def test_a_comment_that_goes_on_in_the_next_line_is_one() -> None:
    assert not cuda_findings("// calls \\\n cudaSetDevice(1);\nint x;\n", 1)
    assert [each.line for each in cuda_findings("// a \\\n b\n\n cudaSetDevice(1);\n", 7)] == [10]
