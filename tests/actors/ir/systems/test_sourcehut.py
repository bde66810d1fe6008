"""Build manifests of builds.sr.ht as one job each: image, packages, tasks, files, and what is lost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from actors.ir.systems import NotReadable, Omissions, convert_sourcehut, read
from tests.actors.ir.systems.translation import Translated

MANIFEST = """\
image: debian/stable
packages: [make, libfoo-dev]
sources: [https://git.sr.ht/~me/tool]
environment: {LEVEL: 3, CI: "yes"}
tasks:
- setup: |
    cd tool
    echo 'export MORE=1' >> ~/.buildenv
    pwd -P
- check: |
    echo $LEVEL $MORE $CI $JOB_ID
    false | true
artifacts: [tool/dist/x.tar.gz]
"""


def translated(text: str) -> Translated:
    omissions = Omissions(".build.yml")
    found = convert_sourcehut(read(text), "ci", omissions)
    return Translated((found, omissions.all))


def test_a_manifest_is_one_job():
    found = translated(MANIFEST)
    (job,) = found.plan().jobs
    assert (job.image, job.artifacts, job.env) == ("debian:stable", ("dist/x.tar.gz",), {"LEVEL": "3"})
    assert "apt-get install -y make libfoo-dev" in job.command
    assert found.losses == []
    assert "name them in packages" in found.told("image")


def test_tasks_share_a_home_and_its_variables(tmp_path: Path):
    command = translated(MANIFEST.replace("packages", "shell: true #")).plan().jobs[0].command
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "CI_BUILD_NUMBER": "7", "LEVEL": "3"}
    place = tmp_path / "source"
    place.mkdir()
    argv = ["bash", "-eo", "pipefail", "-c", command.replace("/workspace", str(place))]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"task setup\n{place}\ntask check\n3 1 yes 7\n")


def test_a_task_that_fails_is_the_last(tmp_path: Path):
    command = translated("image: debian\nsources: [a/b]\ntasks: [{a: 'false'}, {b: echo no}]").plan().jobs[0].command
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    argv = ["bash", "-eo", "pipefail", "-c", command]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "task a\n")


DEPLOY = """\
image: alpine/latest
packages: [rsync]
sources: [https://git.sr.ht/~me/site]
secrets: [46f739e5-4538-45dd-a79f-bf173b7a2ed9]
tasks: [{send: rsync -r public/ deploy@example.org:/srv/www}]
"""


def test_a_secret_is_the_key_of_ssh_if_a_task_uses_that(tmp_path: Path):
    found = translated(DEPLOY)
    (job,) = found.plan().jobs
    assert (found.losses, job.secrets) == ([], ("SSH_KEY",))
    assert "apk add --no-cache bash rsync openssh-client\n" in job.command
    assert "`ci-daemon secret set ORG/PIPELINE SSH_KEY`" in found.told("secrets")
    command = found.pipelines[0].document["jobs"]["ci"]["run"]
    begins = command[command.index("mkdir -p ~/.ssh") : command.index("touch")]
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SSH_KEY": "a key\nof two lines"}
    subprocess.run(["sh", "-e", "-c", begins], env=env, check=True)
    for name in ("id_rsa", "46f739e5-4538-45dd-a79f-bf173b7a2ed9"):
        key = tmp_path / ".ssh" / name
        assert (key.read_text(), key.stat().st_mode & 0o777) == ("a key\nof two lines\n", 0o600)


@pytest.mark.parametrize(
    ("text", "other"),
    [("9]", "9, 0a-1b]"), ("rsync -r", "gpg --sign; rsync -r"), ("rsync -r", "cp -r"), ("46f7", "../x; ")],
)
def test_other_secrets_are_not_guessed(text: str, other: str):
    found = translated(DEPLOY.replace(text, other, 1))
    assert (found.pipelines, found.losses) == ((), ["secrets"])


def test_git_is_installed_for_tasks_that_call_it():
    command = translated(MANIFEST.replace("false | true", "git archive HEAD")).plan().jobs[0].command
    assert "install -y make libfoo-dev git\n" in command


@pytest.mark.parametrize(
    "changed",
    [
        "secrets: [0a-1b]",
        "repositories: {x: y}",
        "oauth: pages.sr.ht/PAGES:RW",
        "arch: aarch64",
        "surprise: 1",
        "submitter: {git.sr.ht: {enabled: false}}",
    ],
)
def test_what_a_manifest_needs_is_not_left_out(changed: str):
    found = translated(f"{MANIFEST}{changed}\n")
    assert (found.pipelines, found.losses) == ((), [changed.partition(":")[0]])


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("debian/stable", "freebsd/latest"),
        ("debian/stable", "nixos/unstable"),
        ("debian/stable", "debian/nowhere"),
        ("tool]", "tool, https://git.sr.ht/~me/lib]"),
        ("tool]", "..]"),
        ("make,", "$(touch x),"),
        ("cd tool", "complete-build"),
        ("tool/dist", "elsewhere"),
        ("LEVEL: 3", "CI_BRANCH: 3"),
        ("cd tool", "echo ${{ build.branch }}"),
    ],
)
def test_a_manifest_that_cannot_be_said_is_left_out(text: str, other: str):
    found = translated(MANIFEST.replace(text, other, 1))
    assert (found.pipelines, len(found.losses)) == ((), 1)


def test_a_manifest_without_tasks_is_not_readable():
    with pytest.raises(NotReadable, match="tasks"):
        translated("image: debian/stable\ntasks: []")
