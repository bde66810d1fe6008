"""A shell with a few words, interpreted in Python: no command of a guest ever reaches the host."""

from __future__ import annotations

import posixpath
import re
import signal
import threading
from collections.abc import Callable, Mapping

UNKNOWN_EXIT = 127

_TOKEN = re.compile(r"""[ \t]*(\n|;|&&|\|\||>|(?:'[^']*'|"[^"\\`]*"|[^\s;&|<>'"`(){}\\])+)""")
_PART = re.compile(r"""'([^']*)'|"([^"]*)"|([^'"]+)""")
_VARIABLE = re.compile(r"\$(\w+)")
_SEPARATORS = {"\n", ";", "&&", "||"}


class _Exit(Exception):
    """The shell ends with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Shell:
    """Runs one script over the files of a guest. Any thread may signal it.

    A script is a list of commands, see `_command`, joined by newlines, ``;``, ``&&`` and ``||``, with quotes, variables
    and ``> FILE``. Anything else ends it with 127.
    """

    def __init__(
        self,
        files: dict[str, bytes],
        output: Callable[[bytes], object],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/root",
        stdin: bytes = b"",
    ) -> None:
        self._files = files
        self._output = output
        self._env = env or {}
        self._cwd = cwd
        self._stdin = stdin
        self._ignored: set[signal.Signals] = set()
        self._signaled = threading.Event()
        self._signal = signal.SIGTERM

    def signal(self, number: signal.Signals) -> None:
        """End the script, unless it ignores the signal."""
        if number not in self._ignored:
            self._signal = number
            self._signaled.set()

    def run(self, script: str, *, strict: bool = False) -> int:
        """Run a script and return its exit code; a ``strict`` one ends at its first failure."""
        status, words, skips = 0, [], False
        try:
            for token in [*self._tokens(script), ";"]:
                if token not in _SEPARATORS:
                    words.append(token)
                    continue
                if words and not skips:
                    status = self._redirected(words, status)
                    if strict and status != 0 and token not in {"&&", "||"}:
                        return status
                if words:
                    skips = (token == "&&" and status != 0) or (token == "||" and status == 0)
                words = []
        except _Exit as end:
            return end.code
        return status

    def _tokens(self, script: str) -> list[str]:
        tokens, position = [], 0
        script = script.strip()
        while position < len(script):
            found = _TOKEN.match(script, position)
            if found is None:
                raise self._unknown(script[position:])
            tokens.append(found[1])
            position = found.end()
        return tokens

    def _redirected(self, tokens: list[str], status: int) -> int:
        """Run one command, whose output goes to a file if it says so."""
        if ">" not in tokens:
            return self._command([self._word(token) for token in tokens], status, self._output)
        *command, arrow, name = tokens
        if arrow != ">" or ">" in command:
            raise self._unknown(" ".join(tokens))
        written: list[bytes] = []
        status = self._command([self._word(token) for token in command], status, written.append)
        self._files[self._path(self._word(name))] = b"".join(written)
        return status

    def _command(self, words: list[str], status: int, output: Callable[[bytes], object]) -> int:
        self._wait(0)
        match words:
            case ["exit", *code]:
                raise _Exit(int(code[0]) if code else status)
            case ["sleep", seconds]:
                self._wait(float(seconds))
            case ["trap", "", "TERM"]:
                self._ignored.add(signal.SIGTERM)
            case ["true" | "false" | "test", *_]:
                return 0 if self._holds(words) else 1
            case ["cat", name] if self._path(name) not in self._files:
                output(f"cat: {name}: No such file or directory\n".encode())
                return 1
            case _:
                output(self._text(words))
        return 0

    def _holds(self, words: list[str]) -> bool:
        match words:
            case ["test", "-e", name]:
                return self._path(name) in self._files
            case ["test", left, "=", right]:
                return left == right
            case ["true"] | ["false"]:
                return words == ["true"]
            case _:
                raise self._unknown(" ".join(words))

    def _text(self, words: list[str]) -> bytes:
        match words:
            case ["echo", *texts]:
                return " ".join(texts).encode() + b"\n"
            case ["printf", text]:
                return text.replace("\\n", "\n").encode()
            case ["cat"]:
                return self._stdin
            case ["cat", name]:
                return self._files[self._path(name)]
            case _:
                raise self._unknown(" ".join(words))

    def _wait(self, seconds: float) -> None:
        if self._signaled.wait(seconds):
            raise _Exit(128 + self._signal)

    def _unknown(self, text: str) -> _Exit:
        self._output(f"this guest does not know {text}\n".encode())
        return _Exit(UNKNOWN_EXIT)

    def _word(self, token: str) -> str:
        return "".join(
            quoted or _VARIABLE.sub(lambda found: self._env.get(found[1], ""), double or bare)
            for quoted, double, bare in _PART.findall(token)
        )

    def _path(self, name: str) -> str:
        return posixpath.normpath(posixpath.join(self._cwd, name))
