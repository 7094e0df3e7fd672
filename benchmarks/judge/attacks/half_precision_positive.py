"""The same on positive values, where the relative error of a product is smallest.

Seen: own.
"""

ATTACK = {"problem": "matmul_rand", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(a, b):
    return (a.half() @ b.half()).float()
