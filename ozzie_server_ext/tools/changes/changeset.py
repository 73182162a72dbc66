"""Change sets: the file changes that a command proposes, kept as an artifact until somebody applies them.

The artifact `changes/HASH.json` has for each file the hash of the version it was made from, the new hash and the new
content. Artifacts are redacted, so the hash shows whether the content still is what the command left.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from hashlib import sha256
from itertools import pairwise

import msgspec

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.execution.sandbox_files import MAX_CHANGED_FILES
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import readable_parts

FOLDER = "changes/"
"""Where change sets are among the artifacts."""
REVERSE = " (replaced).json"
"""The ending of the name of a set that undoes another."""
MAX_PATH = 1024
"""Characters."""
_FORMAT = 1
_MAX_BYTES = 192 * 1024 * 1024
"""Bytes of the JSON: a character of text can take six."""


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """`before` is the SHA-256 (hexadecimal) that the file must have; None if there must be no file. `content` is the
    new one; None removes the file. `executable` None leaves that as it is."""

    path: str
    before: str | None
    content: bytes | None
    executable: bool | None = None

    @property
    def after(self) -> str | None:
        return None if self.content is None else sha256(self.content).hexdigest()

    def text(self) -> str:
        content: JsonObject = {}
        if self.content is not None:
            text = text_of(self.content)
            content = {"base64": base64.b64encode(self.content).decode()} if text is None else {"text": text}
        document: JsonObject = {
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "executable": self.executable,
            **content,
        }
        return json.dumps(document, ensure_ascii=False, indent=1)


class ChangeSet(msgspec.Struct, frozen=True):
    """File changes, sorted by path. No path is below another."""

    files: tuple[FileChange, ...]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    def text(self) -> str:
        files = ",\n".join(file.text() for file in self.files)
        return f'{{"format": {_FORMAT}, "files": [\n{files}\n]}}\n'

    def name(self, ending: str = ".json") -> str:
        """The artifact's name: the same for the same changes."""
        return f"{FOLDER}{sha256(self.text().encode()).hexdigest()[:12]}{ending}"


def text_of(content: bytes) -> str | None:
    """Return the content as text; None if it is not text."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def nested(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return a path and another one below it; None if there are none."""
    keys = sorted(path.split("/") for path in paths)  # a path is directly followed by what is below it
    found = next(((one, two) for one, two in pairwise(keys) if two[: len(one)] == one), None)
    return None if found is None else ("/".join(found[0]), "/".join(found[1]))


def read_changes(content: bytes, name: str) -> ChangeSet:
    """Parse the artifact `name`. Raises ToolFailed if it was altered."""
    try:
        document = loads_object(content, max_bytes=_MAX_BYTES)
        files = document["files"]
        if document["format"] != _FORMAT or not isinstance(files, list) or not 0 < len(files) <= MAX_CHANGED_FILES:
            raise ValueError
        found = tuple(_file(each, name) for each in files)
    except (InvalidJson, KeyError, TypeError, ValueError, binascii.Error):
        raise _altered(f"{name} can't be read as changes of files") from None
    paths = [file.path for file in found]
    if paths != sorted(set(paths)) or nested(paths) is not None:
        raise _altered(f"{name} can't be read as changes of files")
    return ChangeSet(found)


def _file(entry: Json, name: str) -> FileChange:
    """Raises ToolFailed, KeyError, TypeError, ValueError."""
    if not isinstance(entry, dict):
        raise TypeError
    path, before, after, executable = entry["path"], entry["before"], entry["after"], entry["executable"]
    if not isinstance(path, str) or len(path) > MAX_PATH or path != "/".join(readable_parts(path)):
        raise ValueError
    if not isinstance(before, str | None) or not isinstance(executable, bool | None):
        raise TypeError
    content: bytes | None = None
    if after is not None:
        content = base64.b64decode(str(entry["base64"]), validate=True) if "base64" in entry else _text(entry).encode()
    change = FileChange(path=path, before=before, content=content, executable=executable)
    if change.after != after:
        raise _altered(f"{path} is in {name} not as the command left it")
    if before is None and content is None:
        raise ValueError
    return change


def _text(entry: JsonObject) -> str:
    text = entry["text"]
    if not isinstance(text, str):
        raise TypeError
    return text


def _altered(what: str) -> ToolFailed:
    return ToolFailed(
        f"{what}: a secret may have been taken out of it. Nothing was done; change such a file with edit_file."
    )
