"""The README's snippets run, and ask the same question with the same answer."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from live import serving_here

README = (Path(__file__).parents[2] / "README.md").read_text()
ADDRESS = "http://127.0.0.1:8040"


def snippet(language, holding):
    """The one block of this language that holds these words."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    (found,) = [block for block in blocks if holding in block]
    return found


def run(command, text, url):
    assert ADDRESS in text
    done = subprocess.run(
        [*command, text.replace(ADDRESS, url)],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def corpus_server(tmp_path_factory, shipped_index):
    """A live server over the shipped corpus."""
    with serving_here(shipped_index, tmp_path_factory.mktemp("readme")) as server:
        yield server


@pytest.fixture(scope="module")
def ids(corpus_server):
    answer = json.loads(run(["bash", "-c"], snippet("sh", "curl"), corpus_server.url))
    assert answer["results"]
    return [result["id"] for result in answer["results"]]


@pytest.mark.parametrize("library", ["openai", "mcp"])
def test_every_client_in_the_readme_gets_what_curl_gets(corpus_server, ids, library):
    out = run(
        [sys.executable, "-c"], snippet("python", f"from {library} import"), corpus_server.url
    )
    assert [line.split()[0] for line in out.splitlines()] == ids


def test_agents_are_told_a_command_that_exists():
    configured = json.loads(snippet("json", "mcpServers"))["mcpServers"]["kernel-kb"]
    shell = snippet("sh", "claude mcp add").split(" -- ")[1].split()
    assert [configured["command"], *configured["args"]] == shell == ["kb", "mcp"]
    shown = subprocess.run(
        [sys.executable, "-c", "from cli import main; main()", "mcp", "--help"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert shown.returncode == 0
