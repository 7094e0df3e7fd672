"""Ingest over HTTP: uploads become jobs on disk, done by processes of their own."""
