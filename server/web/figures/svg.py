"""A drawing as SVG: shapes and words with classes, whose colours are the style sheet's."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

# User units. On a phone a drawing of this width is shown at 0.8 of it, elsewhere at 1.2.
WIDTH = 400


@dataclass(frozen=True, slots=True)
class Picture:
    """A drawing and what stands below it."""

    svg: Markup
    caption: str


@dataclass(slots=True)
class Drawing:
    """An SVG in the making; one unit is about a pixel.

    Positions are of the left upper corner. A `kind` is a class of the style sheet: `one` to `four`
    are series, `hot` is what matters, `idle` is what is lost, `quiet` is secondary.
    """

    name: str
    """Begins its ids: a page may hold several drawings."""
    title: str
    description: str
    """What is seen, for those who do not see it."""
    height: float = 0.0
    width: float = WIDTH
    _parts: list[Markup] = field(default_factory=list)

    def rect(self, x: float, y: float, w: float, h: float, kind: str = "cell") -> None:
        """A rectangle."""
        self._grow(y + h)
        part = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>')
        self._parts.append(part.format(kind, _n(x), _n(y), _n(max(w, 0)), _n(max(h, 0))))

    def text(self, x: float, y: float, words: object, kind: str = "", at: str = "start") -> None:
        """Words on a base line; `at` says where `x` is: `start`, `middle` or `end`."""
        self._grow(y + 4)
        part = Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>')
        self._parts.append(part.format(kind, _n(x), _n(y), at, words))

    def line(self, points: Sequence[tuple[float, float]], kind: str = "axis") -> None:
        """A line through points."""
        self._grow(max(y for _, y in points))
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in points)
        self._parts.append(Markup('<polyline class="{}" points="{}"/>').format(kind, path))

    def dot(self, x: float, y: float, kind: str = "hot") -> None:
        """A point of a plot."""
        self._grow(y + 5)
        part = Markup('<circle class="{}" cx="{}" cy="{}" r="4.5"/>')
        self._parts.append(part.format(kind, _n(x), _n(y)))

    def boxed(
        self, x: float, y: float, w: float, h: float, words: object, *, kind: str = "cell"
    ) -> None:
        """A rectangle with words in its middle."""
        self.rect(x, y, w, h, kind)
        self.text(x + w / 2, y + h / 2 + 4, words, f"in {kind}", "middle")

    def picture(self, caption: str) -> Picture:
        """The finished drawing."""
        whole = Markup(
            '<svg class="drawing" viewBox="0 0 {w} {h}" role="img" aria-labelledby="{id}-t {id}-d">'
            '<title id="{id}-t">{title}</title><desc id="{id}-d">{desc}</desc>{parts}</svg>'
        ).format(
            w=_n(self.width), h=_n(self.height + 2), id=f"fig-{self.name}",
            title=self.title, desc=self.description, parts=Markup("").join(self._parts),
        )  # fmt: skip
        return Picture(whole, caption)

    def _grow(self, bottom: float) -> None:
        self.height = max(self.height, bottom)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
