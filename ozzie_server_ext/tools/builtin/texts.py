"""A text file as a model reads and writes it: UTF-8, with lines that end in `\\n` whatever the file itself has."""

import hashlib
from dataclasses import dataclass, replace

from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.changes.outcome import FileChanged


@dataclass(frozen=True, slots=True)
class TextFile:
    """`text` has `\\n` at the ends of lines; the file has `\\r\\n` where `windows` is set, and begins with the mark of
    UTF-8 where `marked` is."""

    text: str
    windows: bool = False
    marked: bool = False

    @classmethod
    def of(cls, content: bytes, path: str) -> "TextFile":
        """Raises ToolFailed for what is no text, or one that could not be written back as it was."""
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise ToolFailed(f"{path} is not UTF-8 text, so it is not changed as text.") from None
        if "\0" in text:
            raise ToolFailed(f"{path} is not text.")
        marked = text.startswith("\ufeff")
        text = text.removeprefix("\ufeff")
        ends = text.count("\r\n")
        windows = ends > 0 and ends == text.count("\n")
        if windows:
            text = text.replace("\r\n", "\n")
        if "\r" in text:
            raise ToolFailed(f"{path} ends its lines in more than one way; a person has to settle that first.")
        return cls(text, windows, marked)

    def with_text(self, text: str) -> "TextFile":
        """The same file with another text, whose lines end as the file's do. Raises ToolFailed for what is no text."""
        text = text.replace("\r\n", "\n")
        text = text.removeprefix("\ufeff") if self.marked else text
        if "\0" in text or "\r" in text:
            raise ToolFailed("The new text has characters that are no text; nothing was written.")
        return replace(self, text=text)

    @property
    def content(self) -> bytes:
        text = self.text.replace("\n", "\r\n") if self.windows else self.text
        return (("\ufeff" if self.marked else "") + text).encode()


_PART = "-part"


def version_of(content: bytes) -> str:
    """What a file's content is called where somebody has to have seen it before it is changed."""
    return hashlib.sha256(content).hexdigest()[:16]


def version_read(content: bytes, *, whole: bool) -> str:
    """The same for who has read it. Where that was a part, it says so: that is enough to change a passage, and not to
    write the whole anew."""
    return version_of(content) + ("" if whole else _PART)


def expect_version(named: str, content: bytes, path: str, *, whole: bool) -> None:
    """Raises ToolFailed where `named` is not the version of the content, or where the whole has to have been read and
    was not."""
    if not named:
        raise ToolFailed(f"{path} is there already: read it first, and name its version.")
    if named.removesuffix(_PART) != version_of(content):
        raise FileChanged(f"{path} has changed since it was read; read it again.")
    if whole and named.endswith(_PART):
        raise ToolFailed(
            f"Only a part of {path} was read, and the rest would be lost: read all of it at once, or change a passage "
            "with edit_file."
        )
