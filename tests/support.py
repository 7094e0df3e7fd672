"""What several tests share: a small corpus, a quick embedder, and ways to run `kb`."""

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ingest.pipeline import Request, ingest
from ingest.report import IngestReport
from kb.index.layout import IndexLayout
from kb.index.reader import Generation, open_generation
from kb.index.tokens import tokenize
from kb.search.engine import Searcher
from kb.verify.cache import default_folder

KB = Path(sys.executable).with_name("kb")
# Results of `kb verify` outlive the run, unlike all else in the home folder of the tests, which
# is set after this module is loaded.
VERIFIED = default_folder()
SOURCE = '[{title: "A guide", url: "https://example.org/guide", licence: MIT}]'
SECTIONS = (
    "In short",
    "What it is",
    "When it helps",
    "When it does not",
    "How (Triton)",
    "How (CUDA)",
    "Pitfalls",
    "Before and after",
)


class HashingEmbedder:
    """Bags of hashed tokens: texts that share words are near, at no cost.

    Keeps the texts it embedded, so that a test can tell what was computed.
    """

    def __init__(self, name: str = "test:hashing", dimensions: int = 64) -> None:
        self.name = name
        self.dimensions = dimensions
        self.embedded: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> np.ndarray:
        self.embedded += texts
        vectors = [self.embed_query(text) for text in texts]
        return np.array(vectors, np.float32).reshape(-1, self.dimensions)

    def embed_query(self, text: str) -> np.ndarray:
        vector = np.full(self.dimensions, 0.01)
        for token in tokenize(text):
            digest = hashlib.blake2b(token.encode(), digest_size=8).digest()
            sign = 1.0 if digest[7] & 1 else -1.0
            vector[int.from_bytes(digest[:4]) % self.dimensions] += sign
        return (vector / np.linalg.norm(vector)).astype(np.float32)


def technique_text(slug: str, bottleneck: str, /, **changed: str) -> str:
    """A valid technique entry; `changed` replaces the YAML of single keys, '' drops one."""
    words = slug.replace("-", " ")
    keys = {
        "slug": slug,
        "title": f"All about {words}",
        "bottlenecks": f"[{bottleneck}]",
        "languages": "[triton, cuda]",
        "architectures": "[sm_80]",
        "aliases": f"[{words} trick]",
        "when": "[{metric: l2_hit_rate, op: '<', value: 60, because: Tiles are read again.}]",
        "avoid_when": "[{metric: l2_hit_rate, op: '>', value: 90, because: They stay in L2.}]",
        "effect": f"Fewer bytes are moved by {words}.",
        "risks": "[More registers are needed.]",
        "detect": "{triton: ['\\b" + slug.replace("-", "_") + "\\w*\\('], cuda: []}",
        "examples": "[]",
        "sources": SOURCE,
    } | changed
    lines = [f"{key}: {value}" for key, value in keys.items() if value]
    body = [
        f"## {title}\n\n{title}: this part speaks of {words}. It holds one more sentence.\n"
        for title in SECTIONS
    ]
    body[0] += f'\n```python\nassert "{words}"\n```\n'
    return "\n".join(["---", *lines, "---", "", *body])


def kernel_text(slug: str, techniques: str = "", op: str = "matmul", /, **changed: str) -> str:
    """A valid Triton kernel file."""
    keys = {
        "slug": slug,
        "title": f"Kernel {slug.replace('-', ' ')}",
        "op": op,
        "language": "triton",
        "techniques": f"[{techniques}]",
        "architectures": "[sm_80]",
        "dtypes": "[float32]",
        "sizes": "{check: [[8], [9]], bench: [1024]}",
        "sources": SOURCE,
    } | changed
    front = "\n".join(f"{key}: {value}" for key, value in keys.items() if value)
    name = slug.replace("-", "_")
    return f'''"""
---
{front}
---

What {slug} does: it multiplies tiles and stores them.
"""

import torch
import triton
import triton.language as tl

TUNABLES = {{"block": [64, 128]}}


@triton.jit
def {name}_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, x * 2.0, mask=mask)


def kernel_function(x, block=64):
    """Return twice x, as {slug}."""
    out = torch.empty_like(x)
    {name}_kernel[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out


def reference(x):
    return x * 2.0


def make_inputs(size, dtype, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, dtype=dtype, device=device, generator=generator)]
'''


