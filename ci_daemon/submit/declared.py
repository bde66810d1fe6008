"""The pipelines that a tree declares, found by parsing its files.

Code of a tree runs only in VMs, so the files are not imported.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from actors.render import is_yaml_name
from storage import slugify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from actors.render import DeclaredPipeline, Envelope

_DSL = frozenset({"harmont", "ci_daemon.language"})
_PACKAGE, _, _MODULE = "ci_daemon.language".partition(".")
_DECORATOR = "pipeline"


class SeveralPipelines(Exception):
    """A tree declares several pipelines, and none was chosen; the message lists them."""


def default_slug(tree: Path) -> str:
    """Return the default pipeline of a tree: the only one that it declares, else the folder's slug."""
    declared = declared_slugs(tree)
    return declared[0] if len(declared) == 1 else folder_slug(tree)


def folder_slug(tree: Path) -> str:
    """Return the slug of the name of a tree's folder."""
    return slugify(tree.resolve().name) or "main"


def select_declared(envelope: Envelope, tree: Path, pipeline: str | None) -> DeclaredPipeline:
    """Return a rendered tree's pipeline with a slug, else its default one.

    Raises SeveralPipelines and RenderFailed.
    """
    slug = pipeline or default_slug(tree)
    if pipeline is None and len(envelope.pipelines) > 1 and envelope.find(slug) is None:
        known = ", ".join(each.slug for each in envelope.pipelines)
        raise SeveralPipelines(f"{tree} has several pipelines, {known}: choose one with --pipeline")
    return envelope.select(slug)


def declared_slugs(tree: Path) -> list[str]:
    """Return the slugs of the pipelines in ``.hm``: first those of Python in the order of the DSL.

    Empty if a file is not valid, or computes a slug: only rendering finds that one.
    """
    slugs: list[str] = []
    try:
        yaml = sorted(each for each in (tree / ".hm").glob("*.*") if is_yaml_name(each.name))
        for file in sorted((tree / ".hm").glob("*.py")):
            slugs += [slug for slug, _ in declared_lines(ast.parse(file.read_bytes()))]
        slugs += [_slug_of_yaml(file) for file in yaml]
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return slugs


def _slug_of_yaml(file: Path) -> str:
    """Return the slug of a file. Raises OSError, and ValueError if it has mistakes."""
    from actors.ir import FileInvalid, PipelineFile  # noqa: PLC0415 - pydantic

    try:
        return PipelineFile.parse(file.name, file.read_text("utf-8")).slug
    except FileInvalid as error:
        raise ValueError(str(error)) from None


def declared_lines(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield the slugs of a file's pipelines, with their lines. Raises ValueError if a slug is computed."""
    names = set(_names(module))
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in function.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) in names:
                    yield _slug(decorator, function.name), decorator.lineno


def _names(module: ast.Module) -> Iterator[str]:
    """Yield the names under which a file imports the decorator of either language."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (f"{each.asname or each.name}.{_DECORATOR}" for each in node.names if each.name in _DSL)
        elif isinstance(node, ast.ImportFrom) and node.module in _DSL:
            yield from (each.asname or each.name for each in node.names if each.name == _DECORATOR)
        elif isinstance(node, ast.ImportFrom) and node.module == _PACKAGE:
            yield from (f"{each.asname or each.name}.{_DECORATOR}" for each in node.names if each.name == _MODULE)


def _slug(call: ast.Call, function: str) -> str:
    """Return the slug from a decorator: its first argument or ``slug``, else the function's name."""
    given = [*call.args[:1], *(each.value for each in call.keywords if each.arg in {"slug", None})]
    match given:
        case []:
            return function
        case [ast.Constant(value=str(slug))]:
            return slug
        case [ast.Constant(value=None)]:
            return function
        case _:
            message = "the slug is computed"
            raise ValueError(message)
