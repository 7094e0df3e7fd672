"""Learns the form of the worker's replies from the messages module and answers in its place.

Seen: own; gpu-mode/pygpubench, issue 23.
"""

import os
import socket
import sys

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def _sockets():
    for descriptor in range(3, 64):
        try:
            yield socket.socket(fileno=os.dup(descriptor))
        except OSError:
            continue


def _number():
    frame = sys._getframe()
    while frame is not None:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == "Call":
                return value.id
        frame = frame.f_back
    return 1


def kernel_function(x):
    messages = sys.modules.get("agent.worker.messages")
    if messages is None:
        return torch.zeros_like(x)
    spec = {"shape": list(x.shape), "dtype": "float32", "device": str(x.device)}
    reply = messages.Called(id=_number(), call=1, outputs=[spec], seconds=1e-6)
    for each in _sockets():
        try:
            each.sendall(reply.model_dump_json().encode() + b"\n")
        except OSError:
            continue
    return torch.zeros_like(x)
