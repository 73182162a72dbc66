"""A tool's result as a model reads it: `{ok, data, error, artifact_refs}`."""

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Result:
    """`error` has a code and a message, and maybe more. A call that failed may have data too."""

    ok: bool
    data: Any
    error: Any
    artifact_refs: list[str]

    @property
    def code(self) -> str:
        """The error's code, or "" if it succeeded."""
        return "" if self.error is None else self.error["code"]


def result_of(text: str) -> Result:
    """Read a result. Raises TypeError if it has other fields than these four."""
    return Result(**json.loads(text))


def short(text: str) -> str:
    """The result's data as JSON, or its error: only the message if it has just a code and a message."""
    result = result_of(text)
    if result.ok:
        return json.dumps(result.data, separators=(",", ":"))
    has_more = set(result.error) != {"code", "message"}
    error = result.error if has_more else result.error["message"]
    return json.dumps({"error": error}, separators=(",", ":"), ensure_ascii=False)
