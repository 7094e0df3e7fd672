"""Run the server: a parent that holds the socket, and workers that it replaces when they die."""

import os
import shutil
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any

from uvicorn import Config
from uvicorn.supervisors.multiprocess import Multiprocess

from kb.errors import KbError
from kb.index.layout import IndexLayout
from server import metrics
from server.logs import log_config
from server.settings import Settings
from server.tokens import TokenFile

_LARGEST_BACKLOG = 2048


def serve(settings: Settings, application: str) -> None:
    """Serve until a signal. Returns when all workers have finished their requests.

    Parameters
    ----------
    settings
        Handed to the workers through the environment.
    application
        "module:function" that makes a worker's application.

    Raises
    ------
    KbError
        The address cannot be used, or other machines could connect without a token.
    """
    check_exposure(settings)
    run_dir = Path(tempfile.mkdtemp(prefix="kernel-kb-"))
    try:
        _serve(settings.model_copy(update={"run_dir": run_dir}), run_dir, application)
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)


def check_exposure(settings: Settings) -> None:
    """Refuse to be open to a network without tokens.

    Raises
    ------
    KbError
        The address is not loopback and there is no token, or what only admins may use is open and
        there is no admin token.
    """
    tokens = TokenFile(settings.tokens)
    if not settings.is_loopback and not tokens.records():
        raise KbError(
            f"refusing to listen on {settings.host} without tokens: create one with "
            "`kb token create --scope read`, or listen on 127.0.0.1"
        )
    opened = {"--allow-ingest": settings.allow_ingest, "--allow-evaluate": settings.allow_evaluate}
    for option in (name for name, is_open in opened.items() if is_open):
        if not any(record.is_admin for record in tokens.records()):
            raise KbError(
                f"{option} needs an admin token: create one with `kb token create --scope admin`"
            )


def _serve(settings: Settings, run_dir: Path, application: str) -> None:
    metrics.share(run_dir / "metrics")
    sockets = [_listen(settings.host, settings.port)]
    host, port = sockets[0].getsockname()[:2]
    os.environ |= settings.to_environment()
    # Workers compute several products at once; threads inside one would only wait for each other.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    config = Config(
        application,
        factory=True,
        host=settings.host,
        port=port,
        workers=settings.workers,
        log_config=log_config(),
        **connection_options(settings),
    )
    shown = f"[{host}]" if ":" in host else host
    print(
        f"kernel-kb serves {settings.index} on http://{shown}:{port}", file=sys.stderr, flush=True
    )
    if not IndexLayout(settings.index).pointer.exists():
        note = "there is no index yet: create one with `kb ingest`; it is served at once"
        print(note, file=sys.stderr, flush=True)
    Multiprocess(config, sockets=sockets).run()


def connection_options(settings: Settings) -> dict[str, Any]:
    """What uvicorn is told of connections, in whatever process it runs."""
    return {
        "http": "server.connections:GuardedProtocol",  # httptools' whatever else is installed
        "ws": "none",
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,  # rate limits and logs go by the peer's own address
        "timeout_keep_alive": settings.keep_alive_timeout,
        "timeout_graceful_shutdown": settings.shutdown_timeout,
        "backlog": _LARGEST_BACKLOG,
    }


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise KbError(
            f"cannot listen on {host}:{port}: {error.strerror or error}; choose another --port"
        ) from error
    listener.set_inheritable(True)
    return listener
