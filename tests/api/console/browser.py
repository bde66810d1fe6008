"""A browser without scripts: it keeps cookies, and sends the forms of pages as they are."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from typing import Any

import falcon
from falcon import testing

from tests.api.world import Account, World

_FORM = re.compile(r'<form method="post" action="\./(?:\.\./)*([^"]*)"[^>]*>(.*?)</form>', re.DOTALL)
_INPUT = re.compile(r"<input([^>]*)>")
_ATTRIBUTE = re.compile(r'([a-z-]+)="([^"]*)"')


def main_of(shown: testing.Result) -> str:
    """Return what is below a page's header, which all pages have."""
    return shown.text.partition("<main")[2]


@dataclass
class Browser:
    """A browser with cookies of its own."""

    world: World
    cookies: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, account: Account) -> Browser:
        """Return the browser of somebody who is signed in."""
        browser = cls(account.world)
        token = account.signed_in().simulate_post("/login/session").cookies["__Host-session"].value
        browser.cookies["__Host-session"] = token
        return browser

    def get(self, path: str, **options: Any) -> testing.Result:
        return self.ask("GET", path, **options)

    def post(self, path: str, fields: dict[str, str]) -> testing.Result:
        """Post fields as a form."""
        return self.ask("POST", path, body=falcon.to_query_str(fields, prefix=False), headers=_FORM_TYPE)

    def send(self, page: str, action: str, **typed: str) -> testing.Result:
        """Load a page, fill its form, and send it."""
        return self.post(f"/{action}", {**self.fields(page, action), **typed})

    def fields(self, page: str, action: str) -> dict[str, str]:
        """Return the fields of a page's form."""
        shown = self.get(page)
        assert shown.status_code == 200, shown.text
        forms = dict(_FORM.findall(shown.text))
        inputs = [dict(_ATTRIBUTE.findall(each)) for each in _INPUT.findall(forms[action])]
        return {each["name"]: html.unescape(each.get("value", "")) for each in inputs}

    def ask(self, method: str, path: str, **options: Any) -> testing.Result:
        answered = testing.TestClient(self.world.app).simulate_request(method, path, cookies=self.cookies, **options)
        for name, cookie in answered.cookies.items():
            if cookie.max_age is not None and cookie.max_age <= 0:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = cookie.value
        return answered


_FORM_TYPE = {"Content-Type": "application/x-www-form-urlencoded"}
