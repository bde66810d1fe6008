"""Build manifests of builds.sr.ht as pipelines. Pure.

All tasks of a manifest share one machine, also what they leave running, so that a manifest is one job.
"""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from actors.ir.systems.jobs import SET_HERE, check_names, label, variables_in, word
from actors.ir.systems.located import NotReadable
from actors.ir.systems.model import Cell, ConvertedPipeline, Job, texts_of
from actors.ir.systems.omissions import LeftOut, only
from storage import slugify

if TYPE_CHECKING:
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_KEYS = frozenset(
    {"image", "arch", "packages", "sources", "environment", "tasks", "artifacts", "triggers", "shell", "secrets"}
    | {"repositories", "oauth", "submitter"}
)
_NOTES = MappingProxyType(
    {
        "triggers": "people are told of builds by `ci-daemon notify add`",
        "shell": "`ci-daemon build debug` opens a shell in a job",
    }
)
_REFUSED = MappingProxyType(
    {
        "repositories": "add repositories of packages in the first task",
        "oauth": "jobs get no token of the other system",
        "submitter": "`on` says for which pushes a pipeline is built",
    }
)
_IMAGES = MappingProxyType(
    {
        "alpine": ("alpine", {"edge": "edge", "latest": "latest"}),
        "archlinux": ("archlinux", {"latest": "latest"}),
        "debian": ("debian", {name: name for name in ("stable", "testing", "unstable", "sid")}),
        "fedora": ("fedora", {"latest": "latest", "rawhide": "rawhide"}),
        "rockylinux": ("rockylinux", {"latest": "9"}),
        "ubuntu": ("ubuntu", {"lts": "24.04"}),
    }
)
"""Images by their names there: the name here, and that of each release whose name is no number."""

_RELEASE = re.compile(r"\d{1,3}(\.\d{1,2})?|bookworm|bullseye|trixie|noble|jammy|focal")
_APT = "apt-get update\nDEBIAN_FRONTEND=noninteractive apt-get install -y"
_INSTALL = MappingProxyType(
    {
        "alpine": "apk add --no-cache bash",
        "archlinux": "pacman -Syu --noconfirm --needed",
        "debian": _APT,
        "fedora": "dnf -y install",
        "rockylinux": "dnf -y install",
        "ubuntu": _APT,
    }
)
"""The command that installs packages; Alpine's image there has bash, in which tasks run."""

_GIT = re.compile(r"(^|[\s;&|(])git\s", re.MULTILINE)
_SSH = re.compile(r"\b(ssh|scp|sftp|rsync)\b|git@|ssh://")
_CLIENTS = MappingProxyType(
    {"alpine": "openssh-client", "archlinux": "openssh", "debian": "openssh-client", "ubuntu": "openssh-client"}
    | dict.fromkeys(("fedora", "rockylinux"), "openssh-clients")
)
"""The package of ssh's client, which images there have, as they have git."""

