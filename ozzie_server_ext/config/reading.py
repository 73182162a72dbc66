"""Reading a file of settings: what stands in its place, as text, as a document; each complaint names the file."""

import errno
import os
import stat
from pathlib import Path

from ozzie_server_ext.config.jsonc import Document, parse
from ozzie_server_ext.domain.errors import InputError

MAX_BYTES = 4 << 20
"""What is read of any file at most, before anybody knows what it is."""


class ConfigError(InputError):
    """A configuration file can't be taken; each line of the message names file, line, column and key."""

    code = "config.invalid"


def content_if_there(file: Path) -> bytes | None:
    """Its bytes; None where no file is there. What stands in its place and can't be read is no reason to go on without
    it.

    Raises ConfigError.
    """
    try:
        return _read(file)
    except FileNotFoundError:
        if file.is_symlink():
            raise ConfigError(f"{file}: leads nowhere.", hint="Mend the link or remove it.") from None
        return None
    except NotADirectoryError:
        return None
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror}.") from None


def content_of(file: Path) -> bytes:
    """Its bytes. Raises ConfigError, also where no file is there."""
    content = content_if_there(file)
    if content is None:
        raise ConfigError(f"{file}: is not there.")
    return content


def _read(file: Path) -> bytes:
    """Raises ConfigError and OSError. A pipe is not waited for, and no more is read than a file may hold: an untrusted
    one is read too."""
    try:
        with open(file, "rb", opener=_at_once) as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                raise _no_file(file)
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        if error.errno in (errno.EISDIR, errno.ENXIO):  # a folder, a socket
            raise _no_file(file) from None
        raise
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{file}: is larger than {MAX_BYTES >> 20} MiB.", hint="Make it smaller or move it away.")
    return content


def _at_once(name: str, flags: int) -> int:
    return os.open(name, flags | os.O_NONBLOCK)


def _no_file(file: Path) -> ConfigError:
    return ConfigError(f"{file}: is not a file.", hint="Move it away.")


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
