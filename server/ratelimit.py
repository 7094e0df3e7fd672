"""How often each client may ask, counted over all workers in one small SQLite file.

The generic cell rate algorithm (ITU-T I.371): per client one number, the time at which its
allowance is full again.
"""

import sqlite3
import threading
import time
from pathlib import Path

_TAKE = """
INSERT INTO client (key, full_at) VALUES (:key, :now + :step)
ON CONFLICT (key) DO UPDATE SET full_at = max(full_at, :now) + :step
WHERE max(full_at, :now) + :step <= :now + :window
RETURNING 1
"""
# Clients whose allowance is full need no row; they are deleted once in so many requests.
_SWEEP_EVERY = 5_000
# How long one worker waits for another's write, which takes microseconds.
_BUSY_MS = 200


class RateLimiter:
    """At most `burst` requests at once and `rate` a second over time, per client key."""

    def __init__(self, path: Path, rate: float, burst: int) -> None:
        self._step = 1 / rate if rate else 0.0
        self._window = self._step * burst
        self._count = 0
        self._lock = threading.Lock()
        self._connection = _open(path) if rate else None

    def wait(self, key: str) -> float:
        """Count one request. Returns 0 if it may go on, else the seconds until one may."""
        if self._connection is None:
            return 0.0
        # CLOCK_MONOTONIC counts alike in all processes of a machine.
        now = time.monotonic()
        values = {"key": key, "now": now, "step": self._step, "window": self._window}
        with self._lock:
            try:
                taken = self._connection.execute(_TAKE, values).fetchone()
                self._sweep(now)
                if taken:
                    return 0.0
                row = self._connection.execute(
                    "SELECT full_at FROM client WHERE key = ?", (key,)
                ).fetchone()
            except sqlite3.OperationalError:
                # Locked for longer than ever happens: answering is better than refusing all.
                return 0.0
        full_at = float(row[0]) if row else now
        return max(full_at + self._step - self._window - now, self._step)

    def _sweep(self, now: float) -> None:
        self._count += 1
        if self._count % _SWEEP_EVERY == 0 and self._connection is not None:
            self._connection.execute("DELETE FROM client WHERE full_at < ?", (now,))

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()


def _open(path: Path) -> sqlite3.Connection:
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
    # Counts may be lost with the machine, not with a process.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS client (key TEXT PRIMARY KEY, full_at REAL) WITHOUT ROWID"
    )
    return connection
