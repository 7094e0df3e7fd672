"""Nothing that a file's name or content holds does anything to a terminal."""

import importlib
import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from kb.printable import one_line, printable

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\rkb: all is well\u202e"
REPOSITORY = Path(__file__).parents[2]


def on_terminal(*arguments: str, cwd: Path) -> str:
    """What a `kb` command writes to a terminal."""
    leader, follower = pty.openpty()
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, cwd=cwd,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "300"},
    )  # fmt: skip
    os.close(follower)
    said = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        said += part
    os.close(leader)
    process.wait(60)
    return said.decode("utf-8", "replace")


def assert_harmless(said: str) -> None:
    for sequence in ("\x1b]0;", "\x07", "\x1b[2J", "\x9b", "\rkb:", "\u202e"):
        assert sequence not in said, said


def test_controls_are_shown_and_text_stays() -> None:
    assert printable("a\tb\nc é 漢") == "a\tb\nc é 漢"
    assert printable("\x1b[2J\r\x9b\u202e\ud800") == "\\x1b[2J\\x0d\\x9b\\u202e\\ud800"
    assert one_line("a\r\n b\x07") == "a b\\x07"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    root.mkdir()
    for suffix in (".md", ".bin"):
        name = f"a{EVIL}{suffix}".encode().replace(b"/", b"")
        (root / os.fsdecode(name)).write_text(f"# Title {EVIL}\n\nWords {EVIL} about swizzling.\n")
    return root


def test_ingest_query_and_errors_write_no_sequence_of_a_file(hostile: Path, tmp_path: Path) -> None:
    index = ("--index", str(tmp_path / "index"))
    said = on_terminal(*index, "ingest", str(hostile), cwd=tmp_path)
    assert_harmless(said)
    assert "\\x1b]0;owned" in said  # the file that was skipped is named
    assert_harmless(on_terminal(*index, "query", "words about swizzling", cwd=tmp_path))
    assert_harmless(on_terminal(*index, "show", f"no-{EVIL}", cwd=tmp_path))
    assert_harmless(on_terminal(*index, "ingest", str(tmp_path / EVIL), cwd=tmp_path))


def test_a_message_is_clean_in_a_pipe_too(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "ingest", EVIL], capture_output=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1
    assert_harmless(done.stderr.decode())


def test_the_consoles_own_colours_stay() -> None:
    from rich.text import Text

    render = importlib.import_module("cli.render")

    written = io.StringIO()
    console = Console(file=written, force_terminal=True, color_system="standard")
    console.push_render_hook(render._Clean())
    console.print(Text(f"bold {EVIL}", style="bold"))
    said = written.getvalue()
    assert "\x1b[1m" in said
    assert_harmless(said)
