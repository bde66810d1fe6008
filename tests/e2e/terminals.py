"""A terminal of a fork as a program uses it over the API: what it shows, and what is typed."""

from __future__ import annotations

import base64
import json
import threading
from typing import Any

import httpx

from tests.e2e.daemon import Client


class ApiTerminal:
    """A terminal by its path. A thread follows what it shows, again and again, as a browser does."""

    def __init__(self, client: Client, path: str) -> None:
        self.client = client
        self.path = path
        self.events: list[tuple[str, Any]] = []
        self.shown = b""
        self.typed = 0
        self._last = ""
        self._output = f"/api/v0/organizations/{client.org}/{path}/output"
        self._changed = threading.Condition()
        self._closed = False
        self._follower = threading.Thread(target=self._follow, daemon=True)
        self._follower.start()

    @classmethod
    def opened(cls, client: Client, job: str, **body: Any) -> ApiTerminal:
        """Open one at the path of a job."""
        answered = client.request("POST", f"{job}/terminals", json=body)
        assert answered.status_code == 201, answered.text
        return cls(client, f"{job}/terminals/{answered.json()['id']}")

    def type(self, text: str) -> None:
        """Type, at the place that the last answer told."""
        data = base64.b64encode(text.encode()).decode()
        answered = self.client.request("POST", f"{self.path}/input", json={"at": self.typed, "data": data})
        assert answered.status_code == 200, answered.text
        self.typed = answered.json()["typed"]

    def shows(self, text: str, since: int = 0, seconds: float = 60) -> None:
        """Wait until a text was shown, ``since`` a position."""
        with self._changed:
            found = self._changed.wait_for(lambda: text.encode() in self.shown[since:], seconds)
            assert found, (text, self.shown[-2000:], self.events[-5:])

    def ends(self, name: str, seconds: float = 60) -> Any:
        """Wait for an event of this name; return its data."""
        with self._changed:
            found = self._changed.wait_for(lambda: [data for each, data in self.events if each == name], seconds)
            assert found, (name, self.events[-5:], self.shown[-500:])
            return found[-1]

    def close(self) -> None:
        """Look away."""
        self._closed = True

    def _follow(self) -> None:
        while not self._closed:
            headers = {"Authorization": f"Bearer {self.client.token}", "Last-Event-ID": self._last}
            try:
                url = f"{self.client.daemon.url}{self._output}"  # another one after a restart
                with httpx.stream("GET", url, headers=headers, timeout=30) as answer:
                    if answer.status_code == 200 and self._read(answer):
                        return
            except httpx.TransportError:
                continue

    def _read(self, answer: httpx.Response) -> bool:
        """Note the events of a stream; tell if it was the last one."""
        name, data = "", ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "id":
                self._last = value
            elif field == "data":
                data = value
            elif not line and name:
                self._note(name, data)
                if name in {"end", "exit", "replaced"}:
                    return True
                name = ""
            if self._closed:
                return True
        return False

    def _note(self, name: str, data: str) -> None:
        with self._changed:
            if name == "output":
                self.shown += base64.b64decode(data)
            else:
                self.events.append((name, json.loads(data)))
                if name == "begin":
                    self.typed = max(self.typed, self.events[-1][1]["typed"])
            self._changed.notify_all()
