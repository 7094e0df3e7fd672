"""Leaves a process behind that detaches from its parent.

Seen: own.
"""

import os
import time

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(300)
        os._exit(0)
    return torch.zeros_like(x)
