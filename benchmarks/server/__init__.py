"""The server under load: `python -m benchmarks.server.load`."""

import os

# As `kb serve` sets it for its workers; numpy reads it when it is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
