"""A lock for what builds Python syntax trees, which some interpreters do in one thread only."""

import threading

PARSING = threading.Lock()
"""Held around `ast.parse`, `np.load` (which reads its header with `ast`) and imports of what makes
pydantic models with defaults from built-in types, where they are in a thread beside others.

CPython 3.11.7, among others, raises SystemError, "AST constructor recursion depth mismatch", when
two threads parse at the same time (python/cpython gh-106905).
"""
