"""A revision of a git repository becomes a source, its commit recorded, nothing of it run."""

import json
import os
import shutil
import subprocess

import pytest
from package_index import CUDA, SOURCE
from support import tree_hash

IDENTITY = {
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
MIT = """MIT License

Permission is hereby granted, free of charge, to any person obtaining a copy of this software, to
deal in it without restriction, subject to the following conditions: The above copyright notice
and this permission notice shall be included in all copies or substantial portions of the Software.
"""


class Repository:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments):
        return subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env={**os.environ, **IDENTITY},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def commit(self, **files):
        for path, content in files.items():
            place = self.folder / path.replace("__", "/").replace("_dot_", ".")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "change")
        return self.git("rev-parse", "HEAD")

    def at(self, revision):
        return f"git+file://{self.folder}@{revision}"


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "zebra")
    made.commit(LICENSE=MIT, src__norm_dot_py=SOURCE, src__add_dot_cu=CUDA)
    return made


def report(done):
    assert done.status == 0, done.err
    return json.loads(done.out)["sources"][0]


def test_the_commit_is_recorded_and_cited(repository, filled, cli):
    commit = repository.git("rev-parse", "HEAD")
    repository.git("tag", "-m", "one", "v1")
    repository.commit(src__norm_dot_py="x = 1\n")
    taken = report(cli("ingest", repository.at("v1"), "--json"))
    assert (taken["name"], taken["version"], taken["licence"]) == ("zebra", commit, "MIT")
    answer = json.loads(cli("query", "zebra_norm_kernel", "--json").out)["results"][0]
    assert answer["path"] == "src/norm.py"
    assert answer["source"]["version"] == commit
    assert answer["source"]["licence"] == "MIT"


def test_a_commit_is_fetched_once(repository, filled, cli):
    commit = repository.git("rev-parse", "HEAD")
    report(cli("ingest", repository.at(commit), "--json"))
    shutil.rmtree(repository.folder)
    again = json.loads(cli("ingest", repository.at(commit), "--json").out)
    assert (again["published"], again["embedded"]) == (False, 0)
    assert "git failed" in cli("ingest", repository.at("main")).error()


def test_nothing_of_a_repository_or_of_gits_configuration_is_run(
    repository, filled, cli, tmp_path, monkeypatch
):
    marker = tmp_path / "executed"
    hook = f"#!/bin/sh\ntouch {marker}\n"
    # As a user's and a repository's configuration would have it, LFS's filter among them.
    config = (
        f'[filter "lfs"]\n\tsmudge = touch {marker}\n\tprocess = touch {marker}\n'
        f"[core]\n\thooksPath = {tmp_path / 'hooks'}\n\tfsmonitor = touch {marker}\n"
    )
    (tmp_path / "hooks").mkdir()
    for name in ("post-checkout", "reference-transaction", "post-merge", "pre-auto-gc"):
        for place in (tmp_path / "hooks", repository.folder / ".git" / "hooks"):
            (place / name).write_text(hook)
            (place / name).chmod(0o755)
    marker.unlink(missing_ok=True)
    commit = repository.git("rev-parse", "HEAD")
    attributes = "* filter=lfs\nsrc/add.cu export-ignore\n*.py export-subst\n"
    (repository.folder / ".gitattributes").write_text(attributes)
    (repository.folder / ".gitmodules").write_text(
        '[submodule "x"]\n\tpath = x\n\turl = ext::touch ' + str(marker) + "\n"
    )
    repository.git("-c", "core.hooksPath=/dev/null", "add", "-A")
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{commit},x")
    repository.git("-c", "core.hooksPath=/dev/null", "commit", "-q", "-m", "hostile")
    home = tmp_path / "hostile-home"
    home.mkdir()
    (home / ".gitconfig").write_text(config)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_SSH_COMMAND", f"touch {marker}")
    marker.unlink(missing_ok=True)
    taken = report(cli("ingest", f"git+file://{repository.folder}@main", "--json"))
    assert taken["files"] == 2  # export-ignore does not hide a kernel
    assert not marker.exists()


def test_links_in_a_repository_are_passed_over(repository, filled, cli):
    (repository.folder / "src" / "passwd.py").symlink_to("/etc/passwd")
    repository.commit()
    assert report(cli("ingest", repository.at("main"), "--json"))["files"] == 2


@pytest.mark.parametrize(
    ("spec", "words", "status"),
    [
        ("git+file://{folder}@nowhere", "has no revision 'nowhere'", 1),
        ("git+file://{folder}-none@main", "git failed", 1),
        ("git+https://127.0.0.1:9/a/b@main", "git failed", 1),
        ("git+ssh://host/a@main", "is not a repository", 1),
        ("git+ext::touch /tmp/x@main", "is not a repository", 1),
        ("git+https://user:secret@host/a@main", "is not a repository", 1),
        ("git+file://{folder}@--upload-pack=touch", "is not a revision", 1),
        ("git+file://{folder}", "is not a repository", 1),
        ("pypi:", "is not a package", 1),
        ("pypi:a b", "is not a package", 1),
        ("pypi:zebra==new", "is not a package", 1),
        ("pypi:zebra>=1", "is not a package", 1),
    ],
)
def test_what_cannot_be_fetched_is_one_line(repository, filled, cli, spec, words, status):
    before = tree_hash(filled)
    error = cli("ingest", spec.format(folder=repository.folder)).error(status)
    assert words in error
    assert tree_hash(filled) == before
