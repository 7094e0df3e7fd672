"""Never returns.

Seen: own.
"""

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    while True:
        pass
