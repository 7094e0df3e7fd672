"""The commands that read an index: query, context, tree, show, stats, sources."""

import difflib
import json
from collections.abc import Callable
from typing import Any, TypeVar

import click
from pydantic import BaseModel, ValidationError

from cli import Session
from cli.options import dtype_option, flag, value
from cli.profiles import (
    PROFILE_HELP,
    diagnosis,
    kernel_name_option,
    name_of,
    read_profile_text,
    read_text,
)
from kb.corpus.measured import ranked_records, technique_line
from kb.errors import InvalidInputError, KbError, NotFoundError
from kb.index.layout import default_index_dir
from kb.index.reader import Generation, open_generation
from kb.production import production_view
from kb.records import KINDS
from kb.refusals import refusal
from kb.views import (
    chunk_view,
    index_view,
    kernel_view,
    sources_view,
    technique_records,
    technique_view,
    tree_view,
)
from kb.vocabulary import taxonomy

# Production examples under a technique: the tree lists a few, the technique itself more.
_PRODUCTION_SHOWN = 3
_PRODUCTION_LISTED = 8
# Levels of the tree: bottleneck, technique, example, production code.
_DEEPEST = 4

_F = TypeVar("_F", bound=Callable[..., Any])
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, as from the HTTP API.")


def _print_json(value: BaseModel | dict[str, Any] | list[Any]) -> None:
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _many(name: str, help_text: str) -> Callable[[_F], _F]:
    return click.option(f"--{name}", f"{name}s", multiple=True, help=help_text)


@click.command()
@click.argument("text", nargs=-1, required=True)
@click.option("-k", default=5, metavar="N", help="Maximum number of results. Default: 5.")
@_many("technique", "Only results that show this technique, by slug (repeatable).")
@_many("bottleneck", "Only this bottleneck: memory, latency or utilization (repeatable).")
@_many("language", "Only this language: triton, cuda, python, cpp or markdown (repeatable).")
@click.option(
    "--architecture",
    "--gpu",
    "architectures",
    multiple=True,
    help="Only results that run on this target: sm_90a, or a GPU such as H100 (repeatable).",
)
@_many("source", "Only this source (repeatable).")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only this kind.")
@flag("--explain", "Show the parts that add up to each score.")
@click.option(
    "--long", "in_full", is_flag=True, help="Also show measurements and the beginning of each text."
)
@_JSON
@click.pass_obj
def query(
    session: Session,
    /,
    text: tuple[str, ...],
    k: int,
    *,
    explain: bool,
    in_full: bool,
    as_json: bool,
    **conditions: Any,
) -> None:
    """Search the knowledge base.

    TEXT says what the kernel does or what is slow, or is a name, an error message, or a metric with
    its value; it needs no quotes. Each result says what it is, what to do, how your numbers compare
    with its conditions, and where to find it. If nothing is relevant, kb says so.
    """
    from kb.gpus import device_of
    from kb.search.filtering import unknown_filters
    from kb.search.models import Filters, SearchRequest
    from kb.search.opening import open_searcher

    query_text = " ".join(text)
    try:
        conditions["architectures"] = [device_of(name) for name in conditions["architectures"]]
        filters = Filters(**{name: list(values) for name, values in conditions.items()})
        SearchRequest(query=query_text, k=k, filters=filters)
    except ValidationError as error:
        raise InvalidInputError(refusal(error)) from error
    searcher = open_searcher(session.index)
    response = searcher.search(query_text, k, filters, explain=explain)
    for sentence in unknown_filters(filters, searcher.generation):
        click.echo(f"kb: {sentence}", err=True)
    if as_json:
        _print_json(response)
        return
    from cli.render import console
    from cli.results import print_heading, print_results

    out = console()
    if response.abstained:
        out.print("Nothing relevant in the knowledge base.")
        print_heading(out, response)
        return
    print_results(out, response, searcher.generation, explain=explain, in_full=in_full)


