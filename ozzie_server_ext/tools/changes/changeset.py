"""What a command would change in files of the project, as it is kept among the artifacts until somebody applies it.

An artifact `changes/HASH.json` holds it: for each file the version that it was made from, the new one's hash, and its
content. The hash tells whether the content is what the command left: secrets are taken out of artifacts.
"""

import base64
import binascii
import json
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.execution.sandbox_files import MAX_CHANGED_FILES
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import readable_parts

FOLDER = "changes/"
"""Where they stand among the artifacts."""
REVERSE = " (replaced).json"
"""How the name of one ends that takes another one back."""
MAX_PATH = 1024
"""In characters."""
_FORMAT = 1
_MAX_BYTES = 192 * 1024 * 1024
"""Of the JSON: in text, a character can take six bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """`before` is the SHA-256 of the content that the file has to have, hexadecimal; None where there must be no file.
    `content` is the new one; None where the file goes. `executable` says what it is to be, None leaves it."""

    path: str
    before: str | None
    content: bytes | None
    executable: bool | None = None

    @property
    def after(self) -> str | None:
        """The SHA-256 of the new content."""
        return None if self.content is None else sha256(self.content).hexdigest()

    def text(self) -> str:
        """As it stands in the artifact."""
        content: JsonObject = {}
        if self.content is not None:
            text = text_of(self.content)
            content = {"base64": base64.b64encode(self.content).decode()} if text is None else {"text": text}
        said: JsonObject = {
            "path": self.path,
            "before": self.before,
            "after": self.after,
            "executable": self.executable,
            **content,
        }
        return json.dumps(said, ensure_ascii=False, indent=1)


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes of files, in the order of their paths. No path lies below another one."""

    files: tuple[FileChange, ...]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    def text(self) -> str:
        """The artifact's content."""
        files = ",\n".join(file.text() for file in self.files)
        return f'{{"format": {_FORMAT}, "files": [\n{files}\n]}}\n'

    def name(self, ending: str = ".json") -> str:
        """The artifact's name: the same for the same changes."""
        return f"{FOLDER}{sha256(self.text().encode()).hexdigest()[:12]}{ending}"


def text_of(content: bytes) -> str | None:
    """The content as text; None where it is none."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def nested(paths: Iterable[str]) -> tuple[str, str] | None:
    """A path that lies below another one of them, behind that one; None where none does."""
    keys = sorted(path.split("/") for path in paths)  # what lies below a path comes right behind it
    found = next(((one, two) for one, two in pairwise(keys) if two[: len(one)] == one), None)
    return None if found is None else ("/".join(found[0]), "/".join(found[1]))


def read_changes(content: bytes, name: str) -> ChangeSet:
    """What an artifact called `name` holds. Raises ToolFailed where that is not what was kept."""
    try:
        said = loads_object(content, max_bytes=_MAX_BYTES)
        files = said["files"]
        if said["format"] != _FORMAT or not isinstance(files, list) or not 0 < len(files) <= MAX_CHANGED_FILES:
            raise ValueError
        found = tuple(_file(each, name) for each in files)
    except (InvalidJson, KeyError, TypeError, ValueError, binascii.Error):
        raise _other(f"{name} can't be read as changes of files") from None
    paths = [file.path for file in found]
    if paths != sorted(set(paths)) or nested(paths) is not None:
        raise _other(f"{name} can't be read as changes of files")
    return ChangeSet(found)


def _file(said: Json, name: str) -> FileChange:
    """Raises ToolFailed, KeyError, TypeError, ValueError."""
    if not isinstance(said, dict):
        raise TypeError
    path, before, after, executable = said["path"], said["before"], said["after"], said["executable"]
    if not isinstance(path, str) or len(path) > MAX_PATH or path != "/".join(readable_parts(path)):
        raise ValueError
    if not isinstance(before, str | None) or not isinstance(executable, bool | None):
        raise TypeError
    content: bytes | None = None
    if after is not None:
        content = base64.b64decode(str(said["base64"]), validate=True) if "base64" in said else _text(said).encode()
    change = FileChange(path=path, before=before, content=content, executable=executable)
    if change.after != after:
        raise _other(f"{path} is in {name} not as the command left it")
    if before is None and content is None:
        raise ValueError
    return change


def _text(said: JsonObject) -> str:
    text = said["text"]
    if not isinstance(text, str):
        raise TypeError
    return text


def _other(what: str) -> ToolFailed:
    return ToolFailed(
        f"{what}: a secret may have been taken out of it. Nothing was done; change such a file with edit_file."
    )
