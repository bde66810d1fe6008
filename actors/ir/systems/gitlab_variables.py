"""Variables of GitLab: the file's, those that GitLab sets, and those of a project's settings. Pure."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from actors.ir.systems.jobs import SET_HERE, event_word, variables_in, word
from actors.ir.systems.omissions import LeftOut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$([A-Za-z_][A-Za-z0-9_]*)")
_EXPANDED = re.compile(r"\$\{?[#!]?([A-Za-z_][A-Za-z0-9_]*)")
_OURS = frozenset({"CI", "CI_JOB_ID"})
"""Variables that jobs of both systems have."""

_ON_BRANCH = '"$([ -n "${CI_TAG:-}${CI_PULL_REQUEST:-}" ] || printf %s "$CI_BRANCH")"'
_SLUG = '"$(printf %s "$CI_BRANCH" | tr A-Z a-z | tr -c a-z0-9 - | cut -c1-63 | sed \'s/^-*//; s/-*$//\')"'
_SET_BY_GITLAB = MappingProxyType(
    {
        "CI_COMMIT_SHA": '"$CI_COMMIT"',
        "CI_COMMIT_SHORT_SHA": '"$(printf %.8s "$CI_COMMIT")"',
        "CI_COMMIT_REF_NAME": '"$CI_BRANCH"',
        "CI_COMMIT_REF_SLUG": _SLUG,
        "CI_COMMIT_BRANCH": _ON_BRANCH,
        "CI_COMMIT_TAG": '"${CI_TAG:-}"',
        "CI_MERGE_REQUEST_IID": '"${CI_PULL_REQUEST:-}"',
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": '"${CI_TARGET_BRANCH:-}"',
        "CI_PIPELINE_IID": '"$CI_BUILD_NUMBER"',
        "CI_PIPELINE_SOURCE": event_word("push", "web", "merge_request_event"),
        "CI_PIPELINE_URL": '"$CI_BUILD_URL"',
        "CI_JOB_URL": '"$CI_BUILD_URL"',
    }
)
"""Variables that GitLab sets, as words of the shell here."""

_CONSTANT = MappingProxyType({"CI_PROJECT_DIR": "/workspace", "GITLAB_CI": "true", "CI_SERVER": "yes"})
_GIT = re.compile(r"GIT_(SUBMODULE_\w+|STRATEGY|DEPTH|CHECKOUT|CLONE_PATH|CLEAN_FLAGS|FETCH_EXTRA_FLAGS|LFS_\w+)")
_OF_THE_SYSTEM = re.compile(
    r"HOME|PATH|PWD|OLDPWD|USER|LOGNAME|SHELL|LANG|LC_\w+|TERM|HOSTNAME|UID|EUID|GID|RANDOM|SECONDS|LINENO|IFS|BASH\w*"
    r"|PIPESTATUS|OSTYPE|MACHTYPE|HOSTTYPE|PPID|TMPDIR|OPTARG|OPTIND|REPLY|FUNCNAME|DEBIAN_FRONTEND|GOPATH|GOROOT"
    r"|GOBIN|VIRTUAL_ENV|CONDA_PREFIX|\w+_HOME|_"
)
"""Variables that a shell or an image sets."""

_SET_IN_SCRIPT = re.compile(
    r"(?:^|[\s;&|({`\"'])(?:(?:export|local|declare|typeset|readonly)\s+(?:-\w+\s+)*)?([A-Za-z_][A-Za-z0-9_]*)\+?="
    r"|\bfor\s+([A-Za-z_][A-Za-z0-9_]*)\b|\bread\s+(?:-\w+\s+)*([A-Za-z_][A-Za-z0-9_]*)"
    r"|\bprintf\s+-v\s+([A-Za-z_][A-Za-z0-9_]*)|\bgetopts\s+\S+\s+([A-Za-z_][A-Za-z0-9_]*)"
    r"|\b(?:mapfile|readarray)\s+(?:-\w+\s+)*([A-Za-z_][A-Za-z0-9_]*)|\$\{([A-Za-z_][A-Za-z0-9_]*):?=",
    re.MULTILINE,
)
_SETS_MORE = re.compile(r"(?:^|[\s;&|(])(?:source|\.|eval|read|mapfile|readarray)\s", re.MULTILINE)
_MAY_BE_EMPTY = r"\$\{{{name}:?[-+=]|-[nz]\s+\"?\$\{{?{name}\b|\[\[?\s+\"?\$\{{?{name}\b|\$\{{{name}\?"


def told_of_git(variables: Located, key: str, omissions: Omissions) -> None:
    """Report the variables that control how GitLab's runner gets the source; they have no effect here."""
    for name, given in variables.mapping().items():
        if name.startswith("GIT_SUBMODULE") and given.scalar != "none":
            why = "the service packs submodules only after `ci-daemon repo edit --submodules`"
            omissions.add(given, f"{key}.{name}", why)
        elif _GIT.fullmatch(name) and not name.startswith("GIT_SUBMODULE"):
            why = "it has no effect: each job gets the whole source, and builds of pushes the last 50 commits"
            omissions.add(given, f"{key}.{name}", why)


_MAX_PARTS = 2_000
"""The most references that the variables of one job may have, those in what they refer to included."""

_MAX_UNSET = 100


