"""What a plugin may ask for, one by one, and how a person is told (docs/plugins.md, What a plugin asks for).

A plugin may do nothing that it did not ask for and a person did not grant. What it asks for is a set of small wishes: a
later version asks for more if its set is no part of what was granted.
"""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self, TypeAlias, cast, get_args

import msgspec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, model_validator

from ozzie_server_ext.config.validation import like
from ozzie_server_ext.domain.paths import path_parts
from ozzie_server_ext.policy.patterns import HostPattern
from ozzie_server_ext.render.text import quoted

MOST = 50
"""Entries of one list. Nobody reads a longer one."""

Kind: TypeAlias = Literal["http", "kv", "log", "fs_read", "fs_write", "env", "config", "secret"]
Method: TypeAlias = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
ANY_METHOD = "ANY"
"""In place of a method, in what a program asks for: what it sends can't be seen."""


ANY_HOST = "*"
"""Any host of the public internet."""


def _host(pattern: str) -> str:
    """Return a host, `*.example.org` or `*` in its normal form. Raises ValueError for anything else."""
    if pattern == ANY_HOST:
        return pattern
    if not pattern.isprintable():
        raise ValueError("a host has only characters that can be seen")
    found = HostPattern.of(pattern)
    if found.network is not None:
        raise ValueError("an IP address is no host: a plugin asks for hosts by their names")
    if "." not in found.host:
        raise ValueError(f'"{found.host}" has no dot: name the host, as in "api.example.org"')
    return f"*.{found.host}" if found.below else found.host


def _folder(path: str) -> str:
    """Return a folder of the project in its normal form. Raises ValueError for anything else."""
    parts = path_parts(path)
    if parts is None or not path.isprintable():
        raise ValueError('this is no folder of the project: a plugin asks for folders below it, as in "data"')
    if any("*" in part for part in parts):
        raise ValueError("a folder has no *: name it, and all below it is meant")
    return "/".join(parts) or "."


