"""The server under load: `python -m benchmarks.server.load`."""
