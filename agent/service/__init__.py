"""Judges kernels that others send: a queue on disk, one judge, answers with what to try next."""
