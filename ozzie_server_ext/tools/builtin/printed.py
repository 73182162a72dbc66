"""What a command printed, as it is shown while it comes, and as the model reads it at the end."""

import codecs

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Made
from ozzie_server_ext.execution.runner import JobState, JobStatus
from ozzie_server_ext.render.text import file_count, line_count
from ozzie_server_ext.tools.base import Live
from ozzie_server_ext.tools.pages import count_lines

SHOWN = 8000
"""In characters, of what a command printed and the model reads at once: its beginning and its end."""


class Printed:
    """Text of pieces that may end in the middle of a character."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []

    def add(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self._pieces.append(text)
        self._live.output(text)

    def whole(self) -> str:
        """All of it, at the end."""
        return "".join(self._pieces) + self._decoder.decode(b"", final=True)


def output_of(status: JobStatus, printed: str, log: str) -> tuple[JsonObject, list[Made]]:
    """What a result says of how it ended and what it printed; and the artifact of that name, where that is more than a
    model reads at once."""
    data: JsonObject = {"exit_code": status.exit_code, "output": printed}
    made: list[Made] = []
    if len(printed) > SHOWN:
        data["output"] = {"cut": True, "lines": count_lines(printed), "note": "Its beginning and end stand in `kept`."}
        made.append(Made(name=log, kind="log", mime="text/plain", content=printed, shown=SHOWN))
    if status.reason:
        data["ended"] = status.reason
    return data, made


def how_it_ended(status: JobStatus, printed: str, files: int = 0) -> str:
    """In a few words, with how many files it left."""
    match status.state:
        case JobState.SUCCEEDED | JobState.FAILED if status.exit_code is not None:
            said = [f"exit {status.exit_code}"] if status.exit_code else []
            said.append(line_count(count_lines(printed)) if printed else "no output")
            return " · ".join([*said, *([file_count(files)] if files else [])])
        case JobState.TIMED_OUT:
            return "took too long"
        case JobState.CUT:
            return "took too much"
        case _:
            return str(status.state)
