"""What calls of plugins in WebAssembly and of programs share: files of granted folders, secrets, answers, health."""

import base64
import json
import os
import secrets
import stat
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.programs.tool_output import MAX_VALUES, Failure, has_many
from ozzie_server_ext.programs.wasm_http import Failed, Grants, Refused, Request, WebRequests
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.protocol.tool_host import MAX_OUTPUT_CHARS, Output
from ozzie_server_ext.tools.safe_open import closing, open_below, parts_below

MAX_FILE = 1 << 20
MAX_LOGGED = 100
"""Lines in the log of one call."""
MAX_LOGGED_CHARS = 500
MAX_TOLD = 200
"""Characters of a wish and of the words about it."""


class Granted(Protocol):
    """What was granted to a plugin, and the project that it is for."""

    @property
    def granted(self) -> Collection[str]: ...

    @property
    def project(self) -> str: ...


_DOES = {"fs_read": "read", "fs_write": "write"}


def expect_folder(plugin: Granted, kind: str, path: str) -> tuple[str, ...]:
    """Return the components of a path in a granted folder. Raises Refused, OutsideProject."""
    parts = parts_below(path)
    for wish in plugin.granted:
        granted, _, folder = wish.partition(":")
        if granted == kind and (folder == "." or parts[: folder.count("/") + 1] == tuple(folder.split("/"))):
            return parts
    raise Refused(f"{kind}:{'/'.join(parts)}", f"Nobody granted this plugin to {_DOES[kind]} {path}.")


def write_file(plugin: Granted, parts: tuple[str, ...], content: bytes) -> None:
    """Write a plain file of the project, whole or not at all. Raises Failed, ToolFailed."""
    *folders, name = parts
    with closing(open_below(Path(plugin.project), "/".join(folders), folder=True)) as folder:
        _replace(folder, name, content)


def _replace(folder: int, name: str, content: bytes) -> None:
    """Write a plain file in an open folder. Raises Failed where something else has its name."""
    mode = 0o644
    with suppress(FileNotFoundError):
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(info.st_mode) or info.st_nlink != 1:
            raise Failed(f"{name} is no plain file, or has further names.")
        mode = stat.S_IMODE(info.st_mode) & 0o777
    temporary = f".new-{secrets.token_hex(8)}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def without_secrets(text: str, secrets: Mapping[str, str]) -> str:
    """Remove a plugin's secrets from a text, also as they are written in base64."""
    for value in secrets.values():
        if value:
            text = text.replace(value, "***").replace(base64.b64encode(value.encode()).decode(), "***")
    return text


def read_answer(raw: bytes) -> Json:
    """Return the JSON that a plugin answers with. Raises InvalidJson, Failure."""
    value = loads(raw, max_bytes=MAX_OUTPUT_CHARS, surrogates="repair")
    if has_many(value):
        raise Failure("plugin.garbage", f"Its answer has more than {MAX_VALUES:,} values.")
    return value


def output_of(value: Json) -> Output:
    """Return the output of an answer, which says of a failure `{"error": words}`."""
    if isinstance(value, dict) and value.keys() == {"error"}:
        words = value["error"]
        return Output(texts=(words if isinstance(words, str) else json.dumps(words),), failed=True)
    return Output(structured=value)


async def health_at(url: str) -> Output:
    """Ask the address of a health check, which was granted with the plugin."""
    parts = urlsplit(url)
    place = f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
    requests = WebRequests(Grants([f"GET {place}"]))
    try:
        answer = await requests.send(Request("GET", url))
    except (Failed, Refused) as error:
        return Output(texts=(str(error),), failed=True)
    finally:
        await requests.close()
    words = f"{place} answers with the status {answer.status}."
    return Output(structured=True) if 200 <= answer.status < 300 else Output(texts=(words,), failed=True)
