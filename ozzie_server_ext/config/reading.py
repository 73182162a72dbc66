"""Reading a file of settings: what stands in its place, as text, as a document; each complaint names the file."""

import stat
from pathlib import Path

from ozzie_server_ext.config.jsonc import Document, parse
from ozzie_server_ext.domain.errors import InputError


class ConfigError(InputError):
    """A configuration file can't be taken; each line of the message names file, line, column and key."""

    code = "config.invalid"


def is_there(file: Path) -> bool:
    """Whether there is a file to read. What stands in its place and can't be read is no reason to go on without it.

    Raises ConfigError.
    """
    try:
        mode = file.stat().st_mode
    except FileNotFoundError:
        if file.is_symlink():
            raise ConfigError(f"{file}: leads nowhere.", hint="Mend the link or remove it.") from None
        return False
    except NotADirectoryError:
        return False
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{file}: is not a file.", hint="Move it away.")
    return True


def content_of(file: Path) -> bytes:
    """Its bytes. Raises ConfigError."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}.") from None


def text_of(content: bytes, file: Path) -> str:
    """The content as text. Raises ConfigError."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 text, byte {error.start} is wrong.") from None


def parse_object(content: bytes, file: Path) -> Document:
    """The document in it, which is an object. Raises ConfigError or JsoncError."""
    document = parse(text_of(content, file), str(file))
    if not isinstance(document.value, dict):
        raise ConfigError(f"{document.places[()]}: expected an object in braces.")
    return document
