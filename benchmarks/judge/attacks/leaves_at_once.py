"""Ends the process in the middle of a call, with success.

Seen: gpu-mode/pygpubench, pull request 15 (exit handlers).
"""

import os

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    os._exit(0)
