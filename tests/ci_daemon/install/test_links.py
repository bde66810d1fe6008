"""The command, its manual page and its completion on an installed host."""

from __future__ import annotations

from pathlib import Path

from ci_daemon.install import Host, links, removal

RELEASE = "releases/2026-01-01"
COMMAND, PAGE = "usr/local/bin/ci-daemon", "usr/local/share/man/man1/ci-daemon.1"
SCRIPTS = (
    "usr/local/share/bash-completion/completions/ci-daemon",
    "usr/local/share/zsh/site-functions/_ci-daemon",
    "usr/local/share/fish/vendor_completions.d/ci-daemon.fish",
)


def test_they_are_those_of_the_current_release_and_come_off(tmp_path: Path):
    host = Host(tmp_path)
    assert str(links.check(host)).startswith(f"link {host.command}, ")
    host.command.parent.mkdir(parents=True)
    host.command.write_text("an earlier program")
    links.make(host)
    assert links.check(host) is None
    for name in (COMMAND, PAGE, *SCRIPTS):
        assert (tmp_path / name).readlink().is_relative_to(host.opt / "current")
    assert {tmp_path / name for name in (COMMAND, PAGE, *SCRIPTS)} <= {*removal.service_files(host)}
    host.command.unlink()
    host.command.write_text("somebody else's")
    links.remove(host)
    assert [each for each in tmp_path.rglob("*") if each.is_file() or each.is_symlink()] == [host.command]