@click.command()
@click.argument("text", nargs=-1)
@value("--problem", "FILE", "PyTorch module, which is read, never run; - reads standard input.")
@value("--kernel", "FILE", "Kernel to improve, which is read, never run; - reads standard input.")
@value("--profile", "FILE", PROFILE_HELP)
@kernel_name_option
@click.option("--gpu", help="Target GPU or architecture: omits whatever does not run on it.")
@dtype_option
@click.option(
    "--language", type=click.Choice(["triton", "cuda"]), help="Only examples in this language."
)
@value(
    "--max-tokens",
    "N",
    "Budget in tokens, at least 64. Default: 2000. Holds for each of the tokenizers "
    "all-MiniLM-L6-v2, o200k_base and cl100k_base.",
    int,
)
@value("--max-chars", "N", "Budget in characters, at least 256.", int)
@value("--max-examples", "N", "Maximum number of examples. Default: 2.", int, default=2)
@click.option("--exclude", multiple=True, help="Leave out this id or slug (repeatable).")
@_JSON
@click.pass_obj
def context(
    session: Session,
    /,
    text: tuple[str, ...],
    problem: str | None,
    kernel: str | None,
    profile: str | None,
    *,
    kernel_name: str | None,
    as_json: bool,
    exclude: tuple[str, ...],
    **options: Any,
) -> None:
    """Print techniques and examples for a task, within a budget.

    Give one or more of TEXT, --problem, --kernel and --profile. With a problem, the answer begins
    with its operators, its work (FLOPs and bytes) and its floor: the least time that a roofline
    allows. Each example is a complete file that runs.
    """
    from kb.context.build import build_context
    from kb.context.models import ContextRequest
    from kb.profiles.reading import ignored_words, read_profile
    from kb.search.opening import open_searcher

    if kernel_name is not None and profile is None:
        raise click.UsageError("--kernel-name needs --profile")
    parsed = (
        read_profile(read_profile_text(profile), name_of(profile), kernel_name) if profile else None
    )
    if parsed is not None and not parsed.metrics:
        reason = "; ".join(ignored_words(parsed.ignored)) or "no metric has a numeric value"
        raise InvalidInputError(f"{profile} has no known metric: {reason}")
    try:
        request = ContextRequest(
            query=" ".join(text) or None,
            problem=read_text(problem) if problem else None,
            kernel=read_text(kernel) if kernel else None,
            profile=dict(parsed.metrics) if parsed else None,
            exclude=list(exclude),
            **options,
        )
    except ValidationError as error:
        raise InvalidInputError(refusal(error)) from error
    response = build_context(request, open_searcher(session.index), diagnosis)
    if parsed is not None:
        response = response.model_copy(update={"ignored": [*parsed.ignored, *response.ignored]})
        for note in (*parsed.notes, *ignored_words(parsed.ignored)):
            click.echo(f"kb: {note}", err=True)
    if as_json:
        _print_json(response)
        return
    click.echo(response.text)


@click.command()
@click.option(
    "--depth",
    type=click.IntRange(1, _DEEPEST),
    default=_DEEPEST,
    metavar="N",
    help="1: bottlenecks; 2: techniques; 3: examples; 4: production code. Default: 4.",
)
@_JSON
@click.pass_obj
def tree(session: Session, depth: int, as_json: bool) -> None:
    """Show the hierarchy: bottleneck, technique, example."""
    generation = open_generation(session.index)
    data = tree_view(generation)
    if as_json:
        _print_json(data)
        return
    from rich.markup import escape
    from rich.tree import Tree

    from cli.render import console, production_lines

    root = Tree("[bold]kernel-kb[/bold]")
    for bottleneck in data["bottlenecks"]:
        branch = root.add(f"[bold]{bottleneck['bottleneck']}[/bold]")
        for technique in bottleneck["techniques"] if depth > 1 else ():
            leaf = branch.add(f"{technique['slug']} [dim]{escape(technique['title'])}[/dim]")
            for example in technique["examples"] if depth > 2 else ():
                leaf.add(f"[cyan]{example['slug']}[/cyan] [dim]{example['language']}[/dim]")
            production = production_view(generation, technique["slug"], _PRODUCTION_SHOWN)
            if production["count"] and depth > 3:
                inner = leaf.add(f"[dim]in production: {production['count']}[/dim]")
                for line in production_lines(production):
                    inner.add(line)
    console().print(root)


