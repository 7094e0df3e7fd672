"""Markdown and code as safe HTML, whoever wrote them: no tag, script or odd link passes."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name

# What a fence or a chunk may be written in → Pygments' name. A closed list: any other name is shown
# plain instead of loading one of Pygments' hundreds of lexers on the word of retrieved text.
_LEXERS = {
    "python": "python", "py": "python", "triton": "python",
    "cuda": "cuda", "cpp": "cpp", "c++": "cpp", "c": "c",
    "bash": "bash", "sh": "bash", "shell": "bash", "console": "console",
    "json": "json", "yaml": "yaml", "toml": "toml",
}  # fmt: skip
# Characters. Longer text is shown plain: highlighting takes about 0.1 s at this length.
_MAX_HIGHLIGHTED = 100_000
_NOT_IN_ANCHORS = re.compile(r"[^a-z0-9]+")
_DEEPEST_HEADING = 6
_TABLE = '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>\n'


def web_url(url: str | None) -> str | None:
    """The address if it leads to the web, else None: `javascript:` and the like are no links."""
    return url if url and re.match(r"https?://[^\s/]", url, re.IGNORECASE) else None


def with_code(text: str) -> Markup:
    """One plain line; what stands between two backticks is code, and nothing else is markup."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one has no partner
        return escape(text)
    pieces = (
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
    return Markup("").join(pieces)


def code_block(code: str, language: str, label: str = "Code") -> Markup:
    """Code that scrolls inside itself, with a button that a script shows and serves."""
    return Markup(
        '<div class="code"><pre tabindex="0" role="group" aria-label="{}"><code>{}</code></pre>'
        '<button type="button" class="copy" hidden>Copy</button></div>'
    ).format(label, highlighted(code, language))


def highlighted(code: str, language: str) -> Markup:
    """Code with a class on every token, exactly as it is otherwise."""
    name = _LEXERS.get(language.lower())
    if name is None or len(code) > _MAX_HIGHLIGHTED:
        return escape(code)
    # `highlight` gives spans whose content Pygments escapes; a last newline is its own addition.
    html = highlight(code, _lexer(name), HtmlFormatter(nowrap=True, classprefix="t-"))
    return Markup(html if code.endswith("\n") else html.removesuffix("\n"))  # noqa: S704


def anchor(heading: str) -> str:
    """The id of a section's heading."""
    return "s-" + _NOT_IN_ANCHORS.sub("-", heading.lower()).strip("-")


def first_section(text: str) -> tuple[str, str]:
    """Markdown up to its second heading of level 2, and the rest of it."""
    starts = [
        token.map[0]
        for token in _parser().parse(text)
        if token.type == "heading_open" and token.tag == "h2" and token.map
    ]
    if len(starts) < 2:
        return text, ""
    lines = text.split("\n")
    return "\n".join(lines[: starts[1]]), "\n".join(lines[starts[1] :])


def render_markdown(
    text: str,
    below: int | None = 1,
    *,
    anchors: bool = False,
    entries: Mapping[str, str] | None = None,
) -> Markup:
    """Markdown as HTML.

    Parameters
    ----------
    text
        Markdown. HTML in it is shown as text, images are not loaded, links lead to the web or are
        no links.
    below
        Level of the page's heading that the text stands under: its own headings follow without a
        gap. None makes them bold lines.
    anchors
        Whether headings get ids, for text that has the page to itself.
    entries
        Name → address on this server: such a name, written as code, becomes a link.
    """
    parser = _parser()
    tokens = parser.parse(text)
    level = below or 0
    for position, token in enumerate(tokens):
        if token.type == "heading_open":
            if below is None:
                token.tag = "p"
                token.attrSet("class", "heading")
            else:
                target = min(int(token.tag[1:]) + below - 1, level + 1, _DEEPEST_HEADING)
                level = max(target, below + 1)
                token.tag = f"h{level}"
            if anchors:
                token.attrSet("id", anchor(tokens[position + 1].content))
            tokens[position + 2].tag = token.tag
    # The renderer escapes all text and the link filter below checks all addresses.
    env = {"entries": entries or {}}
    return Markup(parser.renderer.render(tokens, parser.options, env))  # noqa: S704


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:
        return web_url(url) is not None


@cache
def _parser() -> _Parser:
    parser = _Parser("commonmark", {"html": False})
    parser.enable("table").disable("image")
    parser.add_render_rule("fence", _fence)
    parser.add_render_rule("code_block", _fence)
    parser.add_render_rule("link_open", _link)
    parser.add_render_rule("code_inline", _code)
    parser.add_render_rule("th_open", _cell)
    parser.add_render_rule("td_open", _cell)
    parser.add_render_rule("table_open", lambda *_: _TABLE)
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    return parser


def _fence(_self: RendererHTML, tokens: Sequence[Token], index: int, *_: Any) -> str:
    token = tokens[index]
    language = (token.info.split() or [""])[0]
    return code_block(token.content.removesuffix("\n"), language)


def _link(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    if token.attrGet("href"):
        token.attrSet("rel", "noopener noreferrer nofollow")
    else:  # the link filter is not asked about an empty address, which would lead to this page
        token.attrs = {}
    return self.renderToken(tokens, index, options, env)


def _code(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    html = self.code_inline(tokens, index, options, env)
    href = env.get("entries", {}).get(tokens[index].content)
    depth = sum(token.nesting for token in tokens[:index] if token.type.startswith("link_"))
    if href is None or depth > 0:  # links do not nest
        return html
    return str(Markup('<a href="{}">{}</a>').format(href, Markup(html)))  # noqa: S704


def _cell(self: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    # Alignment would come as a style attribute, which the pages' policy forbids.
    token.attrs = {"scope": "col"} if token.tag == "th" else {}
    return self.renderToken(tokens, index, options, env)


@cache
def _lexer(name: str) -> Lexer:
    return get_lexer_by_name(name, stripnl=False)
