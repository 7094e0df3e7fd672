"""Every setting of the server in one place: name, default, bounds and help.

Each is an option of `kb serve` (`max_k` is `--max-k`) and an environment variable (`KB_MAX_K`).
"""

import ipaddress
from pathlib import Path
from typing import Annotated, Any

from platformdirs import user_config_path, user_state_path
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from kb.context.models import MAX_BUDGET, MAX_KERNEL_CHARS
from kb.index.layout import default_index_dir
from kb.search.models import MAX_K, MAX_QUERY_CHARS

_APP = "kernel-kb"
Names = Annotated[tuple[str, ...], NoDecode]
"""Several names; in the environment separated by commas."""


class Settings(BaseSettings):
    """The settings of a server, fixed at its start."""

    model_config = SettingsConfigDict(env_prefix="KB_", extra="forbid", frozen=True)

    index: Path = Field(default_factory=default_index_dir, description="Index folder.")
    host: str = Field(
        default="127.0.0.1", description="Listen address; needs tokens if not loopback."
    )
    port: int = Field(
        default=8040, ge=0, le=65535, description="Port to listen on; 0 takes a free one."
    )
    workers: int = Field(default=1, ge=1, le=256, description="Worker processes, all on one index.")
    threads: int = Field(
        default=0,
        ge=0,
        le=256,
        description="Concurrent searches per worker; 0: one per CPU, at least 2.",
    )
    tokens: Path = Field(
        default_factory=lambda: user_config_path(_APP, appauthor=False) / "tokens.json",
        description="Token file.",
    )
    state_dir: Path = Field(
        default_factory=lambda: user_state_path(_APP, appauthor=False),
        description="Folder for jobs, uploads and shared counters.",
    )
    run_dir: Path | None = Field(
        default=None,
        description="Folder of the counters that workers share; by default a fresh one.",
    )
    allowed_hosts: Names = Field(
        default=(), description="Additional host names that the server accepts."
    )
    cors_origins: Names = Field(default=(), description="Origins whose pages may read responses.")
    allow_ingest: bool = Field(
        default=False, description="Accept uploads (POST /v1/ingest), admin only."
    )
    allow_evaluate: bool = Field(
        default=False,
        description="Judge kernels (POST /v1/evaluate), admin only. This runs their code in a "
        "sandbox: see docs/security.md first.",
    )
    evaluate_device: str | None = Field(
        default=None,
        pattern=r"^cuda:\d{1,3}$",
        description="GPU for evaluations, such as cuda:1. Default: the first.",
    )

    max_k: int = Field(default=MAX_K, ge=1, le=MAX_K, description="Maximum results per search.")
    max_budget: int = Field(
        default=MAX_BUDGET,
        ge=256,
        le=MAX_BUDGET,
        description="Maximum tokens or characters per context.",
    )
    max_query_chars: int = Field(
        default=MAX_QUERY_CHARS, ge=64, le=MAX_QUERY_CHARS, description="Maximum query characters."
    )
    max_kernel_chars: int = Field(
        default=MAX_KERNEL_CHARS,
        ge=64,
        le=MAX_KERNEL_CHARS,
        description="Maximum characters per kernel.",
    )
    max_body_bytes: int = Field(
        default=1_048_576, ge=1024, description="Maximum bytes per request body."
    )
    max_header_bytes: int = Field(
        default=32_768, ge=1024, description="Maximum bytes of request headers."
    )
    max_upload_bytes: int = Field(default=67_108_864, ge=1024, description="Maximum upload bytes.")
    max_upload_files: int = Field(default=2_000, ge=1, description="Maximum files per upload.")
    max_jobs: int = Field(default=20, ge=1, description="Maximum unfinished ingest jobs.")
    max_evaluations: int = Field(default=20, ge=1, description="Maximum unfinished evaluations.")
    evaluate_timeout: float = Field(
        default=900.0,
        gt=0,
        description="Seconds that one evaluation may take, including its wait for the GPU.",
    )
    evaluate_keep: float = Field(
        default=86_400.0, gt=0, description="Seconds to keep an evaluation's answer."
    )
    max_pending: int = Field(
        default=64, ge=1, description="Maximum requests per worker that wait for a thread."
    )
    max_connections: int = Field(
        default=500,
        ge=8,
        description="Maximum open connections per worker; beyond it, the idlest one is closed.",
    )
    header_timeout: float = Field(
        default=10.0, gt=0, description="Seconds to read a request's headers."
    )
    body_timeout: float = Field(default=20.0, gt=0, description="Seconds to read a request's body.")
    upload_timeout: float = Field(default=300.0, gt=0, description="Seconds to read an upload.")
    request_timeout: float = Field(default=30.0, gt=0, description="Seconds to answer a request.")
    keep_alive_timeout: int = Field(
        default=30, ge=1, description="Seconds to keep an idle connection."
    )
    shutdown_timeout: int = Field(
        default=30, ge=1, description="Seconds to finish requests at shutdown."
    )
    rate_per_second: float = Field(
        default=50.0, ge=0, description="Average requests per second per client; 0: no limit."
    )
    rate_burst: int = Field(default=200, ge=1, description="Burst of requests per client.")

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def to_environment(self) -> dict[str, str]:
        """The inverse of reading the environment, for worker processes."""
        return {
            f"KB_{name.upper()}": ",".join(value) if isinstance(value, tuple) else str(value)
            for name, value in self
            if value is not None
        }

    @field_validator("allowed_hosts", "cors_origins", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value
