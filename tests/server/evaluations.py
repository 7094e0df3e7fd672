"""What the tests of evaluations send, and how they follow it."""

import time
from typing import Any

import httpx2

from server.tokens import TokenFile

PROBLEM = """
import torch

ROWS = 4
COLS = 40


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)


def get_inputs():
    return [torch.rand(ROWS, COLS) - 0.5]


def get_init_inputs():
    return []
"""
RIGHT = """
import torch
import triton
import triton.language as tl


@triton.jit
def _relu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.maximum(x, 0.0), mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _relu[(triton.cdiv(x.numel(), 64),)](x, out, x.numel(), BLOCK=64)
    return out
"""
# Infinite where it should be zero: JSON has no such number.
WRONG = RIGHT.replace("tl.maximum(x, 0.0)", "tl.where(x > 0.0, x, float('inf'))")
CHEAT = """
import inspect

import torch


def kernel_function(x):
    for caller in inspect.stack():
        for value in caller.frame.f_locals.values():
            if isinstance(value, torch.nn.Module):
                return value(x)
    return torch.zeros_like(x)
"""
HANG = "def kernel_function(x):\n    while True:\n        pass\n"
# Returns as little, and leaves the processor to those that are waited for.
IDLE = "import time\n\n\ndef kernel_function(x):\n    time.sleep(600)\n"
# Refused as it is read, before torch is loaded to run it.
NO_PYTHON = "def kernel_function(x:\n"
# A judge that loads torch on a busy machine needs most of it.
PATIENCE = 150


def body(kernel: str = RIGHT, **changed: Any) -> dict[str, Any]:
    """A request that needs no GPU."""
    return {"problem": PROBLEM, "kernel": kernel, "interpret": True, "name": "relu"} | changed


def bearer(path: Any, scope: Any = "admin") -> dict[str, str]:
    """The header of a new token."""
    return {"Authorization": f"Bearer {TokenFile(path).create(scope)[1]}"}


class Evaluations:
    """The routes of `/v1/evaluate` of one server, for one token."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client

    def send(self, **changed: Any) -> dict[str, Any]:
        answer = self.client.post("/v1/evaluate", json=body(**changed))
        assert answer.status_code == 202, answer.text
        return answer.json()

    def read(self, job: dict[str, Any]) -> dict[str, Any]:
        answer = self.client.get(f"/v1/evaluate/{job['id']}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def until(self, job: dict[str, Any], *states: str) -> dict[str, Any]:
        """Wait for one of the states."""
        deadline = time.monotonic() + PATIENCE
        while (found := self.read(job))["state"] not in states:
            assert time.monotonic() < deadline, found
            assert found["state"] not in ("done", "failed"), found
            time.sleep(0.1)
        return found

    def outcome(self, job: dict[str, Any]) -> dict[str, Any]:
        """Wait until it is over."""
        return self.until(job, "done", "failed")

    def answer(self, **changed: Any) -> dict[str, Any]:
        """Send, and wait for the answer."""
        done = self.outcome(self.send(**changed))
        assert done["state"] == "done", done
        return done["answer"]
