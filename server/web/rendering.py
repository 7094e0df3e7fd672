"""Templates to responses: what all pages share, with the headers that confine them."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import HTMLResponse

import kb
from kb.architectures import describe_targets
from kb.profiles.values import quantity
from server.problems import RETRY_SECONDS, clean
from server.web import markup, words

# Nothing but this server's own style sheet and script: what is retrieved cannot run or call home.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "style-src 'self'",
        "script-src 'self'",
        "img-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    # Not "no-referrer": a browser would then send `Origin: null` with a form, which is refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # A page may need a token, so no shared cache may keep it, and it follows the index.
    "Cache-Control": "private, no-cache",
    "Vary": "Authorization",
}
# HTML allows none of these, and they would hide what stands around them.
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_HINTS = {
    404: "There is nothing at this address.",
    405: "This address does not accept this kind of request.",
}


def page(
    template: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Render a template. Everything in `values` is escaped unless it is `Markup` already."""
    html = _environment().get_template(template).render(**values)
    html = _CONTROLS.sub(_REPLACEMENT, clean(html))
    return HTMLResponse(html, status, {**_HEADERS, **(headers or {})})


def error_page(
    status: int, detail: str | None = None, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """An error as a page, with ways on from it."""
    extra = dict(headers or {})
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        extra.setdefault("Retry-After", str(RETRY_SECONDS))
    phrase = HTTPStatus(status).phrase
    detail = detail or _HINTS.get(status) or f"{phrase}."
    return page(
        "error.html",
        status,
        extra,
        heading=phrase,
        is_missing=status == HTTPStatus.NOT_FOUND,
        detail=detail,
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("server.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "markdown": markup.render_markdown,
        "with_code": markup.with_code,
        "anchor": markup.anchor,
        "web_url": markup.web_url,
        "segment": lambda value: quote(str(value), safe=""),
        "capitalized": words.capitalized,
        "breakable": words.breakable,
        "figures": words.figures,
        "with_unit": quantity,
        "targets": describe_targets,
    }
    environment.globals |= {
        "code_block": markup.code_block,
        "asset": _asset,
        "version": kb.__version__,
    }
    return environment


@cache
def _asset(name: str) -> str:
    """Address of a static file; it changes with the content, so that no old copy is used."""
    content = (Path(__file__).parent / "static" / name).read_bytes()
    return f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}"
