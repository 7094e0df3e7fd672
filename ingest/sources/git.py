"""Fetch one revision of a git repository as an archive, without executing any of it.

No work tree is ever made: the commit's files are written by `git archive`, so no hook, filter (LFS)
or submodule can come into play, and the user's and the system's configuration are left out.
"""

import os
import shutil
import subprocess
import tempfile
import time
import tomllib
from pathlib import Path

from ingest.sources.archive import members
from ingest.sources.cache import GIT_ARCHIVE, Fetched, digest_of
from ingest.sources.licence import LICENCE_FILES, ReleaseMetadata, parse_metadata
from ingest.sources.packages import ASK_ABOVE, Fetcher
from ingest.sources.spec import Repository
from kb.errors import SourceError

_POLL_S = 0.2
_PASSED_ON = (
    "PATH",
    "TMPDIR",
    *(f"{name}_proxy" for name in ("http", "https", "all", "no")),
    *(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO")),
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "GIT_SSL_CAINFO",
)
"""Of the environment. Every other GIT_* variable could redirect git or make it run something."""

_ATTRIBUTES = "* -export-ignore -export-subst -filter -text -ident -working-tree-encoding\n"
"""All files of the commit as they are; info/attributes wins over what the repository says."""


def fetch_repository(repository: Repository, fetcher: Fetcher) -> Fetched:
    """The archive of a revision, fetched into the cache; a cached commit needs no network.

    Raises
    ------
    SourceError
        If git is missing, the repository or revision cannot be fetched, or the download is large
        and was not confirmed.
    """
    cache = fetcher.cache
    key = str(repository)
    if repository.pinned and (cached := cache.find(key)):
        return cached
    if shutil.which("git") is None:
        raise SourceError(f"{repository}: git is not installed")
    with cache.workspace() as place:
        store, archive = place / "repository", place / GIT_ARCHIVE
        git = _Git(store, repository, home=place)
        _fetch(git, repository, fetcher)
        commit = git.run("rev-parse", "--verify", "FETCH_HEAD^{commit}").strip()
        at_commit = f"{repository.location}@{commit}"
        if cached := cache.find(at_commit):
            return cached
        git.run("archive", "--format=tar", f"--output={archive}", commit)
        metadata = _read_metadata(archive)
        fetched = Fetched(
            location=repository.location,
            version=commit,
            sha256=digest_of(archive),
            filename=GIT_ARCHIVE,
            artefact="git",
            licence=metadata.licence,
            licence_text=metadata.licence_text,
            url=metadata.url or (repository.url if repository.url.startswith("https:") else None),
        )
        cache.store(archive, fetched, *{at_commit, key if repository.pinned else at_commit})
        return fetched


class _Git:
    """git on one bare repository, shut off from configuration."""

    def __init__(self, store: Path, repository: Repository, home: Path) -> None:
        self.repository = repository
        scheme = repository.url.partition(":")[0]
        self._environment = {
            **{name: os.environ[name] for name in _PASSED_ON if name in os.environ},
            "HOME": str(home),
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_SYSTEM": os.devnull,
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": scheme,
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "true",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }
        settings = {
            "core.hooksPath": os.devnull,
            "core.fsmonitor": "false",
            "core.symlinks": "false",
            "core.attributesFile": os.devnull,
            "credential.helper": "",
            "fetch.recurseSubmodules": "false",
            "gc.auto": "0",
            "http.followRedirects": "initial",
            "http.lowSpeedLimit": "1000",
            "http.lowSpeedTime": "60",
            "maintenance.auto": "false",
            "protocol.allow": "never",
            f"protocol.{scheme}.allow": "always",
            "submodule.recurse": "false",
            "transfer.bundleURI": "false",
            "transfer.fsckObjects": "true",
            # Names that old trees have and that only a checkout would suffer from.
            "fetch.fsck.zeroPaddedFilemode": "ignore",
        }
        self._command = ["git"]
        for name, value in settings.items():
            self._command += ["-c", f"{name}={value}"]
        self.store = store
        template = tempfile.mkdtemp(dir=home)
        self.run("init", "--quiet", "--bare", f"--template={template}", str(store), inside=False)
        (store / "info").mkdir(exist_ok=True)
        (store / "info" / "attributes").write_text(_ATTRIBUTES)

    def start(self, *arguments: str, inside: bool = True) -> "subprocess.Popen[str]":
        """Start git, with its output to be read."""
        where = [f"--git-dir={self.store}"] if inside else []
        return subprocess.Popen(
            [*self._command, *where, *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def run(self, *arguments: str, inside: bool = True) -> str:
        """Run git to its end and return what it prints."""
        process = self.start(*arguments, inside=inside)
        out, err = process.communicate()
        if process.returncode:
            raise self.error(err)
        return out

    def error(self, stderr: str) -> SourceError:
        """git's own reason, on one line, with what to do where that is known."""
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
        reason = (fatal or lines or ["no reason given"])[0].partition(": ")[2] or "no reason given"
        if "find remote ref" in stderr or "not our ref" in stderr:
            return SourceError(
                f"{self.repository.url} has no revision '{self.repository.revision}': give a tag, "
                "a branch or a full commit id"
            )
        return SourceError(f"{self.repository}: git failed: {reason}")


def _fetch(git: _Git, repository: Repository, fetcher: Fetcher) -> None:
    """Fetch the revision alone; git tells no size before, so the question comes on the way."""
    remote = repository.url.startswith("https:")
    process = git.start(
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-write-commit-graph",
        "--",
        repository.url,
        repository.revision,
    )
    confirmed = not remote
    try:
        while process.poll() is None:
            if not confirmed and (size := _size(git.store)) > ASK_ABOVE:
                confirmed = True
                fetcher.require(f"{repository} (its size so far)", size)
            time.sleep(_POLL_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    _, err = process.communicate()
    if process.returncode:
        raise git.error(err)


def _size(folder: Path) -> int:
    total = 0
    for file in folder.rglob("*"):
        try:
            total += file.stat().st_size
        except OSError:  # packs are renamed while git works
            continue
    return total


def _read_metadata(archive: Path) -> ReleaseMetadata:
    """The licence that pyproject.toml or the licence file at the top states."""
    project: dict[str, object] = {}
    licences: dict[str, bytes] = {}
    for member in members(archive, links_are_errors=False):
        if "/" in member.path:
            continue
        if member.path == "pyproject.toml":
            try:
                project = tomllib.loads(member.read().decode()).get("project", {})
            except (ValueError, RecursionError):
                continue
        elif member.path.upper().startswith(LICENCE_FILES):
            licences[member.path] = member.read()
    licence = project.get("license")
    if isinstance(licence, str):
        return parse_metadata(f"Metadata-Version: 2.4\nLicense-Expression: {licence}\n".encode())
    return parse_metadata(None, licences)
