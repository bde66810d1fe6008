"""The exceptions in the output of pipeline files, each with the line of the project; pure."""

from __future__ import annotations

from storage import immutable, pattern

_FRAME = pattern(r'  File "(?P<file>[^"\n]{1,1000})", line (?P<line>[0-9]{1,9})')
_CODE = "    "
_BEGINS = "Traceback (most recent call last):"
_CONTINUES = ("During handling of the above exception", "The above exception was the direct cause")
_WORKSPACE = "/workspace/"


@immutable
class PipelineError:
    """An exception: its message, and the last line of the project that was reached, if any was.

    ``excerpt`` is that line as it is written, with marks below it where Python makes them.
    """

    message: str
    file: str | None = None
    line: int | None = None
    excerpt: str = ""


def errors_in(output: str) -> tuple[PipelineError, ...]:
    """Return each exception of the output in order, the same one once; none without a traceback.

    An exception that led to another one is left out.
    """
    reader = _Reader()
    for line in output.splitlines():
        reader.read(line)
    reader.end()
    return tuple(dict.fromkeys(reader.found))


def printed_before(output: str) -> str:
    """Return what was printed before the first traceback."""
    before, begins, _ = output.partition(_BEGINS)
    return before.rpartition("\n")[0] if begins else before


class _Reader:
    """Reads lines: of the frames of a traceback, or of the message behind them."""

    def __init__(self) -> None:
        self.found: list[PipelineError] = []
        self._message: list[str] = []
        self._in_frames = False
        self._begin(None, None)

    def read(self, line: str) -> None:
        frame, begins = _FRAME.match(line), line.endswith(_BEGINS)
        if begins or (frame and not self._in_frames):
            self.end()
        if frame or begins:
            self._in_frames, self._in_project = True, False
            if frame and frame["file"].startswith(_WORKSPACE):
                self._begin(frame["file"].removeprefix(_WORKSPACE), int(frame["line"]))
        elif line.startswith(_CONTINUES):
            self._message.clear()
            self._begin(None, None)
        elif self._in_frames and line.startswith(_CODE):
            self._excerpt += [line.removeprefix(_CODE)] if self._in_project else []
        elif self._in_frames or self._message:
            self._in_frames = False
            self._message.append(line)

    def end(self) -> None:
        """Add the exception whose message was read, if one was; another one begins."""
        if self._message or self._file is not None:  # an output that was cut has no message
            message, excerpt = "\n".join(self._message).strip(), "\n".join(self._excerpt)
            self.found.append(PipelineError(message, self._file, self._line, excerpt))
        self._message.clear()
        self._begin(None, None)

    def _begin(self, file: str | None, line: int | None) -> None:
        self._file, self._line = file, line
        self._excerpt: list[str] = []
        self._in_project = file is not None
