"""Owners and readers of secrets, and valid names and values."""

import hmac
import os
import re
import unicodedata
from pathlib import Path
from typing import Literal, NoReturn, SupportsIndex, TypeAlias

import msgspec

from ozzie_server_ext.vault.errors import BadSecret

_SHOWN = "Secret(…)"


class Secret:
    """A secret's value. Its text, repr and format are a fixed word; it can't be pickled, copied or made JSON.

    `reveal()` returns the value. Python can't wipe strings: from then on the value stays in memory as long as the
    system leaves it there, where a debugger, a core dump or swap may expose it.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return _SHOWN

    __str__ = __repr__

    def __format__(self, format_spec: str) -> str:
        return _SHOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value.encode(), other._value.encode())

    __hash__ = None  # pyright: ignore[reportAssignmentType]  # a hash would reveal whether two values are equal

    def __getstate__(self) -> NoReturn:
        raise TypeError("A secret can't be pickled or copied.")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("A secret can't be pickled or copied.")


MAX_VALUE_BYTES = 64 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}", re.ASCII)
_PLUGIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_MAX_PATH = 4096
_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
"""Unicode categories of control characters, lone surrogates and line breaks."""


class Scope(msgspec.Struct, frozen=True, order=True):
    """The owner of a secret: everybody (`owner` is empty), a project (`owner` is the absolute path of its folder), or a
    plugin (`owner` is its name). Raises BadSecret."""

    kind: Literal["everybody", "project", "plugin"] = "everybody"
    owner: str = ""

    def __post_init__(self) -> None:
        match self.kind:
            case "everybody" if not self.owner:
                return
            case "project" if self.owner.startswith("/") and len(self.owner) <= _MAX_PATH and _is_plain(self.owner):
                return
            case "plugin" if _PLUGIN.fullmatch(self.owner):
                return
            case _:
                raise BadSecret(
                    "A secret belongs to everybody, to a project's folder or to a plugin's name; this is none of them.",
                    hint="A folder's name has no control characters; a plugin's has letters, digits, . _ and -.",
                )

    def __str__(self) -> str:
        return f"{self.kind}:{self.owner}" if self.owner else self.kind


EVERYBODY = Scope()


class ProjectReader(msgspec.Struct, frozen=True, kw_only=True):
    """Ozzie itself, working in the project of this folder."""

    project: str

    @classmethod
    def at(cls, folder: Path) -> "ProjectReader":
        """Resolve links in the folder's path: two paths of one folder are one project."""
        return cls(project=os.path.realpath(folder))

    def places(self, name: str) -> tuple[Scope, ...]:
        """Return the scopes to search for a name, the most specific first."""
        return (Scope("project", self.project), EVERYBODY)


class PluginReader(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin: it sees its own secrets, and of the project's and everybody's only the names that its manifest declares
    and a person granted."""

    plugin: str
    project: str
    granted: frozenset[str] = frozenset()

    def places(self, name: str) -> tuple[Scope, ...]:
        own = Scope("plugin", self.plugin)
        return (own, Scope("project", self.project), EVERYBODY) if name in self.granted else (own,)

    def was_granted(self, name: str) -> bool:
        return name in self.granted


Reader: TypeAlias = ProjectReader | PluginReader


def checked_name(name: str) -> str:
    """Validate a name. Raises BadSecret, which does not repeat it: a value is easily put in the place of a name."""
    if not _NAME.fullmatch(name):
        raise BadSecret(
            "This is not a valid name for a secret.",
            hint="A name has at most 128 letters, digits and _, and does not begin with a digit: OPENAI_API_KEY",
        )
    return name


def checked_value(value: str) -> Secret:
    """Validate a value. Raises BadSecret, which reveals nothing of the value."""
    if not value:
        raise BadSecret("The value is empty.", hint="To remove a secret, use ozzie secrets rm.")
    if not _is_plain(value):
        raise BadSecret(
            "The value contains a line break or another control character.", hint="Copy it again, as one line of text."
        )
    if len(value.encode()) > MAX_VALUE_BYTES:
        raise BadSecret(f"The value is longer than {MAX_VALUE_BYTES:,} bytes.", hint="Store it in a file instead.")
    return Secret(value)


def _is_plain(text: str) -> bool:
    return not any(unicodedata.category(character) in _CONTROLS for character in text)
