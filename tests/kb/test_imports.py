"""What is loaded when, and what works without torch and without a network."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_kb_loads_neither_torch_nor_chromadb_nor_a_model():
    loaded = run("import sys, kb; print(sorted(sys.modules))")
    for name in ("torch", "chromadb", "onnxruntime", "pydantic"):
        assert f"'{name}'" not in loaded


@pytest.mark.parametrize("arguments", [["--help"], ["query", "tiles", "--json"]])
def test_help_and_a_query_load_neither_torch_nor_chromadb(filled, arguments):
    code = (
        "import sys\nfrom cli import main\n"
        "try:\n    sys.argv = ['kb', *sys.argv[1:]]\n    main()\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "for name in ('torch', 'chromadb', 'transformers', 'tree_sitter', 'fastapi', 'openai'):\n"
        "    assert name not in sys.modules, name\n"
    )
    assert run(code, *arguments)


OFFLINE = """
import importlib.abc, socket, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        # chromadb depends on kubernetes, 126 MB, for its distributed server only
        if name.split(".")[0] in {
            "torch", "triton", "sentence_transformers", "transformers", "kubernetes",
        }:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())

def refuse(*_, **__):
    raise AssertionError("the network was used")

for name in ("connect", "connect_ex", "sendto"):
    setattr(socket, "socket", type("socket", (socket.socket,), {name: refuse}))
socket.getaddrinfo = socket.create_connection = refuse

from cli import main
for arguments in (["ingest", sys.argv[1]], ["query", "pid swizzling", "--json"],
                  ["context", "pid swizzling", "--max-chars", "800"], ["doctor"], ["tree"]):
    sys.argv = ["kb", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (arguments, end.code)
print("torch" in sys.modules)
"""


def test_ingest_query_and_context_work_without_torch_and_without_a_network(corpus):
    out = run(OFFLINE, corpus.root)
    assert out.strip().endswith("False")
    assert "pid-swizzling" in out


def test_no_module_is_longer_than_four_hundred_lines():
    modules = [
        path
        for package in ("kb", "ingest", "server", "judge", "agent", "cli")
        for path in (ROOT / package).rglob("*.py")
    ]
    assert len(modules) > 60
    long = {
        str(p.relative_to(ROOT)): n for p in modules if (n := len(p.read_text().splitlines())) > 400
    }
    assert long == {}


def test_embedding_leaves_no_telemetry_in_the_home_folder(tmp_path):
    code = "from kb.embedders import load_embedder; load_embedder().embed_query('a kernel')"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("*"))
