"""Names that a shell completes."""

from __future__ import annotations

from pathlib import Path

from ci_daemon.local.known_names import remember


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines()


def test_the_newest_names_come_first_and_each_once(tmp_path: Path):
    file = tmp_path / "cache" / "names"
    remember(file, ["org/acme", "org/other"])
    remember(file, ["org/new", "org/other"])
    assert lines(file) == ["org/new", "org/other", "org/acme"]
    assert file.stat().st_mode & 0o077 == 0
    remember(file, [f"build/acme/web/{number}" for number in range(1200)])
    assert (len(lines(file)), lines(file)[0]) == (1000, "build/acme/web/0")
    assert [each.name for each in file.parent.iterdir()] == ["names"]


def test_a_name_that_a_shell_would_run_is_not_kept(tmp_path: Path):
    """Names of steps come from the authors of pipelines."""
    hostile = ["$(id)", "a;id", "a b", "`id`", "a\nb", "ä", "", "-x", "a|b", "~", "*", "a'b"]
    remember(tmp_path / "names", [f"step/acme/web/1/{name}" for name in hostile if name not in {"", "-x"}] + hostile)
    remember(tmp_path / "names", ["org/acme"])
    assert lines(tmp_path / "names") == ["org/acme"]


def test_names_are_not_remembered_where_nothing_can_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    remember(tmp_path / "file" / "names", ["org/acme"])
    (tmp_path / "names").write_bytes(b"\xff")
    remember(tmp_path / "names", ["org/acme"])
    assert (tmp_path / "names").read_bytes() == b"\xff"