_NAMED = "may hold letters, digits and '_' only, and begins with a letter or '_'"
Name = Annotated[str, like(r"[A-Za-z_][A-Za-z0-9_]{0,127}", _NAMED)]
Names = Annotated[tuple[Name, ...], Field(max_length=MOST)]
Hosts = Annotated[tuple[Annotated[str, AfterValidator(_host)], ...], Field(min_length=1, max_length=MOST)]
Folders = Annotated[tuple[Annotated[str, AfterValidator(_folder)], ...], Field(max_length=MOST)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


_TOO_WIDE = {
    "http": '"http" names its hosts, as in {"allowed_hosts": ["api.example.org"]}',
    "filesystem": 'all files are too much: name folders, as in "fs_read": ["data"]',
    "fs_read": '"fs_read" names folders, as in ["data"]',
    "fs_write": '"fs_write" names folders, as in ["results"]',
    "env": '"env" names variables, as in ["LANG"]',
    "secrets": '"secrets" names them, as in ["SEARCH_API_KEY"]',
}


class Http(_Part):
    """Requests to these hosts, and to none that they lead to; without methods, GET alone."""

    allowed_hosts: Hosts
    methods: Annotated[tuple[Method, ...], Field(min_length=1)] = ("GET",)


class Wish(msgspec.Struct, frozen=True, order=True):
    """One thing that a plugin asks for. `value` is a host behind a method or `ANY_METHOD`, a folder, or a name; empty
    for `kv`, `log` and all of the configuration."""

    kind: Kind
    value: str = ""

    def __str__(self) -> str:
        """The form in which a grant is recorded: "http:GET api.example.org"."""
        return f"{self.kind}:{self.value}" if self.value else self.kind

    @classmethod
    def of(cls, text: str) -> "Wish":
        """Read a recorded form. Raises ValueError."""
        kind, _, value = text.partition(":")
        if kind not in get_args(Kind):
            raise ValueError(f'"{text}" is nothing that a plugin asks for')
        return cls(cast(Kind, kind), value)

    @property
    def only_reads(self) -> bool:
        """Whether nothing outside of the plugin can be changed by it: GET is safe by RFC 9110, section 9.2.1."""
        return self.kind != "fs_write" and (self.kind != "http" or self.value.startswith(("GET ", "HEAD ")))


class Capabilities(_Part):
    """What a manifest asks for, in the forms of the documents (docs/documents.md). What it does not name, it does not
    get."""

    http: Http | None = None
    kv: StrictBool = False
    log: StrictBool = False
    fs_read: Folders = ()
    fs_write: Folders = ()
    env: Names = ()
    config: Names | StrictBool = ()
    secrets: Names = ()

    @model_validator(mode="before")
    @classmethod
    def _yes_or_no(cls, given: Any) -> Any:
        """Read `false` as nothing, and explain why `true` is not taken where that would be everything."""
        if not isinstance(given, dict):
            return given
        for name, why in _TOO_WIDE.items():
            if given.get(name) is True:
                raise ValueError(why)
        return {name: each for name, each in given.items() if not (each is False and name in _TOO_WIDE)}

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        hosts, methods = (self.http.allowed_hosts, self.http.methods) if self.http else ((), ())
        lists = {"allowed_hosts": hosts, "methods": methods, "fs_read": self.fs_read, "fs_write": self.fs_write}
        lists |= {"env": self.env, "secrets": self.secrets}
        for name, listed in lists.items():
            if len(set(listed)) < len(listed):
                raise ValueError(f'"{name}" names something twice')
        return self

    @property
    def wishes(self) -> frozenset[Wish]:
        """All of it, one by one."""
        found = {Wish("http", f"{method} {host}") for method, host in self._requests()}
        found |= {Wish("kv")} if self.kv else set()
        found |= {Wish("log")} if self.log else set()
        found |= {Wish("fs_read", folder) for folder in self.fs_read}
        found |= {Wish("fs_write", folder) for folder in self.fs_write}
        found |= {Wish("env", name) for name in self.env}
        found |= {Wish("secret", name) for name in self.secrets}
        if self.config is True:
            found.add(Wish("config"))
        elif self.config:
            found |= {Wish("config", name) for name in self.config}
        return frozenset(found)

    @property
    def wishes_of_program(self) -> frozenset[Wish]:
        """The same for a program, whose requests can't be told apart."""
        hosts = self.http.allowed_hosts if self.http else ()
        others = {wish for wish in self.wishes if wish.kind != "http"}
        return frozenset(others | {Wish("http", f"{ANY_METHOD} {host}") for host in hosts})

    def _requests(self) -> list[tuple[Method, str]]:
        return [(method, host) for method in self.http.methods for host in self.http.allowed_hosts] if self.http else []


def sentences(wishes: Iterable[Wish]) -> tuple[str, ...]:
    """Return what a plugin asks for, for the person who grants it: a sentence each, the gravest first."""
    by_kind: dict[Kind, list[str]] = {}
    for wish in sorted(wishes):
        by_kind.setdefault(wish.kind, []).append(wish.value)
    return tuple(sentence for kind in _ORDER for sentence in _said(kind, by_kind.get(kind, [])))


_ORDER: tuple[Kind, ...] = ("secret", "fs_write", "http", "fs_read", "env", "config", "kv", "log")


def _said(kind: Kind, values: list[str]) -> list[str]:
    if not values:
        return []
    match kind:
        case "http":
            return _requests_said(values)
        case "secret":
            return [f"It may use the secret {quoted(value)}." for value in values]
        case "fs_write":
            return [f"It may change files in {_place(value)}." for value in values]
        case "fs_read":
            return [f"It may read files in {_place(value)}." for value in values]
        case "env":
            return [f"It may read the variable {quoted(value)} of the environment." for value in values]
        case "config":
            return [f"It may read {f'{quoted(value)} of ' if value else ''}its own configuration." for value in values]
        case "kv":
            return ["It may keep notes of its own between calls."]
        case "log":
            return ["It may write into Ozzie's log."]


def _requests_said(values: list[str]) -> list[str]:
    methods: dict[str, list[str]] = {}
    for value in values:
        method, _, host = value.partition(" ")
        methods.setdefault(host, []).append(method)
    return [
        f"It may send all that it is given or may read to {_host_said(host)}, and ask for anything there: Ozzie can't "
        "see what."
        if found == [ANY_METHOD]
        else f"It may send what it is given or may read to {_host_said(host)} ({', '.join(found)})."
        for host, found in methods.items()
    ]


def _host_said(host: str) -> str:
    if host == ANY_HOST:
        return "any host of the internet"
    return f"all hosts below {quoted(host[2:])}" if host.startswith("*.") else quoted(host)


def _place(folder: str) -> str:
    return "the whole project" if folder == "." else quoted(f"{folder}/")
