"""Imports point one way, and each package avoids the libraries of others (`docs/architecture.md`)."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parent.parent.parent
MAY_IMPORT = {
    "storage": {"storage"},
    "actors/ir": {"actors.ir", "storage"},
    "actors/vms": {"actors.vms", "storage"},
    "actors": {"actors", "storage"},
    "api": {"api", "actors", "storage"},
    "ci_daemon": {"ci_daemon", "api", "actors", "storage"},
}
ROOMS = {
    "storage",
    "storage.facade",
    "storage.files",
    "actors",
    "actors.cleanup",
    "actors.coverage",
    "actors.forks",
    "actors.ir",
    "actors.ir.systems",
    "actors.mail",
    "actors.notifications",
    "actors.render",
    "actors.render.guest.language",
    "actors.repositories",
    "actors.schedules",
    "actors.scheduling",
    "actors.source_hosts",
    "actors.test_reports",
    "actors.vms",
    "actors.vms.host",
    "actors.vms.images",
    "actors.vms.incus",
    "actors.vms.qemu",
    "api",
    "api.doors",
    "api.operations",
    "api.state_looks",
}
"""The packages that higher floors may import, and the module that makes the names of packages."""

OURS = {"storage", "actors", "api", "ci_daemon"}
FORBIDDEN = {
    "actors/ir": {"asyncio", "os", "pathlib", "random", "socket", "subprocess", "tempfile", "threading", "time"},
    "api": {"apsw", "paramiko", "peewee", "playhouse", "sqlite3"},
    "storage": {"falcon", "paramiko", "pykka", "waitress"},
    "actors": {"apsw", "falcon", "peewee", "playhouse", "sqlite3", "waitress"},
}


@pytest.fixture(autouse=True, scope="module")
def _no_searches_for_garbage() -> Iterator[None]:
    """Trees are millions of objects, and none is garbage: to search them takes longer than to parse."""
    gc.disable()
    yield
    parsed.cache_clear()
    imports_in.cache_clear()
    gc.enable()


@cache
def parsed(file: Path) -> ast.Module:
    """Return the tree of a module, which several tests read."""
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(body: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield statements and those in them; a walk that visits expressions takes ten times longer."""
    for node in body:
        yield node
        for inner in ("body", "handlers", "cases", "orelse", "finalbody"):
            yield from statements(getattr(node, inner, ()))


@cache
def imports_in(file: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    """Return the statements of a module that import, which the rules below ask for ten times."""
    return tuple(node for node in statements(parsed(file).body) if isinstance(node, ast.Import | ast.ImportFrom))


@cache
def imported(file: Path) -> tuple[str, ...]:
    """Return what a module imports."""
    names: list[str] = []
    for node in imports_in(file):
        if isinstance(node, ast.Import):
            names += (alias.name for alias in node.names)
        else:
            above = file.relative_to(CHECKOUT).parts[: -node.level] if node.level else ()
            names.append(".".join([*above, *([node.module] if node.module else [])]))
    return tuple(names)


def files(package: str) -> list[Path]:
    found = sorted((CHECKOUT / package).rglob("*.py"))
    assert found
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_itself_and_those_below(package: str):
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {name}"
        for file in files(package)
        for name in imported(file)
        if name.split(".")[0] in OURS
        and not any(name == allowed or name.startswith(f"{allowed}.") for allowed in MAY_IMPORT[package])
    }
    assert not wrong


@pytest.mark.parametrize("floor", sorted(OURS))
def test_a_floor_imports_only_packages_of_the_floors_below(floor: str):
    """A package's `__init__` says what is public; a module inside it may change."""
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {name}"
        for file in files(floor)
        for name in imported(file)
        if name.split(".")[0] in OURS - {floor} and name not in ROOMS
    }
    assert not wrong


def declared(file: Path) -> set[str]:
    """Return the names that a module declares, or a package: its modules, and all that it imports."""
    source = file.read_text(encoding="utf-8")
    is_facade = file.name == "__init__.py" or "on_first_use(__name__)" in source
    names = {each.stem for each in file.parent.iterdir()} if file.name == "__init__.py" else set()
    for node in ast.walk(parsed(file)):
        match node:
            case ast.FunctionDef(name) | ast.ClassDef(name) | ast.Name(name, ast.Store()):
                names.add(name)
            case ast.ImportFrom(names=aliases) if is_facade:
                names |= {alias.asname or alias.name for alias in aliases}
    return names


def test_a_name_is_imported_from_where_it_is_declared():
    """A package lists its public names once, by importing them; another module's imports are its own."""
    names = {module: declared(file) for floor in sorted(OURS) for module, file in modules(floor).items()}
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {alias.name} from {node.module}"
        for floor in (*sorted(OURS), "tests", "benchmarks")
        for file in files(floor)
        if "data" not in file.parts
        for node in imports_in(file)
        if isinstance(node, ast.ImportFrom) and node.module in names
        for alias in node.names
        if alias.name not in names[node.module]
    }
    assert not wrong