class Variables:
    """The variables of one job, those of the file below its own, each resolved from those that it names.

    ``values`` are plain texts; ``words`` are words of the shell, since they name what is known only in a build.
    """

    def __init__(self, given: Mapping[str, Located], key: str) -> None:
        """Resolve variables. Raises LeftOut if one has no value here."""
        self._given = given
        self._key = key
        self._parts_left = _MAX_PARTS
        self.values: dict[str, str] = {}
        self.words: dict[str, str] = {}
        self.named: set[str] = set()
        """Variables that others name, and that neither the file nor GitLab sets."""
        for name in given:
            if not _NAME.fullmatch(name) or name in SET_HERE:
                raise LeftOut(given[name], f"{key}.{name}", "this is no name that a variable may have here")
            parts = list(self._parts(name, ()))
            if name != "CI" and all(plain for plain, _ in parts):
                self.values[name] = "".join(text for _, text in parts)
            else:
                self.words[name] = "".join(word(text) if plain else text for plain, text in parts if text)

    def _parts(self, name: str, path: tuple[str, ...]) -> Iterator[tuple[bool, str]]:
        """Yield the parts of a value: whether it is plain text, or a word of the shell, and what."""
        given = self._given[name]
        value = given.get("value") if given.mapping() else given
        text = value.scalar
        if text is None:
            raise LeftOut(given, f"{self._key}.{name}", "its value is not a plain text: write it in quotes")
        if given.get("expand").value is False or "$" not in text:
            yield True, text
            return
        self._parts_left -= 1 + text.count("$")
        if name in path or self._parts_left < 0:
            raise LeftOut(given, f"{self._key}.{name}", "its value leads back to itself, or through too many others")
        at = 0
        for found in _REFERENCE.finditer(text):
            yield True, text[at : found.start()]
            at = found.end()
            other = found[1] or found[2]
            if other is None:
                yield True, "$"
            elif other in self._given and other != name:
                yield from self._parts(other, (*path, name))
            else:
                yield self._from_outside(given, name, other)
        yield True, text[at:]

    def _from_outside(self, given: Located, name: str, other: str) -> tuple[bool, str]:
        if other in _CONSTANT:
            return True, _CONSTANT[other]
        if other in _SET_BY_GITLAB:
            return False, _SET_BY_GITLAB[other]
        if _is_gitlabs(other):
            why = f"it names ${other}, which GitLab sets and builds here do not"
            raise LeftOut(given, f"{self._key}.{name}", why)
        self.named.add(other)
        return False, f'"${{{other}:-}}"'

    def image(self, at: Located, key: str, text: str) -> str:
        """Return an image with the values of variables in its name. Raises LeftOut."""

        def value(found: re.Match[str]) -> str:
            name = found[1] or found[2]
            if name in self.values:
                return self.values[name]
            raise LeftOut(at, key, f"no value of ${name or '$'} is known here: write the image's name")

        return _REFERENCE.sub(value, text)

    def beginning(self, key: str, job: Located, script: str, own: Mapping[str, str], omissions: Omissions) -> list[str]:
        """Return the lines before a script that set its variables.

        ``own`` are variables with known values that GitLab sets for the job, such as its name. Raises LeftOut if the
        script uses one of GitLab's that has no value here.
        """
        lines, at = [], job.get("script")
        known = {*self.values, *self.words, *own}
        for name in variables_in(script, lambda name: _is_gitlabs(name) and name not in known | _OURS):
            if name in _CONSTANT:
                lines.append(f"export {name}={_CONSTANT[name]}")
            elif name in _SET_BY_GITLAB:
                lines.append(f'export {name}={_SET_BY_GITLAB[name]}\n[ -n "${name}" ] || unset {name}')
            else:
                raise LeftOut(at, f"{key}.script", f"its script uses ${name}, which GitLab sets and builds here do not")
        lines += [f"export {name}={word}" for name, word in self.words.items()]
        lines += [f"export {name}={word(own[name])}" for name in variables_in(script, lambda name: name in own)]
        set_there = {name for found in _SET_IN_SCRIPT.finditer(script) for name in found.groups() if name}
        unset = [name for name in _unquoted(script) if name not in known | set_there | _OURS and not _is_gitlabs(name)]
        if len(unset) > _MAX_UNSET:
            raise LeftOut(at, f"{key}.script", f"its script uses more than {_MAX_UNSET} variables that nothing sets")
        for name in dict.fromkeys([*sorted(self.named), *unset]):
            if _OF_THE_SYSTEM.fullmatch(name):
                continue
            why = (
                f"the script uses ${name}, which neither the file nor GitLab sets: if it is a variable of the "
                "project's settings, `ci-daemon secret set` it and name it in `secrets`"
            )
            certain = name in unset and not re.search(_MAY_BE_EMPTY.format(name=name), script)
            if certain and not _SETS_MORE.search(script):
                lines.append(f': "${{{name}:?has no value: set it as a secret, and name it in secrets}}"')
                why += "; until then the step fails"
            omissions.add(at, f"{key}.script", why)
        return lines


def _is_gitlabs(name: str) -> bool:
    return name.startswith(("CI_", "GITLAB_", "FF_")) or name in {"TRIGGER_PAYLOAD", "KUBECONFIG", "CHAT_INPUT"}


def _unquoted(script: str) -> list[str]:
    """Return the variables that a script expands itself.

    Those in single quotes, behind a backslash, or in a comment are none.
    """
    found, at, double = [], 0, False
    while at < len(script):
        each = script[at]
        if each == "\\":
            at += 1
        elif each == '"':
            double = not double
        elif each == "'" and not double:
            end = script.find("'", at + 1)
            at = len(script) if end < 0 else end
        elif each == "#" and not double and (at == 0 or script[at - 1] in " \t\n;"):
            end = script.find("\n", at)
            at = len(script) if end < 0 else end
        elif each == "$" and (name := _EXPANDED.match(script, at)):
            found.append(name[1])
            at = name.end() - 1
        at += 1
    return list(dict.fromkeys(found))
