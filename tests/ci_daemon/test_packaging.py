"""The files that packages of this service contain, as `setup.cfg` lists them."""

from __future__ import annotations

from configparser import ConfigParser
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
OUR_PACKAGES = ("actors", "api", "ci_daemon", "storage")


def packages() -> set[Path]:
    return {each.parent for name in OUR_PACKAGES for each in (CHECKOUT / name).rglob("__init__.py")}


def test_all_files_of_the_packages_are_installed():
    setup = ConfigParser(interpolation=None)
    setup.read(CHECKOUT / "setup.cfg", encoding="utf-8")
    installed: set[Path] = set()
    for name, patterns in setup["options.package_data"].items():
        for package in packages() if name == "*" else {CHECKOUT / name.replace(".", "/")}:
            for pattern in patterns.replace(",", "\n").split():
                installed |= set(package.glob(pattern))
    files = {each for name in OUR_PACKAGES for each in (CHECKOUT / name).rglob("*") if each.is_file()}
    assert {each for each in files if each.suffix not in {".py", ".pyc"}} - installed == set()
    assert {each.parent for each in files if each.suffix == ".py"} - packages() == set()
