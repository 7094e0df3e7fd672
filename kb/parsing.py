"""A lock for what builds Python syntax trees, which some interpreters do in one thread only."""

import threading

PARSING = threading.Lock()
"""Held around `ast.parse` and `np.load` (which reads its header with `ast`).

CPython 3.11.7, among others, raises SystemError, "AST constructor recursion depth mismatch", when
two threads parse at the same time (python/cpython gh-106905).
"""
