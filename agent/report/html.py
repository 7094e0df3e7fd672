"""A report as one HTML page without scripts or external resources. All text is escaped."""

import re
from functools import cache
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer, PythonLexer

from agent.report.gather import Report
from agent.report.story import failure_reason
from agent.report.words import line, milliseconds, percent, visible

# Longer sources are shown plain: highlighting is there for reading, and megabytes are not read.
_MAX_HIGHLIGHTED: Final = 200_000
_LINK: Final = re.compile(r"(https?://[^\s,()<>\"']+)")


def render_html(report: Report) -> str:
    """The whole page."""
    figure = Markup(report.figure) if report.figure is not None else None  # noqa: S704 (ours, escaped)
    page = _environment().get_template("report.html.j2")
    return page.render(report=report, figure=figure) + "\n"


def highlight_source(source: str, suffix: str) -> Markup:
    """A kernel's source with classes for a style sheet."""
    source = visible(source).rstrip() + "\n"
    if len(source) > _MAX_HIGHLIGHTED:
        return escape(source)
    lexer = CudaLexer() if suffix == ".cu" else PythonLexer()
    return Markup(highlight(source, lexer, HtmlFormatter(nowrap=True)))  # noqa: S704 (Pygments escapes)


def link_citation(text: str) -> Markup:
    """A citation with its address as a link; only http and https are linked."""
    link = Markup('<a href="{0}" rel="noreferrer">{0}</a>')
    # Every second part is an address, since the pattern is a group.
    parts = enumerate(_LINK.split(line(text)))
    return Markup("").join(link.format(part) if i % 2 else escape(part) for i, part in parts)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("agent.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "line": line,
        "ms": milliseconds,
        "percent": percent,
        "coloured": highlight_source,
        "cited": link_citation,
        "reason": failure_reason,
    }
    return environment
