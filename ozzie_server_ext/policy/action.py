"""What is decided upon: a call, what it names, and who wants it from where."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.domain.toolmeta import TargetKind, ToolMeta
from ozzie_server_ext.policy.globs import folded
from ozzie_server_ext.policy.hosts import Host, host_of
from ozzie_server_ext.policy.reading import UNREAD, Given, Reading

T = TypeVar("T")

MAX_WORDS = 256
MAX_WORD_CHARACTERS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whom a call is made for, and where: the project's folder without links in its path, the channel, the user as
    Jupyter knows them, and whether anybody is there to be asked."""

    project: str = ""
    channel: str = ""
    user: str = ""
    attended: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """A call to be decided upon, with all that its arguments name: paths by their components, hosts, commands by their
    words. None stands for what can't be read as such. Rules that ask or deny compare the folded ones, which are made
    once here and not again by each rule. `reading` is what it is made from, `given` who gave each address that it
    names."""

    meta: ToolMeta
    caller: Caller
    paths: tuple[tuple[str, ...] | None, ...] = ()
    hosts: tuple[Host | None, ...] = ()
    commands: tuple[tuple[str, ...] | None, ...] = ()
    reading: Reading = UNREAD
    given: tuple[Given, ...] = ()
    args: Mapping[str, Json] = field(default_factory=dict[str, Json])
    folded_paths: tuple[tuple[str, ...] | None, ...] = field(init=False)
    folded_commands: tuple[tuple[str, ...] | None, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "folded_paths", tuple(map(_folded, self.paths)))
        object.__setattr__(self, "folded_commands", tuple(map(_folded, self.commands)))

    @classmethod
    def of(cls, meta: ToolMeta, args: Mapping[str, Json], caller: Caller, reading: Reading = UNREAD) -> "Action":
        """The call of that tool with those arguments, which `Tool.check` accepted."""
        given = [(target.kind, args.get(target.argument)) for target in meta.targets]
        urls = [value for kind, value in given if kind is TargetKind.URL]
        return cls(
            meta=meta,
            caller=caller,
            paths=tuple(_each(path_parts, [value for kind, value in given if kind is TargetKind.PATH])),
            hosts=tuple(_each(host_of, urls)),
            commands=tuple(_words(value) for kind, value in given if kind is TargetKind.COMMAND and value is not None),
            reading=reading,
            given=tuple(gave or "" for gave in _each(reading.gave, urls)),
            args=args,
        )


def _folded(parts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    return None if parts is None else tuple(map(folded, parts))


def _each(read: Callable[[str], T | None], values: Iterable[Json]) -> Iterator[T | None]:
    for value in values:
        for text in value if isinstance(value, list) else () if value is None else (value,):
            yield read(text) if isinstance(text, str) else None


def _words(value: Json) -> tuple[str, ...] | None:
    """The words of a command. A line for a shell is not read: what it does is for the shell alone to say."""
    if not isinstance(value, list) or not 0 < len(value) <= MAX_WORDS:
        return None
    words = tuple(word for word in value if isinstance(word, str) and len(word) <= MAX_WORD_CHARACTERS)
    return words if len(words) == len(value) else None
