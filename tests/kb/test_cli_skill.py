"""`kb skill` puts what agents should know of kb where they look for it, in an empty project too."""

import pytest
from click.testing import CliRunner

from cli import cli


@pytest.mark.parametrize(
    ("agent", "place"),
    [
        ("claude", ".claude/skills/kernel-kb/SKILL.md"),
        ("cursor", ".cursor/rules/kernel-kb.mdc"),
        ("agents", "AGENTS.md"),
    ],
)
def test_an_empty_project_gets_the_file_that_the_agent_loads(tmp_path, agent, place):
    for _ in range(2):
        done = CliRunner().invoke(cli, ["skill", "--install", agent, "--into", str(tmp_path)])
        assert done.exit_code == 0, done.output
    text = (tmp_path / place).read_text()
    assert text.count("kb context --problem") == 1
    if agent != "agents":
        head = "name: kernel-kb\n" if agent == "claude" else ""
        assert text.startswith(f"---\n{head}description: ")
        assert ("\nalwaysApply: false\n---\n" in text) == (agent == "cursor")


def test_what_stands_in_agents_md_stays(tmp_path):
    (tmp_path / "AGENTS.md").write_text("# Ours\n\nTabs, please.\n")
    CliRunner().invoke(cli, ["skill", "--install", "agents", "--into", str(tmp_path)])
    text = (tmp_path / "AGENTS.md").read_text()
    assert text.startswith("# Ours\n\nTabs, please.\n")
    assert "## GPU kernels" in text


def test_without_an_agent_it_is_printed():
    assert "kb show SLUG --code" in CliRunner().invoke(cli, ["skill"]).output


def test_every_command_that_it_names_exists():
    text = CliRunner().invoke(cli, ["skill"]).output
    options = {
        "context": ["--problem", "--kernel", "--profile", "--max-tokens"],
        "show": ["--code"],
    }
    for command, flags in options.items():
        told = CliRunner().invoke(cli, [command, "--help"]).output
        for flag in flags:
            assert flag in text
            assert flag in told
    assert CliRunner().invoke(cli, ["evaluate", "--help"]).exit_code == 0