class TinyCorpus:
    """A corpus folder with three techniques and three kernels, to be changed at will."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("corpus.yaml", "name: tiny\nversion: 1.2.3\nlicence: Apache-2.0\n")
        self.technique("pid-swizzling", "memory", examples="[swizzled]")
        self.technique("software-pipelining", "latency", architectures="[sm_90a]")
        self.technique("persistent-kernel", "utilization", languages="[triton]")
        self.kernel("plain")
        self.kernel("swizzled", "pid-swizzling", derived_from="plain")
        self.kernel("streams", "pid-swizzling, persistent-kernel", op="copy")

    def write(self, path: str, text: str | bytes) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        return target

    def technique(self, slug: str, bottleneck: str, /, **changed: str) -> Path:
        text = technique_text(slug, bottleneck, **changed)
        return self.write(f"techniques/{bottleneck}/{slug}.md", text)

    def kernel(self, slug: str, techniques: str = "", op: str = "matmul", **changed: str) -> Path:
        name = f"kernels/triton/{slug.replace('-', '_')}.py"
        return self.write(name, kernel_text(slug, techniques, op, **changed))


def function(name: str, stamp: str = "", *, lines: int = 6) -> str:
    """A Python function long enough to be a chunk that says what it is."""
    body = "\n".join(f"    value = value * {i} + {name}_offset({i})" for i in range(lines))
    return f'def {name}(value):\n    """Compute {name} {stamp}."""\n{body}\n    return value\n'


def add(
    root: Path,
    index: Path,
    embedder: Any = None,
    **options: Any,
) -> IngestReport:
    """Ingest one source with a quick embedder."""
    request_options = {k: options.pop(k) for k in ("name", "include", "exclude") if k in options}
    return ingest(
        [Request(root, **request_options)], index, embedder or HashingEmbedder(), **options
    )


@contextlib.contextmanager
def opened(index: Path) -> Iterator[Generation]:
    """The current generation, closed again."""
    generation = open_generation(index)
    try:
        yield generation
    finally:
        generation.close()


def searcher(index: Path, embedder: Any = None, **options: Any) -> Searcher:
    """A searcher over the current generation, as a server has it."""
    one = Searcher(open_generation(index), embedder or HashingEmbedder(), **options)
    one.nearest.prepare()
    # Abstention is calibrated for real embedders and real text.
    one._calibration = replace(one._calibration, threshold=0.0)
    return one


def current_folder(index: Path) -> Path:
    """Folder of the current generation."""
    name = IndexLayout(index).current()
    assert name is not None
    return IndexLayout(index).generation(name)


def tree_hash(folder: Path, *, times: bool = False) -> dict[str, Any]:
    """Path → digest (and modification time) of everything below a folder, but the lock file."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        if path.name == "writer.lock":
            continue
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        when = path.stat().st_mtime_ns if times else 0
        found[path.relative_to(folder).as_posix()] = (content, when)
    return found


class Done:
    """How a `kb` command ended."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    def json(self) -> Any:
        assert self.status == 0, self.err
        return json.loads(self.out)

    def error(self, status: int = 1) -> str:
        """The one line that says what is wrong; lines of progress may stand before it."""
        assert self.status == status, (self.status, self.out, self.err)
        lines = self.err.splitlines()
        progress = ("fetching ", "reading ", "embedding", "publishing")
        rest = [line for line in lines if not line.startswith(progress)]
        assert len(rest) == 1, self.err
        assert rest == lines[-1:], self.err
        assert rest[0].startswith("kb: "), self.err
        assert "Traceback" not in self.err
        assert "unexpected" not in self.err, self.err
        return rest[0]


def kb(*arguments: str | bytes | Path, **options: Any) -> Done:
    """Run the real `kb` command in a process of its own."""
    done = subprocess.run(
        [KB, *arguments], capture_output=True, text=True, timeout=240, check=False, **options
    )
    return Done(done.returncode, done.stdout, done.stderr)


def unprivileged() -> dict[str, Any]:
    """Options of a child process to which permissions apply, also where the tests run as root."""
    import ctypes

    libc = ctypes.CDLL(None)

    def drop() -> None:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            libc.prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    return {"preexec_fn": drop} if os.getuid() == 0 else {}


def read_only(folder: Path) -> None:
    """Take the right to write away from everything in a folder."""
    for path in (*folder.rglob("*"), folder):
        path.chmod(0o555 if path.is_dir() else 0o444)