_KEY = "SSH_KEY"
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_PACKAGE = re.compile(r"[A-Za-z0-9@][A-Za-z0-9@.+_:-]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TASK = re.compile(r"[A-Za-z0-9_-]{1,128}")
_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_REF = '"$(if [ -n "${CI_TAG:-}" ]; then printf %s "refs/tags/$CI_TAG"; else printf %s "refs/heads/$CI_BRANCH"; fi)"'
_VARIABLES = MappingProxyType(
    {"JOB_ID": '"$CI_BUILD_NUMBER"', "JOB_URL": '"$CI_BUILD_URL"', "GIT_REF": _REF, "BUILD_SUBMITTER": "git.sr.ht"}
)
_SUDO = r"""command -v sudo > /dev/null || {
printf '%s\n' '#!/bin/sh' 'exec env "$@"' > /usr/local/bin/sudo
chmod +x /usr/local/bin/sudo
}"""
"""Tasks run as root here, so that sudo needs only to start the command; its options fail."""


def convert_sourcehut(document: Located, name: str, omissions: Omissions) -> tuple[ConvertedPipeline, ...]:
    """Return the pipeline of a manifest; none if it cannot be converted. Raises NotReadable."""
    try:
        members = _members(document, name, omissions)
        check_names(document, "tasks", texts_of(members))
    except LeftOut as left_out:
        omissions.lose(left_out.at, left_out.key.lstrip("."), f"all of it is left out: {left_out.why}")
        return ()
    job = Job(name, (Cell({}, members),))
    return (ConvertedPipeline(slugify(name) or "ci", (job,), on={"push": True, "tag": ["*"]}, notes=omissions.all),)


def _members(document: Located, name: str, omissions: Omissions) -> dict[str, Any]:
    only(document, _KEYS, "")
    for key, why in _REFUSED.items():
        if document.get(key).items():
            raise LeftOut(document.get(key), key, why)
    omissions.told(document, _NOTES, "")
    if (arch := document.get("arch")).text not in {None, "x86_64", "amd64"}:
        raise LeftOut(arch, "arch", "jobs run on x86-64 alone")
    system, image = _image(document.get("image"))
    folder = _folder(document.get("sources"))
    if folder is None:
        why = "the source is in /workspace alone: name the repository, for a folder of its name as there"
        omissions.lose(document, "sources", why)
    env = _environment(document.get("environment"))
    packages = _packages(document.get("packages"))
    tasks = _tasks(document.get("tasks"))
    scripts = "\n".join(script for _, script in tasks)
    if re.search(r"\bcomplete-build\b", scripts):
        raise LeftOut(document.get("tasks"), "tasks", "complete-build ends a build early: write it as a condition")
    secret = _key(document.get("secrets"), scripts, omissions)
    tools = [*(["git"] if _GIT.search(scripts) else []), *([] if secret is None else [_CLIENTS[system]])]
    packages += [each for each in tools if each not in packages]
    lines = [f"{_INSTALL[system]} {' '.join(packages)}".rstrip()] if packages or system == "alpine" else []
    lines += [_SUDO] if re.search(r"\bsudo\b", scripts) else []
    lines += [f"export {each}={_VARIABLES[each]}" for each in variables_in(scripts, _VARIABLES.__contains__)]
    lines += [f"export {each}={word(value)}" for each, value in env.items() if each == "CI"]
    lines += [] if folder is None else [f"ln -sfn /workspace ~/{folder}"]
    lines += [] if secret is None else _laid(secret)
    lines.append("touch ~/.buildenv")
    for task, script in tasks:
        lines += [f"echo 'task {task}'", f"(cd && exec bash -c {word(f'. ~/.buildenv{_NEXT}set -xe{_NEXT}{script}')})"]
    why = f"tasks run as root in the image {image}, which has fewer tools than the one there: name them in packages"
    omissions.add(document.get("image"), "image", why)
    members: dict[str, Any] = {"name": name, "image": image, "run": "\n".join(lines), "shell": ["sh", "-e", "-c"]}
    members["env"] = {each: value for each, value in env.items() if each != "CI"}
    members["secrets"] = [] if secret is None else [_KEY]
    return members | {"artifacts": _artifacts(document.get("artifacts"), folder)}


_NEXT = "\n"


def _image(given: Located) -> tuple[str, str]:
    system, _, release = (given.text or "").partition("/")
    if system not in _IMAGES:
        known = ", ".join(sorted(_IMAGES))
        raise LeftOut(given, "image", f"there is no image of {label(system) or 'no name'} here, but of {known}")
    image, releases = _IMAGES[system]
    release = release or next(iter(releases))
    if release in releases:
        return system, f"{image}:{releases[release]}"
    if not _RELEASE.fullmatch(release):
        raise LeftOut(given, "image", f"the release {label(release)} is not known here")
    return system, f"{image}:{release}"


def _folder(sources: Located) -> str | None:
    """Return the repository's folder in the home directory; None without sources. Raises LeftOut."""
    texts = sources.texts()
    if texts is None or len(texts) > 1:
        why = "which of several sources is the repository itself is not known: get the others in a task"
        raise LeftOut(sources, "sources", why)
    if not texts:
        return None
    url = texts[0].partition("#")[0].rstrip("/")
    folder = url.rpartition("/")[2].removesuffix(".git")
    if not _FOLDER.fullmatch(folder) or "hg.sr.ht" in url:
        raise LeftOut(sources, "sources", "it is no address of a git repository")
    return folder


def _key(given: Located, scripts: str, omissions: Omissions) -> str | None:
    """Return the name of the key for ssh that the tasks need; None without secrets. Raises LeftOut.

    The manifest does not say of which kind a secret is.
    """
    names = [each.scalar or "" for each in given.items()]
    if not names:
        return None
    if len(names) > 1 or not _SECRET.fullmatch(names[0]) or not _SSH.search(scripts) or re.search(r"\bgpg", scripts):
        why = (
            "only one key for ssh, which a task uses, is known here, and of a secret it does not say what it is: "
            "`ci-daemon secret set` it, and write it where it belongs in the first task"
        )
        raise LeftOut(given, "secrets", why)
    why = f"it is taken for the key of ssh: `ci-daemon secret set ORG/PIPELINE {_KEY}`"
    omissions.add(given, "secrets", why)
    return names[0]


def _laid(key: str) -> list[str]:
    """Return the lines that lay a key where tasks find it there."""
    written = f"printf '%s\\n' \"${_KEY}\" > ~/.ssh/{key} && cp ~/.ssh/{key} ~/.ssh/id_rsa"
    return ["mkdir -p ~/.ssh && chmod 700 ~/.ssh", f"(umask 077 && {written})", f"unset {_KEY}"]


def _environment(given: Located) -> dict[str, str]:
    """Return variables with their values. Raises LeftOut."""
    found: dict[str, str] = {}
    if given.value is not None and not given.mapping():
        raise LeftOut(given, "environment", "it is no mapping")
    for name, value in given.mapping().items():
        if not _NAME.fullmatch(name) or name in SET_HERE:
            raise LeftOut(value, f"environment.{name}", "this is no name that a variable may have here")
        text = value.scalar
        if text is None:
            raise LeftOut(value, f"environment.{name}", "its value is not a plain text: write it in quotes")
        found[name] = text
    return found


def _tasks(given: Located) -> list[tuple[str, str]]:
    found = []
    for each in given.items():
        task = list(each.mapping().items())
        if len(task) != 1 or task[0][1].text is None or not _TASK.fullmatch(task[0][0]):
            message = f"line {each.line}: tasks: expected a name and a script"
            raise NotReadable(message)
        found.append((task[0][0], task[0][1].text or ""))
    if not found:
        message = f"line {given.line}: tasks: there is none"
        raise NotReadable(message)
    return found


def _packages(given: Located) -> list[str]:
    """Return the names of packages. Raises LeftOut."""
    found = [each.scalar or "" for each in given.items()]
    for each in found:
        if not _PACKAGE.fullmatch(each):
            raise LeftOut(given, "packages", f"{label(each) or 'this'} is no plain name of a package")
    return found


def _artifacts(given: Located, folder: str | None) -> list[str]:
    """Return the globs of artifacts, which are below the repository. Raises LeftOut."""
    found = []
    for each in given.items():
        path = (each.text or "").removeprefix("~/").removeprefix("./")
        inside = folder is not None and path.startswith(f"{folder}/")
        if not inside or ".." in path.split("/") or label(path) != path:
            raise LeftOut(each, "artifacts", f"{label(path)} is not below the repository, whose files alone are kept")
        found.append(path.removeprefix(f"{folder}/"))
    return found
