"""Conditions of GitHub's jobs as `when`, where it can say the same. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from actors.ir.systems.conditions import (
    ALWAYS,
    FAILED,
    NotSayable,
    both,
    either,
    negated,
    of_branches,
    of_events,
)
from actors.ir.systems.omissions import LeftOut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.ir.systems.conditions import Condition
    from actors.ir.systems.located import Located
    from actors.ir.systems.omissions import Omissions

_TOKEN = re.compile(r"\s*(&&|\|\||==|!=|[!(),]|'(?:[^']|'')*'|[A-Za-z_][\w.-]*|.)", re.DOTALL)
_MAX_CHARS = 2_000
_MAX_DEPTH = 20
_EVENTS = {
    "push": ("push", "tag"),
    "pull_request": ("pull_request",),
    "schedule": ("schedule",),
    "workflow_dispatch": ("manual",),
}
_HEAD = "github.event.pull_request.head.repo"
_ALIAS = re.compile(r"(gitea|forgejo|forge)\.")


def condition_of(given: Located, key: str, omissions: Omissions) -> Condition:
    """Return the condition of a job. Raises LeftOut if `when` cannot say it."""
    if given.value is None or given.value is True:
        return {}
    text = (given.text or "").strip()
    if text.startswith("${{") and text.endswith("}}") and text.count("${{") == 1:
        text = text[3:-2].strip()
    why = "`when` cannot say this condition"
    if not text or len(text) > _MAX_CHARS:
        raise LeftOut(given, key, why)
    if re.fullmatch(r"(success\(\)\s*\|\|\s*failure\(\)|failure\(\)\s*\|\|\s*success\(\))", text):
        return ALWAYS
    reader = _Reader(_TOKEN.findall(text))
    try:
        found = reader.whole()
    except NotSayable as error:
        raise LeftOut(given, key, f"{why}: {error}") from error
    for note in reader.notes:
        omissions.add(given, key, note)
    if found.get("status") == "always" and "always()" in text:
        omissions.add(given, key, "it runs after each end of what it needs, but not in a build that is canceled")
    return found


class _Reader:
    """Reads the tokens of one expression."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self.notes: list[str] = []

    def whole(self) -> Condition:
        found = self._either()
        if self._next() is not None:
            raise self._unknown()
        return found

    def _next(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self, token: str) -> bool:
        taken = self._next() == token
        self._at += taken
        return taken

    def _unknown(self) -> NotSayable:
        token = self._next()
        return NotSayable("it ends early" if token is None else f"{' '.join(token.split())[:40]} is not known here")

    def _either(self) -> Condition:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._unknown()
        found = self._both()
        while self._take("||"):
            found = either(found, self._both())
        self._depth -= 1
        return found

    def _both(self) -> Condition:
        found = self._one()
        while self._take("&&"):
            found = both(found, self._one())
        return found

    def _one(self) -> Condition:
        turned = False
        while self._take("!"):
            turned = not turned
        if turned and self._tokens[self._at : self._at + 3] == ["cancelled", "(", ")"]:
            self._at += 3
            return ALWAYS
        if self._take("("):
            found = self._either()
            if not self._take(")"):
                raise self._unknown()
        else:
            found = self._atom()
        return negated(found) if turned else found

    def _atom(self) -> Condition:
        name = self._next()
        if name is None or not (name[0].isalpha() or name[0] == "_"):
            raise self._unknown()
        name = _ALIAS.sub("github.", name)
        following = self._tokens[self._at + 1 : self._at + 2]
        if following == ["("]:
            return self._call(name)
        if following in (["=="], ["!="]):
            return self._comparison(name, following[0])
        if name == f"{_HEAD}.fork":
            self._at += 1
            return {"fork": True}
        if name == "true":
            self._at += 1
            return {}
        raise self._unknown()

    def _call(self, name: str) -> Condition:
        begin = self._at
        self._at += 2
        given: list[str] = []
        while (token := self._next()) not in {None, ")"}:
            given.append(token or "")
            self._at += 1
        self._at += 1
        match name, given:
            case "always", []:
                return ALWAYS
            case "failure", []:
                return FAILED
            case "success", []:
                return {}
            case "startsWith", [what, ",", text] if _ALIAS.sub("github.", what) == "github.ref":
                return self._ref(_literal(text), begins=True)
            case "contains", [what, ",", "'refs/tags/'" | "'refs/tags'"] if _ALIAS.sub("github.", what) == "github.ref":
                return {"tag": ["*"]}
        self._at = begin
        raise self._unknown()

    def _comparison(self, name: str, operator: str) -> Condition:
        begin, operand = self._at, self._tokens[self._at + 2 : self._at + 3]
        self._at += 3
        if not operand:
            raise self._unknown()
        found = self._equal(name, operand[0])
        if found is None:
            self._at = begin
            raise self._unknown()
        return found if operator == "==" else negated(found)

    def _equal(self, name: str, operand: str) -> Condition | None:
        if name == f"{_HEAD}.full_name" and _ALIAS.sub("github.", operand) == "github.repository":
            return {**of_events(["pull_request"]), "fork": False}
        if name == f"{_HEAD}.fork" and operand in {"true", "false"}:
            return {"fork": operand == "true"}
        return self._equal_text(name, _literal(operand)) if operand.startswith("'") else None

    def _equal_text(self, name: str, text: str) -> Condition | None:
        match name:
            case "github.ref":
                return self._ref(text, begins=False)
            case "github.ref_name" if _is_name(text):
                self.notes.append(f"it holds for the branch {text}, and not for a tag of this name")
                return of_branches([text])
            case "github.event_name" if text in _EVENTS:
                return of_events(_EVENTS[text])
            case "github.base_ref" if _is_name(text):
                return {"target_branch": [text]}
            case "github.ref_type" if text in {"tag", "branch"}:
                return {"tag": ["*"]} if text == "tag" else {"not": {"tag": ["*"]}}
            case "github.repository" if _is_name(text):
                return {"repository": [f"*{before}{text}{end}" for before in "/:" for end in ("", ".git")]}
            case "github.repository_owner" if _is_name(text):
                return {"repository": [f"*{before}{text}/*" for before in "/:"]}
        return None

    def _ref(self, text: str, *, begins: bool) -> Condition:
        for prefix in ("refs/heads", "refs/tags"):
            name = text.removeprefix(f"{prefix}/")
            if begins and text == prefix:
                name = ""
            elif name == text or (not begins and not name) or (name and not _is_name(name)):
                continue
            names = [f"{name}*" if begins else name]
            return of_branches(names) if prefix == "refs/heads" else {"tag": names}
        raise NotSayable(f"the ref {' '.join(text.split())[:40]} is not known here")


def _literal(token: str) -> str:
    return token[1:-1].replace("''", "'") if token.startswith("'") and len(token) > 1 else token


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[\w./+@#-]{1,200}", text) is not None
