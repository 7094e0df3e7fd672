"""Made-up costs of a kernel's configurations, with cliffs and noise, and a made-up clock."""

import math
import random
from collections.abc import Sequence

from agent.proposers.tune.halving import Ledger, Timing
from agent.proposers.tune.parameters import find_parameters
from agent.proposers.tune.space import Point, Space

# Two sizes, warps and stages: seven to fourteen values each.
TILES = """
import torch
import triton
import triton.language as tl


@triton.jit
def _product(a_ptr, b_ptr, c_ptr, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    column = tl.program_id(1) * BN + tl.arange(0, BN)
    sums = tl.zeros((BM, BN), tl.float32)
    for first in range(0, k, BK):
        inner = first + tl.arange(0, BK)
        a = tl.load(a_ptr + row[:, None] * k + inner[None, :], mask=(row < m)[:, None])
        b = tl.load(b_ptr + inner[:, None] * n + column[None, :], mask=(column < n)[None, :])
        sums = tl.dot(a, b, sums)
    tl.store(c_ptr + row[:, None] * n + column[None, :], sums)


def kernel_function(a, b):
    m, k = a.shape
    n = b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    _product[(triton.cdiv(m, 32), triton.cdiv(n, 32))](
        a, b, c, m, n, k, BM=32, BN=32, BK=64, num_warps=2
    )
    return c
"""


class Clock:
    """Seconds that pass when something is measured."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Surface:
    """A cost for every point: a bowl per parameter, an interaction, grain, and cliffs that fail.

    Grain of up to 30 % is fixed for each point, as bank conflicts or partial waves are; noise of
    2 % is new in every launch, and one launch in 20 is disturbed.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.seed = seed
        self.noise = random.Random(seed)
        draw = random.Random(-1 - seed)
        self.best_at = [draw.uniform(0, len(domain) - 1) for domain in space.domains]
        self.width = [draw.uniform(0.05, 0.25) for _ in space.domains]
        self.twist = draw.uniform(-0.1, 0.1)

    def cost(self, point: Point) -> float:
        """Milliseconds without noise; infinite for a point that does not run."""
        grain = random.Random(repr((self.seed, point)))
        if point != self.space.start and grain.random() < 0.08:
            return math.inf
        at = self.space.position(point)
        off = [place - best for place, best in zip(at, self.best_at, strict=True)]
        bowl = sum(width * gap * gap for width, gap in zip(self.width, off, strict=True))
        return math.exp(min(0.5 * bowl + self.twist * off[0] * off[1], 4.0)) * (
            1 + 0.3 * grain.random()
        )

    def optimum(self) -> float:
        """The least cost of all allowed points."""
        points: list[Point] = [()]
        for domain in self.space.domains:
            points = [(*point, value) for point in points for value in domain]
        points.sort(key=self.cost)  # whether a point is allowed takes longer to tell
        return next(self.cost(point) for point in points if self.space.is_allowed(point))


class Bench:
    """Measures a surface; compiling takes most of the time, as with real kernels."""

    compile_seconds = 0.1

    def __init__(self, surface: Surface, clock: Clock) -> None:
        self.surface = surface
        self.clock = clock
        self.compiled: set[Point] = set()
        self.asked: list[list[Point]] = []

    def __call__(self, points: Sequence[Point], launches: int, seconds: float) -> list[Timing]:
        self.asked.append(list(points))
        until = self.clock.now + seconds
        results = []
        for point in points:
            if self.clock.now > until:
                results.append(Timing(tried=False))
                continue
            self.clock.now += 0.005 + (0 if point in self.compiled else self.compile_seconds)
            self.compiled.add(point)
            cost = self.surface.cost(point)
            if cost == math.inf:
                results.append(Timing(error="out of resource: shared memory"))
                continue
            results.append(Timing([cost * self._disturbed() for _ in range(launches)]))
        return results

    def _disturbed(self) -> float:
        noise = self.surface.noise
        slow = 1.5 if noise.random() < 0.05 else 1.0
        return slow * (1 + abs(noise.gauss(0, 0.02)))


def made(seed: int, seconds: float) -> tuple[Space, Surface, Bench, Ledger[Point]]:
    """A space, a surface on it, and a ledger that ends after `seconds`."""
    space = Space(find_parameters(TILES))
    surface = Surface(space, seed)
    clock = Clock()
    bench = Bench(surface, clock)
    return space, surface, bench, Ledger(bench, deadline=seconds, clock=clock)
