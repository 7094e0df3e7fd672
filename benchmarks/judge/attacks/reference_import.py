"""Imports the problem from the project's own packages.

Seen: own.
"""

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong", "library"]}


def kernel_function(x):
    from benchmarks.judge.problems.softmax import Model

    return Model()(x)