@pytest.mark.parametrize("floor", sorted(OURS))
def test_what_is_imported_at_first_use_exists(floor: str):
    """A function that imports what it needs would fail at its first call, in production."""
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {alias.name} from {node.module}"
        for file in files(floor)
        for function in statements(parsed(file).body)
        if isinstance(function, ast.FunctionDef)
        for node in statements(function.body)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OURS
        for alias in node.names
        if not hasattr(import_module(str(node.module)), alias.name) and not find_spec(f"{node.module}.{alias.name}")
    }
    assert not wrong


@pytest.mark.parametrize("package", FORBIDDEN)
def test_a_package_imports_no_library_of_another(package: str):
    wrong = {
        f"{file.relative_to(CHECKOUT)} imports {name}"
        for file in files(package)
        for name in imported(file)
        if name.split(".")[0] in FORBIDDEN[package]
    }
    assert not wrong


def modules(package: str) -> dict[str, Path]:
    """Return the files of a package's modules, by their names."""
    parts = {file: file.relative_to(CHECKOUT).with_suffix("").parts for file in files(package)}
    return {".".join(names[:-1] if names[-1] == "__init__" else names): file for file, names in parts.items()}


def at_import(body: list[ast.stmt], *, for_types: bool) -> Iterator[str]:
    """Yield the modules and names that a module imports when it is imported, not later in a function."""
    for node in body:
        if isinstance(node, ast.If):
            if for_types or "TYPE_CHECKING" not in ast.unparse(node.test):
                yield from at_import(node.body, for_types=for_types)
            yield from at_import(node.orelse, for_types=for_types)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_top_level_and_type_checking_imports_are_separated():
    source = "import a\nif TYPE_CHECKING:\n    from b import c\ndef f():\n    import d\n"
    body = ast.parse(source).body
    assert list(at_import(body, for_types=False)) == ["a"]
    assert list(at_import(body, for_types=True)) == ["a", "b.c"]


@pytest.mark.parametrize(
    ("package", "for_types"), [(package, False) for package in sorted(OURS)] + [("actors", True), ("storage", True)]
)
def test_modules_do_not_import_each_other_in_a_circle(package: str, for_types: bool):
    known = modules(package)
    circles = TopologicalSorter[str]()
    for module, file in known.items():
        names = at_import(parsed(file).body, for_types=for_types)
        found = {name if name in known else name.rpartition(".")[0] for name in names}
        circles.add(module, *(found & known.keys() - {module}))
    circles.prepare()  # raises CycleError, whose message has the circle


def folders_of(known: dict[str, Path], *, for_types: bool) -> dict[str, set[str]]:
    """Return the folders that each folder imports; an `__init__` only lists what its package offers."""
    folders: dict[str, set[str]] = {}
    for module, file in known.items():
        folder = ".".join(file.relative_to(CHECKOUT).parent.parts)
        names = at_import(parsed(file).body, for_types=for_types)
        found = {name if name in known else name.rpartition(".")[0] for name in names} & known.keys()
        inside = {".".join(known[name].relative_to(CHECKOUT).parent.parts) for name in found - {module}}
        offers = f"{folder}." if file.name == "__init__.py" else "/"
        folders.setdefault(folder, set()).update(each for each in inside - {folder} if not each.startswith(offers))
    return folders


@pytest.mark.parametrize("for_types", [False, True])
def test_folders_of_vms_import_one_way(for_types: bool):
    """A provider builds on the host and the launcher: no two folders need each other."""
    imports = folders_of(modules("actors/vms"), for_types=for_types)
    TopologicalSorter(imports).prepare()  # raises CycleError, whose message has the circle
    assert imports["actors.vms.sandbox"] >= {"actors.vms", "actors.vms.host"}


@pytest.mark.parametrize("for_types", [False, True])
@pytest.mark.parametrize("floor", sorted(OURS))
def test_no_two_folders_import_each_other(floor: str, for_types: bool):
    """A folder and the folders in it are one room."""
    imports = folders_of(modules(floor), for_types=for_types)
    pairs = {(one, other) for one, others in imports.items() for other in others if one in imports.get(other, ())}
    found = {each for each in pairs if each[0] < each[1] and not each[1].startswith(f"{each[0]}.")}
    assert found == set()


def test_no_provider_of_vms_imports_another():
    providers = {"actors.vms.sandbox", "actors.vms.qemu", "actors.vms.incus"}
    imports = folders_of(modules("actors/vms"), for_types=True)
    assert [(name, other) for name in providers for other in imports[name] & providers] == []
