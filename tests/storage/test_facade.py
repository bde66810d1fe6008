from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

CHECKOUT = Path(__file__).parent.parent.parent
FACADES = {
    ".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__"): file
    for floor in ("storage", "actors", "api", "ci_daemon")
    for file in sorted((CHECKOUT / floor).rglob("*.py"))
    if "\n    __getattr__ = on_first_use(__name__)\n" in file.read_text()
}


def public(file: Path) -> set[str]:
    """Return the names that a façade imports for type checkers."""
    (declared,) = (each for each in ast.parse(file.read_text()).body if isinstance(each, ast.If))
    imports = [each for each in declared.body if isinstance(each, ast.ImportFrom)]
    return {name.asname or name.name for each in imports for name in each.names}


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Make a package of imports that are for type checkers; it has no file."""

    def make(imports: str) -> ModuleType:
        module = ModuleType("made")
        monkeypatch.setitem(sys.modules, "made", module)
        declaration = f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {imports}\n"
        exec(
            f"from storage.facade import on_first_use\n{declaration}else:\n    __getattr__ = on_first_use(__name__)\n",
            vars(module),
        )
        return module

    return make


@pytest.mark.parametrize("facade", FACADES)
def test_every_public_name_can_be_imported(facade: str):
    module = import_module(facade)
    assert [name for name in public(FACADES[facade]) if not hasattr(module, name)] == []


@pytest.mark.parametrize("facade", FACADES)
def test_no_submodule_hides_a_public_name(facade: str):
    module = import_module(facade)
    submodules = {file.stem for folder in getattr(module, "__path__", ()) for file in Path(folder).iterdir()}
    assert sorted(submodules & public(FACADES[facade])) == []


def test_a_name_is_imported_on_first_use(package: Callable[[str], ModuleType]):
    made = package("from json import dumps, loads as read")
    assert "dumps" not in vars(made)
    assert made.dumps({}) == "{}"
    assert "dumps" in vars(made)
    assert made.read("1") == 1


def test_an_undeclared_name_is_not_an_attribute(package: Callable[[str], ModuleType]):
    with pytest.raises(AttributeError, match="module 'made' has no attribute 'dump'"):
        _ = package("from json import dumps").dump
