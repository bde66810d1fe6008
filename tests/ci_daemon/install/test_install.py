"""Decisions and files of an installation, on a folder as host, with scripts for root's programs.

`tests/system/test_install.py` runs it all on a whole machine.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from ci_daemon import config
from ci_daemon.command import main
from ci_daemon.install import (
    Host,
    InstallError,
    Release,
    account,
    database,
    links,
    release,
    removal,
    requirements,
    source,
    state,
    switching,
    units,
)
from storage import Storage, SystemClock
from tests.state import new_storage

CHECKOUT = Path(__file__).parents[3]
NOTE = 'echo "$(basename "$0") $*" >>"$NOTES"'


@dataclass
class Stage:
    """A folder as host, and the programs on its PATH."""

    host: Host
    programs: Path
    notes: Path

    def has(self, program: str, script: str = "") -> None:
        path = self.programs / program
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{NOTE}\n{script}\n")
        path.chmod(0o755)

    def ran(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []

    def etc(self, **files: str) -> None:
        (self.host.root / "etc").mkdir(exist_ok=True)
        for name, text in files.items():
            (self.host.root / "etc" / name).write_text(text)

    def release(self, name: str, version: str = "1", schema: int = 1) -> Release:
        """Make a fake release: its packages' records, migrations, units and a `ci-daemon`."""
        path = (self.host.opt / "releases" / name).resolve()
        packages = path / "lib/python3.11/site-packages"
        known = packages / f"ci_daemon-{version}.dist-info"
        for folder in (known, path / "bin", path / "share/ci-daemon/systemd", packages / "storage/migrations"):
            folder.mkdir(parents=True)
        (known / "METADATA").write_text(f"Name: ci-daemon\nVersion: {version}\n")
        (known / "RECORD").write_text(
            f"ci_daemon/x.py,sha256=digest{version},1\n../../../bin/ci-daemon,sha256={name},1\n"
        )
        (packages / f"storage/migrations/{schema:04}_x.sql").touch()
        (path / "share/ci-daemon/systemd/ci-daemon.service").write_text(f"# {name}\n")
        (path / "bin/ci-daemon").write_text(f'#!/bin/sh\necho "{name} $*" >>"$NOTES"\necho "{{}}"\n')
        (path / "bin/ci-daemon").chmod(0o755)
        (path / "origin").write_text("/srv/checkout\n")
        return Release(path)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage(Host(tmp_path / "root"), tmp_path / "programs", tmp_path / "notes")
    made.host.root.mkdir()
    monkeypatch.setenv("PATH", f"{made.programs}:{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(made.notes))
    made.has("systemctl")
    made.has("journalctl", 'echo "the last words"')
    made.has("setpriv", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    return made


def test_the_user_gets_free_ids(stage: Stage):
    stage.etc(
        passwd="root:x:0:0::/root:/bin/sh\nfar:x:300000:300000::/:/bin/sh\n",
        group="root:x:0:\n",
        subuid="ada:100000:65536\n# ci-daemon:1:70000\nci-daemon:1:100\ntorn:line\n",
        subgid="ada:170000:65536\n",
    )
    for program in ("groupadd", "useradd", "usermod"):
        stage.has(program)
    assert str(account.check(stage.host)).startswith("create the system user ci-daemon and 65536 ids in ")
    account.create(stage.host)
    home = "--home-dir /var/lib/ci-daemon --no-create-home"
    assert stage.ran() == [
        "groupadd --system ci-daemon",
        f"useradd --system --gid ci-daemon {home} --shell /usr/sbin/nologin ci-daemon",
        "usermod --add-subuids 300001-365536 ci-daemon",
        "usermod --add-subgids 300001-365536 ci-daemon",
    ]


def test_an_existing_user_is_kept_unless_its_ids_are_shared(stage: Stage):
    ranges = "ada:100000:65536\n990:165536:65536\n"
    stage.etc(passwd="ci-daemon:x:990:980::/:/bin/sh\n", group="ci-daemon:x:980:\n", subuid=ranges, subgid=ranges)
    assert account.check(stage.host) is None
    assert account.ids(stage.host) == (990, 980)
    stage.etc(subgid=ranges + "docker:231000:65536\n")
    with pytest.raises(InstallError, match=r"165536 to 231071 of ci-daemon in .*subgid also belong to docker"):
        account.check(stage.host)


@pytest.mark.parametrize(
    ("direct_url", "expected"),
    [
        (None, "ci-daemon==0.1.0"),
        ('{"url": "file:///srv/my%20checkout", "dir_info": {"editable": true}}', "/srv/my checkout"),
        ('{"url": "https://example.org/x.whl", "archive_info": {}}', "ci-daemon @ https://example.org/x.whl"),
        (
            '{"url": "https://example.org/r.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}}',
            "ci-daemon @ git+https://example.org/r.git@c0ffee",
        ),
    ],
)
def test_a_release_is_made_from_the_origin_of_this_program(direct_url: str | None, expected: str):
    assert source.requirement(direct_url, "0.1.0") == expected


def test_an_invalid_source_is_refused_with_the_accepted_ones(tmp_path: Path):
    with pytest.raises(InstallError, match="is not a checkout of ci-daemon: give --from the folder"):
        source.resolve(str(tmp_path))
    with pytest.raises(InstallError, match="no longer exists: give --from"):
        source.resolve(str(tmp_path / "gone"))
    assert source.resolve("ci-daemon==7") == "ci-daemon==7"


def test_pip_gets_the_sources_of_a_checkout_without_build_files(tmp_path: Path):
    for name in ("setup.cfg", "ci_daemon/x.py", "build/lib/stale.py", ".git/config", "x.egg-info/PKG-INFO"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    with source.pip_argument(str(tmp_path)) as given:
        copied = {str(path.relative_to(given)) for path in Path(given).rglob("*") if path.is_file()}
        assert copied == {"setup.cfg", "ci_daemon/x.py"}
    assert not Path(given).exists()


def test_releases_differ_by_content_and_not_by_location(stage: Stage):
    first, again, later = stage.release("1"), stage.release("2"), stage.release("3", version="2")
    assert first.contents() == again.contents() != later.contents()
    assert (later.version, later.schema, release.current(stage.host)) == ("2", 1, None)
    release.set_current(stage.host, first)
    assert release.current(stage.host) == first


def test_a_python_in_a_home_is_refused(tmp_path: Path):
    python = tmp_path / "home/bin/python3"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            break
    else:
        release.require_python_for_all(python)
    python.parent.parent.chmod(0o700)
    with pytest.raises(InstallError, match=r"other users cannot enter .*: install with a system Python"):
        release.require_python_for_all(python)


def test_the_configuration_is_private_and_never_overwritten(stage: Stage):
    stage.etc(passwd="ci-daemon:x:990:980::/:/bin/sh\n", group=f"ci-daemon:x:{os.getgid()}:\n")
    assert state.check_configuration(stage.host)
    state.create_configuration(stage.host)
    file = stage.host.configuration
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert state.check_configuration(stage.host) is None
    assert state.settings(stage.host) == config.Config()
    file.write_text("[pool]\nparked = 7\n")
    state.create_configuration(stage.host)
    assert state.settings(stage.host).pool.parked == 7
    file.write_text("[pool]\nwarn = 7\n")
    with pytest.raises(config.ConfigError, match=rf"{re.escape(str(file))}:2: pool.warn is not a setting"):
        state.settings(stage.host)


def test_without_systemd_it_says_how_else(stage: Stage):
    with pytest.raises(InstallError, match="systemd does not run this host"):
        units.require_systemd(stage.host)


def test_a_unit_that_overrides_the_releases_is_refused(stage: Stage):
    """A drop-in is not."""
    own = stage.host.root / "etc/systemd/system/ci-daemon.service"
    Path(f"{own}.d").mkdir(parents=True)
    Path(f"{own}.d/own.conf").touch()
    units.refuse_override(stage.host)
    own.touch()
    with pytest.raises(InstallError, match=r"overrides the unit of the release: .* with `systemctl edit"):
        units.refuse_override(stage.host)


def test_a_roll_back_restores_the_database_of_the_old_release(stage: Stage):
    host = stage.host
    old, new = stage.release("old"), stage.release("new", version="2", schema=9999)
    switching.switch(host, old)
    new_storage(host.state, SystemClock()).close()
    assert switching.check(host, old) is None
    assert "back up the database" in str(switching.check(host, new))
    switching.switch(host, new)
    init = f"--state-dir {host.state} --json init"
    assert stage.ran()[-5:] == [
        "systemctl daemon-reload",
        "systemctl --quiet enable ci-daemon.service",
        f"setpriv --reuid=ci-daemon --regid=ci-daemon --init-groups -- {new.command} {init}",
        f"new {init}",
        "systemctl start ci-daemon.service",
    ]
    assert (host.units / "ci-daemon.service").read_text() == "# new\n"
    assert stat.S_IMODE(old.database.stat().st_mode) == 0o600
    assert release.previous(host) == old

    storage = Storage.open(host.state, SystemClock())
    storage.users.create("ada@example.org", "Ada")
    storage.close()
    assert switching.needs_old_database(host, old)
    switching.roll_back(host, old)
    assert (release.current(host), release.previous(host)) == (old, new)
    storage = Storage.open(host.state, SystemClock())
    assert storage.users.by_email("ada@example.org") is None
    storage.close()


def test_a_release_that_does_not_start_is_rolled_back(stage: Stage):
    """The next roll-back does not return to it."""
    host = stage.host
    old = stage.release("old", schema=9999)
    switching.switch(host, old)
    new_storage(host.state, SystemClock()).close()
    bad = stage.release("bad", version="2", schema=9999)
    stage.has("systemctl", f'case "$*$(readlink {host.opt}/current)" in start*bad) exit 1 ;; esac')
    with pytest.raises(InstallError, match=r"(?s)2 of bad does not run: .*the last words\n1 of old runs again"):
        switching.switch(host, bad)
    assert release.current(host) == old
    assert (host.units / "ci-daemon.service").read_text() == "# old\n"
    assert release.previous(host) is None
    assert release.all_except(host, [old]) == [bad.path]


def installed(stage: Stage) -> Release:
    """Make the parts of a host that an installation makes, and a drop-in of the owner's."""
    host, made = stage.host, stage.release("now")
    switching.switch(host, made)
    links.make(host)
    new_storage(host.state, SystemClock()).close()
    for file in (host.configuration, host.root / "etc/systemd/system/ci-daemon.service.d/own.conf"):
        file.parent.mkdir(parents=True)
        file.touch()
    return made


def test_a_removal_tells_each_step_before_it_and_keeps_the_data(stage: Stage):
    made, host = installed(stage), stage.host
    files = removal.service_files(host)
    assert re.fullmatch(r"the program, 1 release of \d+\.\d MiB", files[host.opt])
    done = []
    for step in removal.removal_steps(host, data=False):
        done.append((step.title, host.opt.exists()))
        step.apply()
    assert done == [
        ("stopping the service", True),
        ("ending all VMs", True),
        ("removing the units", True),
        ("removing the links to the program", True),
        (f"removing {host.opt}", True),
    ]
    assert f"{made.path.name} --state-dir {host.state} --json lease kill --all" in stage.ran()
    assert [each for each in files if each.exists() or each.is_symlink()] == []
    assert host.database.exists()
    assert [*removal.kept_parts(host, data=False)] == [
        str(host.state),
        str(host.configuration.parent),
        "the user ci-daemon",
        str(host.root / "etc/systemd/system/ci-daemon.service.d"),
        "packages of the host",
    ]


def test_a_removal_of_the_data_says_what_it_is_and_leaves_none(stage: Stage, tmp_path: Path):
    """A state directory that is a link goes with the folder that it leads to."""
    installed(stage)
    host, elsewhere = stage.host, tmp_path / "disk"
    host.state.rename(elsewhere)
    host.state.symlink_to(elsewhere)
    stage.has("userdel")
    assert re.fullmatch(
        r"users, builds, .* and secrets, with a database of \d+\.\d MiB", removal.data_files(host)[host.state]
    )
    titles = []
    for step in removal.removal_steps(host, data=True):
        titles.append(step.title)
        step.apply()
    folders = [host.opt, host.state, host.configuration.parent]
    assert titles[-4:] == [*(f"removing {each}" for each in folders), "removing the user ci-daemon and its sub-ids"]
    assert [each for each in (*folders, elsewhere) if each.exists() or each.is_symlink()] == []
    assert stage.ran()[-1] == "userdel ci-daemon"
    assert str(host.state) not in removal.kept_parts(host, data=True)


def test_an_uninstall_lists_a_path_a_line_and_says_what_is_left(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    installed(stage)
    host = stage.host
    monkeypatch.setattr("ci_daemon.command.setup.install._host", lambda _: host)
    monkeypatch.setattr("ci_daemon.command.setup.install._exclusive", nullcontext)
    uninstall = ["--state-dir", str(host.state), "uninstall"]
    assert main(uninstall) == 1
    listed = [line.split("  ")[1] for line in capsys.readouterr().err.splitlines() if line.startswith("  ")]
    assert listed == [str(path) for path in removal.service_files(host)]
    assert host.opt.exists()

    assert main([*uninstall, "--yes"]) == 0
    printed = capsys.readouterr()
    assert printed.err.splitlines()[0] == "stopping the service"
    told = [line.split("  ")[1] if line.startswith("  ") else line for line in printed.out.splitlines()]
    assert told == ["removed:", *listed, "kept:", *removal.kept_parts(host, data=False)]


def test_a_link_in_place_of_the_old_database_is_not_followed(stage: Stage, tmp_path: Path):
    new_storage(stage.host.state, SystemClock()).close()
    old = stage.release("old")
    database.back_up(stage.host, old.database)
    precious = tmp_path / "precious"
    precious.write_text("untouched")
    stage.host.database.with_suffix(".restoring").symlink_to(precious)
    stage.host.database.unlink()
    stage.host.database.symlink_to(precious)
    database.restore(stage.host, old)
    assert precious.read_text() == "untouched"
    assert not stage.host.database.is_symlink()
    Storage.open(stage.host.state, SystemClock()).close()


def test_the_script_requires_root(tmp_path: Path):
    (tmp_path / "id").write_text("#!/bin/sh\necho 1000\n")
    (tmp_path / "id").chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", CHECKOUT / "install.sh"],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(r"install.sh: this needs root: run `sudo .*install.sh`\n", done.stderr)


def test_missing_packages_are_installed_by_one_command(stage: Stage, monkeypatch: pytest.MonkeyPatch):
    """This holds even if the package lists are stale."""
    lacks = [("network", "slirp4netns"), ("uidmap", "uidmap"), ("skopeo", "skopeo")]
    found = [{"name": "git", "ok": True, "detail": "", "mend": "sudo apt-get install -y git"}]
    found += [{"name": n, "ok": False, "detail": "", "mend": f"sudo apt-get install -y {p}"} for n, p in lacks]
    monkeypatch.setattr(Host, "call", lambda *_, **__: found)
    release = Release(stage.host.opt)
    install = "apt-get install -y slirp4netns uidmap"
    assert requirements.check(stage.host, release) == f"run `{install}`"

    stage.has("apt-get", '[ "$1" = update ] || grep -q update "$NOTES"')
    requirements.install(stage.host, release)
    assert stage.ran() == [install, "apt-get update", install]

    stage.has("apt-get", "echo no such package; exit 100")
    with pytest.raises(InstallError, match=f"`{install}` failed: no such package"):
        requirements.install(stage.host, release)
