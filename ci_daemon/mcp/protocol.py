"""The Model Context Protocol over stdio: a JSON-RPC message a line, and tools that answer with text.

Considered: the package `mcp`. It brings 27 others, among them a web server and a second HTTP client, for the four
methods that tools need.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from storage import immutable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

_VERSIONS = ("2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol in which these methods are the same, newest first."""

MAX_LINE = 4 << 20
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602


class ToolFailed(Exception):
    """A tool that cannot do what it is asked; the message is for the one who asked."""


@immutable
class Tool:
    """A tool: what it does, the JSON Schemas of its arguments, and its function, which answers text.

    The function may raise ToolFailed.
    """

    name: str
    about: str
    arguments: Mapping[str, Mapping[str, object]]
    required: tuple[str, ...]
    call: Callable[[Mapping[str, Any]], str]

    @property
    def document(self) -> dict[str, object]:
        """The tool as the protocol lists it."""
        schema = {
            "type": "object",
            "properties": {name: dict(each) for name, each in self.arguments.items()},
            "required": list(self.required),
            "additionalProperties": False,
        }
        return {"name": self.name, "description": self.about, "inputSchema": schema}

    def fault(self, given: object) -> str | None:
        """Return what is wrong with some arguments, None if nothing is."""
        if not isinstance(given, dict):
            return "expected an object of arguments"
        for name in self.required:
            if name not in given:
                return f"{name}: expected a value, it is required"
        for name, value in given.items():
            if name not in self.arguments:
                return f"{name}: there is no such argument; there are {', '.join(self.arguments)}"
            wanted = str(self.arguments[name]["type"])
            kinds: dict[str, type] = {"string": str, "integer": int, "boolean": bool}
            if not isinstance(value, kinds[wanted]) or (wanted == "integer" and isinstance(value, bool)):
                return f"{name}: expected a value of the type {wanted}"
        return None


class Server:
    """Answers the messages of one client, in their order."""

    def __init__(self, version: str, instructions: str, tools: Iterable[Tool]) -> None:
        self._version = version
        self._instructions = instructions
        self._tools = {each.name: each for each in tools}

    def serve(self, lines: Iterable[bytes], answer: Callable[[str], None]) -> None:
        """Answer each line, until there are no more."""
        for line in lines:
            if line.strip() and (reply := self.reply(line)) is not None:
                answer(json.dumps(reply))

    def reply(self, line: bytes) -> dict[str, object] | None:
        """Return the reply to a message; None if it wants none."""
        try:
            message = json.loads(line) if len(line) <= MAX_LINE else None
        except (ValueError, RecursionError):
            return _error(None, _PARSE_ERROR, "expected a JSON document a line")
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return _error(None, _INVALID_REQUEST, "expected a JSON-RPC request of at most 4 MiB")
        if "id" not in message:
            return None  # a notification
        id, given = message["id"], message.get("params") or {}
        if not isinstance(given, dict):
            return _error(id, _INVALID_PARAMS, "params: expected an object")
        match message["method"]:
            case "initialize":
                return _result(id, self._greeting(given.get("protocolVersion")))
            case "ping":
                return _result(id, {})
            case "tools/list":
                return _result(id, {"tools": [each.document for each in self._tools.values()]})
            case "tools/call":
                return self._call(id, given)
            case method:
                return _error(id, _NO_METHOD, f"there is no method {method[:100]}")

    def _greeting(self, wanted: object) -> dict[str, object]:
        return {
            "protocolVersion": wanted if wanted in _VERSIONS else _VERSIONS[0],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "ci-daemon", "version": self._version},
            "instructions": self._instructions,
        }

    def _call(self, id: object, given: Mapping[str, Any]) -> dict[str, object]:
        tool = self._tools.get(str(given.get("name")))
        if tool is None:
            return _error(id, _INVALID_PARAMS, f"there is no such tool; there are {', '.join(self._tools)}")
        arguments = given.get("arguments") or {}
        fault = tool.fault(arguments)
        try:
            text, failed = (fault, True) if fault is not None else (tool.call(arguments), False)
        except ToolFailed as error:
            text, failed = str(error), True
        return _result(id, {"content": [{"type": "text", "text": text}], "isError": failed})


def _result(id: object, result: Mapping[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "result": result}


def _error(id: object, code: int, message: str) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}