def _slugs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Slugs that a shell offers: of the index, or of the taxonomy where there is none."""
    del param
    folder = ctx.find_root().params.get("index") or default_index_dir()
    try:
        generation = open_generation(folder)
        names: list[str] = [*generation.techniques, *generation.kernels]
    except KbError:
        names = [slug for slugs in taxonomy().values() for slug in slugs]
    return sorted(slug for slug in names if slug.startswith(incomplete))


@click.command()
@click.argument("slug", shell_complete=_slugs)
@click.option("--code", "only_code", is_flag=True, help="Print only the code.")
@_JSON
@click.pass_obj
def show(session: Session, slug: str, only_code: bool, as_json: bool) -> None:
    """Show a technique or kernel by its slug, or a chunk by its id.

    If the output is a pipe or a file, a kernel is a file that runs: everything around its code is
    a comment. --code prints only the code.
    """
    generation = open_generation(session.index)
    data: dict[str, Any] | None
    if slug in generation.techniques:
        data = technique_view(generation, slug)
    elif slug in generation.kernels:
        data = kernel_view(generation, slug)
    elif (data := chunk_view(generation, slug)) is None:
        raise NotFoundError(_unknown_message(slug, generation))
    if as_json:
        _print_json(data)
        return
    if only_code:
        text = data["text"] if "text" in data else data.get("code", data.get("body"))
        click.echo(str(text).rstrip("\n"))
        return
    _show_text(slug, generation, data)


def _show_text(slug: str, generation: Generation, data: dict[str, Any]) -> None:
    from rich.markup import escape

    from cli import render
    from cli.code import print_code, print_markdown

    out = render.console()
    kernels = generation.kernel_entries
    if slug in generation.techniques:
        record = generation.techniques[slug]
        print_markdown(out, render.technique_head(record.entry) + "\n" + record.body.strip())
        own = technique_records(generation, slug)
        verified = render.verified_line(own) if own else technique_line(record.entry, kernels)
        out.print(f"\n[bold]Verified[/bold]\n{escape(verified)}")
        if data["evidence"]:
            notes = [f"{escape(n['title'])} [dim]{n['id']}[/dim]" for n in data["evidence"]]
            out.print("\n[bold]Verified in runs[/bold]\n" + "\n".join(notes))
        out.print("\n[bold]Examples[/bold]\n" + "\n".join(data["examples"] or ["none yet"]))
        production = production_view(generation, slug, _PRODUCTION_LISTED)
        if production["count"]:
            out.print(f"\n[bold]In production[/bold] ({production['count']})")
            for text in render.production_lines(production):
                out.print(text)
        out.print("\n[bold]Sources[/bold]")
        for line in render.source_lines(record.entry.sources):
            out.print(line, soft_wrap=True, markup=False)
    elif slug in generation.kernels:
        kernel = generation.kernels[slug]
        render.print_kernel(out, kernel, ranked_records(kernel.entry, kernels))
    else:
        lines = f"{data['start_line']}-{data['end_line']}"
        out.print(f"{data['source']['name']}: {data['path']}:{lines}", markup=False)
        print_code(out, data["text"], data["language"])


def _unknown_message(slug: str, generation: Generation) -> str:
    near = difflib.get_close_matches(slug, [*generation.techniques, *generation.kernels], n=3)
    hint = f"did you mean {', '.join(near)}?" if near else "see `kb tree`"
    return f"no technique, kernel or chunk is called '{slug}': {hint}"


@click.command()
@_JSON
@click.pass_obj
def stats(session: Session, as_json: bool) -> None:
    """Show what the index contains."""
    generation = open_generation(session.index)
    data = index_view(generation)
    if as_json:
        _print_json(data)
        return
    size = sum(p.stat().st_size for p in generation.folder.rglob("*") if p.is_file())
    data |= {"folder": str(generation.folder), "size": f"{size / 1e6:.1f} MB"}
    data["kinds"] = ", ".join(f"{count} {kind}" for kind, count in data["kinds"].items() if count)
    width = max(len(name) for name in data)
    for name, text in data.items():
        click.echo(f"{name:<{width}}  {text}")


@click.command()
@_JSON
@click.pass_obj
def sources(session: Session, as_json: bool) -> None:
    """List the ingested sources, with version and licence."""
    generation = open_generation(session.index)
    data = sources_view(generation, located=True)
    if as_json:
        _print_json(data)
        return
    from rich.markup import escape
    from rich.table import Table

    from cli.render import console

    table = Table(box=None, pad_edge=False)
    columns = ("version", "licence", "files", "chunks", "location")
    for title in ("source", *columns):
        table.add_column(title, overflow="fold")
    for row in data:
        table.add_row(*(escape(str(row[key] or "-")) for key in ("name", *columns)))
    console().print(table)
