from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from storage.facade import on_first_use

CHECKOUT = Path(__file__).parent.parent.parent
FACADES = [
    ".".join(file.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")
    for floor in ("storage", "actors", "api", "ci_daemon")
    for file in sorted((CHECKOUT / floor).rglob("*.py"))
    if "\n    __getattr__ = on_first_use(__name__)\n" in file.read_text()
]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """Make a module from its text."""

    def make(text: str) -> ModuleType:
        module = ModuleType("made")
        module.__file__ = str(tmp_path / "made.py")
        Path(module.__file__).write_text(text)
        monkeypatch.setitem(sys.modules, "made", module)
        module.__getattr__ = on_first_use("made")  # type: ignore[method-assign]
        return module

    return make


@pytest.mark.parametrize("facade", FACADES)
def test_every_public_name_can_be_imported(facade: str):
    module = import_module(facade)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


@pytest.mark.parametrize("facade", FACADES)
def test_no_submodule_hides_a_public_name(facade: str):
    module = import_module(facade)
    submodules = {file.stem for folder in getattr(module, "__path__", ()) for file in Path(folder).iterdir()}
    assert sorted(submodules & set(module.__all__)) == []


def test_a_name_is_imported_on_first_use(package: Callable[[str], ModuleType]):
    made = package("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from json import dumps, loads as read\n")
    assert "dumps" not in vars(made)
    assert made.dumps({}) == "{}"
    assert "dumps" in vars(made)
    assert made.read("1") == 1
    assert made.__all__ == ["dumps", "read"]


def test_an_undeclared_name_is_not_an_attribute(package: Callable[[str], ModuleType]):
    with pytest.raises(AttributeError, match="module 'made' has no attribute 'dump'"):
        _ = package("if TYPE_CHECKING:\n    from json import dumps\n").dump
