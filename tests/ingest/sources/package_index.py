"""A package index on 127.0.0.1 whose packages, hashes and failures a test decides."""

import hashlib
import io
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SOURCE = '''"""Row kernels."""

import triton
import triton.language as tl


@triton.jit
def zebra_norm_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Normalise one striped zebra row per program."""
    offsets = tl.arange(0, BLOCK)
    row = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, row / tl.sqrt(tl.sum(row * row)), mask=offsets < n)
'''

METADATA = """Metadata-Version: 2.4
Name: {name}
Version: {version}
{licence}
Project-URL: Homepage, https://example.org/{name}
"""


def metadata(name: str, version: str, licence: str) -> bytes:
    return METADATA.format(name=name, version=version, licence=licence).encode()


def wheel(
    name: str = "zebra",
    version: str = "1.0",
    files: Mapping[str, str | bytes] | None = None,
    licence: str = "License-Expression: MIT",
    extra: list[tuple[zipfile.ZipInfo, bytes]] | None = None,
) -> bytes:
    """A wheel's bytes; `extra` are members as they stand, for hostile ones."""
    made = io.BytesIO()
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in ({f"{name}/norm.py": SOURCE} if files is None else files).items():
            archive.writestr(path, content)
        archive.writestr(f"{info}/METADATA", metadata(name, version, licence))
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n")
        for member, content in extra or ():
            archive.writestr(member, content)
        archive.writestr(f"{info}/RECORD", "")
    return made.getvalue()


def sdist(
    name: str = "zebra",
    version: str = "1.0",
    files: Mapping[str, str | bytes] | None = None,
    licence: str = "License-Expression: MIT",
    extra: list[tuple[tarfile.TarInfo, bytes]] | None = None,
) -> bytes:
    """An sdist's bytes; `extra` are members as they stand, for hostile ones."""
    made = io.BytesIO()
    top = f"{name}-{version}"
    contents = {f"csrc/{name}.cu": CUDA} if files is None else dict(files)
    contents["PKG-INFO"] = metadata(name, version, licence)
    with tarfile.open(fileobj=made, mode="w:gz") as archive:
        for path, content in contents.items():
            data = content.encode() if isinstance(content, str) else content
            member = tarfile.TarInfo(f"{top}/{path}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        for member, data in extra or ():
            archive.addfile(member, io.BytesIO(data))
    return made.getvalue()


CUDA = """// Striped rows.
#include <cuda_runtime.h>

/// Adds one to every zebra.
__global__ void zebra_add_kernel(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1.0f;
}
"""


@dataclass
class File:
    content: bytes
    sha256: str | None
    yanked: str | None = None
    cut: bool = False
    """The connection ends half-way through the content."""
    stall: threading.Event | None = None
    """Half of the content, then nothing until it is set."""


@dataclass
class PackageIndex:
    """What is served, and what was asked for."""

    url: str = ""
    files: dict[str, dict[str, File]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def add(self, filename: str, content: bytes, sha256: str | None = "", **how: object) -> None:
        """Publish a file; `sha256` other than its own is a lie, None is silence."""
        name = filename.split("-", maxsplit=1)[0].replace("_", "-")
        own = hashlib.sha256(content).hexdigest()
        self.files.setdefault(name, {})[filename] = File(
            content, own if sha256 == "" else sha256, **how
        )

    def wheel(self, name: str = "zebra", version: str = "1.0", **how: object) -> None:
        served = {key: how.pop(key) for key in ("sha256", "yanked", "cut", "stall") if key in how}
        self.add(f"{name}-{version}-py3-none-any.whl", wheel(name, version, **how), **served)

    def sdist(self, name: str = "zebra", version: str = "1.0", **how: object) -> None:
        served = {key: how.pop(key) for key in ("sha256", "yanked", "cut", "stall") if key in how}
        self.add(f"{name}-{version}.tar.gz", sdist(name, version, **how), **served)

    def fetched(self) -> list[str]:
        return [path for path in self.requests if path.startswith("/files/")]

    def page(self, name: str) -> bytes | None:
        if name not in self.files:
            return None
        links = []
        for filename, file in self.files[name].items():
            fragment = f"#sha256={file.sha256}" if file.sha256 else ""
            yanked = f' data-yanked="{file.yanked}"' if file.yanked is not None else ""
            links.append(f'<a href="/files/{name}/{filename}{fragment}"{yanked}>{filename}</a>')
        return f"<!DOCTYPE html><html><body>{'<br>'.join(links)}</body></html>".encode()


@contextmanager
def serving() -> Iterator[PackageIndex]:
    """A package index at `url` (to be given as PIP_INDEX_URL) while the context lasts."""
    index = PackageIndex()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            index.requests.append(self.path)
            parts = self.path.strip("/").split("/")
            if parts[0] == "simple":
                self._answer(index.page(parts[1]) if len(parts) > 1 else None, "text/html")
                return
            file = index.files.get(parts[1], {}).get(parts[2])
            if file is None or not (file.cut or file.stall):
                self._answer(file.content if file else None, "application/octet-stream")
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(file.content)))
            self.end_headers()
            self.wfile.write(file.content[: len(file.content) // 2])
            self.wfile.flush()
            if file.stall:
                file.stall.wait(60)

        def _answer(self, content: bytes | None, kind: str) -> None:
            self.send_response(200 if content is not None else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            try:
                self.wfile.write(content or b"")
            except OSError:
                return  # a reader of the headers alone

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    index.url = f"http://127.0.0.1:{server.server_port}/simple"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
