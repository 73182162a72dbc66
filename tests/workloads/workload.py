"""One workload: a message, the files that it is about, what a sensible model calls for it, and what is then so."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from ozzie_server_ext.domain.approvals import ApprovalScope
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use
from ozzie_server_ext.protocol.jsontext import loads_object
from tests.results import result_of


@dataclass(frozen=True, slots=True)
class Called:
    """A call that was made, and the data of its result. A failed call has None, or what it found before it failed."""

    name: str
    args: Mapping[str, Any]
    data: Any


class Seen:
    """What a model has read of its calls since the user's message."""

    def __init__(self, request: ModelRequest) -> None:
        begin = max(index for index, message in enumerate(request.messages) if message.role == "user")
        said = request.messages[begin + 1 :]
        results = {each.tool_call_id: result_of(each.content).data for each in said if each.role == "tool"}
        uses = [use for message in said for use in message.tool_uses]
        self.calls = [Called(use.name, loads_object(use.arguments), results[use.call_id]) for use in uses]

    @property
    def last(self) -> Any:
        return self.calls[-1].data

    @property
    def values(self) -> list[str]:
        """What the calculator said, in order."""
        return [call.data["value"] for call in self.calls if call.name == "calculator"]

    def text(self, path: str) -> str:
        """What was read of that file, page behind page, since it was changed last."""
        pages: list[str] = []
        for call in self._about(path):
            if call.name != "read_file":
                pages.clear()
            else:
                pages.append(call.data["text"])
        return "".join(pages)

    def rows(self, path: str) -> list[dict[str, str]]:
        return list(csv.DictReader(io.StringIO(self.text(path))))

    def version(self, path: str) -> str:
        """The version of that file that was told last."""
        return self._about(path)[-1].data["version"]

    def next(self, path: str) -> dict[str, Any]:
        """From where on there is more of that file."""
        return self._about(path)[-1].data["next"]

    def names(self) -> list[str]:
        """The names in the folder that was listed last."""
        return [entry["name"] for entry in self._listed()]

    def sizes(self) -> dict[str, int]:
        return {entry["name"]: entry["size"] for entry in self._listed()}

    def _listed(self) -> list[dict[str, Any]]:
        return [call for call in self.calls if call.name == "list_files"][-1].data["entries"]

    def _about(self, path: str) -> list[Called]:
        return [call for call in self.calls if call.args.get("path") == path and call.name != "list_files"]


Asks: TypeAlias = Use | tuple[Use, ...] | Callable[[Seen], Use | tuple[Use, ...]]
"""One round: one call, or several at once; or either, made from what was read before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`says` is what the answer has to hold, which `answer` makes from what the calls gave; `leaves` are the files that
    have to be there then, with their text, None for one that is gone. `extent` is the yes that the user gives, `fails`
    how many of the calls come to nothing, as they have to. `{site}` in the message and in addresses is `site`."""

    name: str
    message: str
    files: Mapping[str, str]
    rounds: Sequence[Asks]
    answer: Callable[[Seen], str]
    says: str
    leaves: Mapping[str, str | None] = field(default_factory=dict[str, "str | None"])
    extent: ApprovalScope = "once"
    fails: int = 0
    site: str = ""
    who: Literal["scientist", "analyst", "engineer", "operator"]

    def script(self) -> list[Callable[[ModelRequest], Sequence[Step]]]:
        """What a scripted model plays."""
        return [*map(self._round, self.rounds), lambda request: [Say(self.answer(Seen(request)))]]

    def _round(self, asks: Asks) -> Callable[[ModelRequest], Sequence[Step]]:
        def play(request: ModelRequest) -> Sequence[Step]:
            found = asks if isinstance(asks, Use | tuple) else asks(Seen(request))
            return [self._placed(use) for use in ([found] if isinstance(found, Use) else found)]

        return play

    def _placed(self, use: Use) -> Use:
        """With the address of the pages, of which the script does not know the port."""
        url = use.arguments.get("url") if isinstance(use.arguments, dict) else None
        if not isinstance(url, str) or not isinstance(use.arguments, dict):
            return use
        return replace(use, arguments={**use.arguments, "url": url.replace("{site}", self.site)})


def read(path: str, **how: Any) -> Use:
    return Use("read_file", {"path": path, **how})


def reading(*paths: str) -> tuple[Use, ...]:
    return tuple(map(read, paths))


def page(path: str) -> Callable[[Seen], Use]:
    """The next page of a file of which one was read."""
    return lambda seen: read(path, **seen.next(path))


def look(path: str = ".") -> Use:
    return Use("list_files", {"path": path})


def calc(expr: str) -> Use:
    return Use("calculator", {"expr": expr})


def now(timezone: str = "UTC") -> Use:
    return Use("current_time", {"timezone": timezone})


def write(path: str, text: str) -> Use:
    return Use("write_file", {"path": path, "text": text})


def edit(path: str, old: str, new: str) -> Callable[[Seen], Use]:
    return lambda seen: Use("edit_file", {"path": path, "old": old, "new": new, "version": seen.version(path)})


def trash(path: str) -> Callable[[Seen], Use]:
    return lambda seen: Use("trash_file", {"path": path, "version": seen.version(path)})


def total(rows: Sequence[Mapping[str, str]], column: str) -> str:
    """The sum as an expression, as a model hands it to the calculator."""
    return "+".join(row[column] for row in rows)
