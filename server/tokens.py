"""Access tokens: created once, shown once, kept as hashes in a file that only its owner reads."""

import hashlib
import json
import os
import secrets
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from filelock import FileLock

from kb.errors import IndexUnavailableError, KbError, NotFoundError

Scope = Literal["read", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "admin")
_PREFIX = "kb"
# 256 bits: such a token cannot be guessed, so one fast hash protects it as well as a slow one.
_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """What is kept of a token: everything but the token."""

    id: str
    name: str
    scope: Scope
    sha256: str
    created: str

    @property
    def is_admin(self) -> bool:
        """Whether the token may do everything."""
        return self.scope == "admin"


class TokenFile:
    """The tokens of a server, read anew whenever the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fingerprint: tuple[int, ...] | None = None
        self._records: dict[str, TokenRecord] = {}

    def exists(self) -> bool:
        """Whether any token was ever created: then every request needs one."""
        return self._path.exists()

    def records(self) -> list[TokenRecord]:
        """All tokens, the oldest first.

        Raises
        ------
        IndexUnavailableError
            The file cannot be read, is open to others, or is malformed.
        """
        self._refresh()
        return list(self._records.values())

    def find(self, token: str) -> TokenRecord | None:
        """The record of a token, or None. The hash is looked up, so timing tells nothing."""
        self._refresh()
        return self._records.get(_digest(token))

    def create(self, scope: Scope, name: str = "") -> tuple[TokenRecord, str]:
        """Add a token; returns its record and the token itself, which is kept nowhere."""
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        identity = secrets.token_hex(4)
        token = f"{_PREFIX}_{scope}_{secret}"
        created = datetime.now(UTC).isoformat(timespec="seconds")
        record = TokenRecord(identity, name or identity, scope, _digest(token), created)
        with self._write_lock():
            self._write([*self.records(), record])
        return record, token

    def revoke(self, name: str) -> list[TokenRecord]:
        """Remove the tokens with this id or name; running servers refuse them at once.

        Raises
        ------
        NotFoundError
            No token has it.
        """
        with self._write_lock():
            records = self.records()
            revoked = [record for record in records if name in (record.id, record.name)]
            if not revoked:
                raise NotFoundError(f"no token has the id or name '{name}': see `kb token list`")
            self._write([record for record in records if record not in revoked])
        return revoked

    def _write_lock(self) -> FileLock:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(f"{self._path}.lock", timeout=10)

    def _refresh(self) -> None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            self._fingerprint, self._records = None, {}
            return
        except OSError as error:
            raise IndexUnavailableError(f"cannot read {self._path}: {error.strerror}") from error
        # at each use: neither changes what the file holds, nor when it was written
        if status.st_mode & 0o077:
            raise IndexUnavailableError(
                f"{self._path} is open to other users: run `chmod 600 {self._path}`"
            )
        if status.st_uid not in (os.geteuid(), 0):
            raise IndexUnavailableError(
                f"{self._path} belongs to another user, who can change it: create new tokens in "
                "a file of your own"
            )
        fingerprint = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
        if fingerprint == self._fingerprint:
            return
        try:
            data = json.loads(self._path.read_text(encoding="utf-8"))
            records = [TokenRecord(**token) for token in data["tokens"]]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise IndexUnavailableError(
                f"{self._path} is not a token file: restore it, or delete it and create new tokens"
            ) from error
        self._records = {record.sha256: record for record in records}
        self._fingerprint = fingerprint

    def _write(self, records: list[TokenRecord]) -> None:
        text = json.dumps({"tokens": [asdict(record) for record in records]}, indent=1)
        # made with mode 0600, then moved into place: never open to others, never half-written
        fd, name = tempfile.mkstemp(dir=self._path.parent, prefix=self._path.name)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._path)
        except OSError as error:
            Path(name).unlink(missing_ok=True)
            raise KbError(f"cannot write {self._path}: {error.strerror}") from error


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
