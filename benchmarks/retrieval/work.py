"""Where packages, vectors and indexes of the benchmark are kept between runs."""

from pathlib import Path

from platformdirs import user_cache_path


def default_work() -> Path:
    """A folder in the user's cache; deleting it costs the time to make it again."""
    return user_cache_path("kernel-kb") / "benchmarks" / "retrieval"
