"""Returns a list that contains itself.

Seen: own.
"""

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    out = []
    out.append(out)
    return out
