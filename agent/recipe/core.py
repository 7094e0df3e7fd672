"""A part of a graph that one kernel can take over."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Core:
    """A part of the graph that one kernel takes over."""

    op: str
    """Operator family, as kernels of the knowledge base name it."""
    nodes: frozenset[str]
    """Values that it uses up or computes."""
    arguments: dict[str, str]
    """Parameter of the kernel → expression; `{x}` stands for the value x of the graph."""
    results: dict[str, str]
    """Value of the graph → expression of the kernel's results; `{r}` is what the kernel returned
    (`{r0}`, `{r1}` where it returns several)."""
    optional: frozenset[str] = frozenset()
    """Arguments that a kernel may lack."""
    words: frozenset[str] = frozenset()
    """Functions that the kernel's reference has to call, beyond the family's own."""
    copies: str = ""
    """What is copied to bring operands into the kernel's layout; empty: nothing."""
    bias: str = ""
    """Value that is yet to be added to the result."""
    returns: int = 1
    """How many tensors the kernel returns."""
    reads: frozenset[str] = field(default_factory=frozenset)
    """Values of the graph that the arguments need."""
