"""What a plugin in WebAssembly can call: each host function, for what a person granted (docs/writing-plugins.md).

A host function takes texts and returns JSON, `{"ok": …}` or `{"error": "…"}`. It runs in the thread of its call.
"""

import asyncio
import concurrent.futures
import os
import re
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.programs.plane_child import note
from ozzie_server_ext.programs.plugin_calls import (
    MAX_FILE,
    MAX_LOGGED,
    MAX_LOGGED_CHARS,
    MAX_TOLD,
    expect_folder,
    without_secrets,
    write_file,
)
from ozzie_server_ext.programs.wasm_http import MAX_BODY, Failed, Refused, Request, Requests
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object, repair_text
from ozzie_server_ext.protocol.tool_host import Module
from ozzie_server_ext.tools.base import ToolFailed
from ozzie_server_ext.tools.safe_open import closing as closing_descriptor
from ozzie_server_ext.tools.safe_open import open_below

T = TypeVar("T")

MAX_REQUESTS = 50
MAX_REFUSALS = 20
"""Of one call that are told to people. Each is told to the plugin."""
MAX_PLACEHOLDERS = 20
MAX_NOTES = 1 << 20
"""Bytes of all keys and texts that a plugin keeps."""
_MAX_KEY = 512
# As bytes: of a text, SQLite counts the characters before the first NUL.
_SIZE = "SELECT total(length(CAST(key AS BLOB)) + length(CAST(value AS BLOB))) FROM notes"
_SECRET = re.compile(r"\$\{secret:([A-Za-z_]\w{0,127})\}", re.ASCII)
_METHOD = re.compile(r"[A-Z]{1,10}")


class HostCall:
    """What one call of a plugin asks of the host. `requests` sends its web requests on the loop. In the call's thread,
    `on_refused` is told of what nobody granted, the wish and a sentence, and `on_wrote` of each file before it is
    written."""

    def __init__(
        self,
        module: Module,
        requests: Requests,
        loop: asyncio.AbstractEventLoop,
        on_refused: Callable[[str, str], None],
        on_wrote: Callable[[str], None],
    ) -> None:
        self._module = module
        self._requests = requests
        self._loop = loop
        self._on_refused = on_refused
        self._on_wrote = on_wrote
        self._refusals = 0
        self._granted = frozenset(module.granted)
        self._sent = 0
        self._logged = 0
        self._waiting: concurrent.futures.Future[Any] | None = None
        self.was_stopped = False
        self.has_acted = False
        """Whether it has sent or written something that may have had an effect."""
        self.error = ""
        """What the plugin says of its failure."""

    def stop(self) -> None:
        """End what the call waits for, from the loop's thread; whatever it asks for later fails."""
        self.was_stopped = True
        if (waiting := self._waiting) is not None:
            waiting.cancel()

    def answer(self, name: str, texts: list[str]) -> JsonObject:
        """Run a host function. Never raises: Extism would swallow it, and the plugin would read nothing."""
        if self.was_stopped:
            return {"error": "The call was stopped."}
        try:
            return {"ok": FUNCTIONS[name](self, *texts)}
        except Refused as refused:
            self._tell_refused(refused)
            return {"error": str(refused)}
        except (Failed, InvalidJson, ToolFailed) as error:
            return {"error": str(error)}
        except Exception as error:
            note(f"The host function {name} broke: {type(error).__name__}.")
            return {"error": "Ozzie made a mistake of its own."}

    def _tell_refused(self, refused: Refused) -> None:
        self._refusals += 1
        if self._refusals <= MAX_REFUSALS:
            told = (without_secrets(text, self._module.secrets)[:MAX_TOLD] for text in (refused.wish, str(refused)))
            self._on_refused(*told)

    # --- host functions -------------------------------------------------------------------------------------------

    def kv_get(self, key: str) -> Json:
        self._expect("kv", "notes of its own")
        with self._notes() as notes:
            row = notes.execute("SELECT value FROM notes WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def kv_set(self, key: str, value: str) -> Json:
        self._expect("kv", "notes of its own")
        if len(key) > _MAX_KEY:
            raise Failed(f"The key has more than {_MAX_KEY} characters.")
        with self._notes() as notes, notes:
            notes.execute("BEGIN IMMEDIATE")
            if value:
                notes.execute("INSERT OR REPLACE INTO notes VALUES (?, ?)", (key, value))
            else:
                notes.execute("DELETE FROM notes WHERE key = ?", (key,))
            (size,) = notes.execute(_SIZE).fetchone()
            if size > MAX_NOTES:
                raise Failed(f"A plugin may keep {MAX_NOTES >> 10} kB.")
        return None

    def log(self, level: str, message: str) -> Json:
        self._expect("log", "Ozzie's log")
        self._logged += 1
        if self._logged <= MAX_LOGGED:
            words = without_secrets(message, self._module.secrets)[:MAX_LOGGED_CHARS]
            note(f"plugin {self._module.name}, {level[:10]!r}: {words!r}")
        return None

    def get_secret(self, name: str) -> Json:
        return self._secret(name)

    def get_env(self, name: str) -> Json:
        self._expect(f"env:{name}", f"the variable {name}")
        return self._module.env.get(name)

    def get_config(self, name: str) -> Json:
        if "config" not in self._granted:
            self._expect(f"config:{name}", f"{name} of its configuration")
        return self._module.config.get(name)

    def http_request(self, url: str, method: str, body: str) -> Json:
        return self._request(method, url, {}, body)

    def http_send(self, request: str) -> Json:
        given = loads_object(request.encode(), max_bytes=len(request) * 4)
        headers = given.get("headers", {})
        texts = [given.get("method", "GET"), given.get("url", ""), given.get("body", "")]
        if not isinstance(headers, dict) or not all(isinstance(each, str) for each in (*texts, *headers.values())):
            raise Failed("A request has the texts method, url and body, and headers, texts by their names.")
        method, url, body = map(str, texts)
        return self._request(method, url, {name: str(value) for name, value in headers.items()}, body)

    def file_read(self, path: str) -> Json:
        expect_folder(self._module, "fs_read", path)
        with closing_descriptor(open_below(Path(self._module.project), path, folder=False)) as descriptor:
            content = os.read(descriptor, MAX_FILE + 1)
        if len(content) > MAX_FILE:
            raise Failed(f"{path} has more than {MAX_FILE >> 20} MiB.")
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise Failed(f"{path} is no text in UTF-8.") from None

    def file_write(self, path: str, text: str) -> Json:
        parts = expect_folder(self._module, "fs_write", path)
        if not parts or len(text.encode()) > MAX_FILE:
            raise Failed(f"A text of at most {MAX_FILE >> 20} MiB is written, to a file.")
        self.has_acted = True
        self._on_wrote("/".join(parts))
        write_file(self._module, parts, text.encode())
        return None

    # --- what they share ------------------------------------------------------------------------------------------

    def _expect(self, wish: str, what: str) -> None:
        """Raise Refused for what nobody granted."""
        if wish not in self._granted:
            raise Refused(wish, f"Nobody granted this plugin {what}.")

    def _secret(self, name: str) -> str:
        self._expect(f"secret:{name}", f"the secret {name}")
        if (value := self._module.secrets.get(name)) is None:
            raise Failed(f"The secret {name} is not set. Set it: ozzie secrets set {name}")
        return value

    def _request(self, method: str, url: str, headers: Mapping[str, str], body: str) -> Json:
        self._sent += 1
        if self._sent > MAX_REQUESTS:
            raise Failed(f"A call may make {MAX_REQUESTS} requests.")
        if _METHOD.fullmatch(method) is None:
            raise Failed("A method is one word in capital letters, as GET.")
        texts = [url, body, *headers.values()]
        if sum(map(len, texts)) > 2 * MAX_BODY or sum(text.count("${secret:") for text in texts) > MAX_PLACEHOLDERS:
            raise Failed("The request is too long.")
        filled, content, *values = map(self._filled, texts)
        has_secret = [filled, content, *values] != texts
        sent = dict(zip(headers, values, strict=True))
        if method not in ("GET", "HEAD"):
            self.has_acted = True
        answer = self._wait(self._requests.send(Request(method, filled, sent, content.encode(), has_secret, url)))
        back: JsonObject = {
            name: without_secrets(repair_text(value), self._module.secrets) for name, value in answer.headers.items()
        }
        return {
            "status": answer.status,
            "headers": back,
            "body": without_secrets(answer.body.decode(errors="replace"), self._module.secrets),
        }

    def _filled(self, text: str) -> str:
        """Put secrets where a plugin names them, so that it need not see them."""
        return _SECRET.sub(lambda match: self._secret(match[1]), text)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` on the loop, and wait for it. Raises what it raises; Failed once the call was stopped."""
        future = self._waiting = asyncio.run_coroutine_threadsafe(work, self._loop)
        if self.was_stopped:
            future.cancel()
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise Failed("The call was stopped.") from None
        finally:
            self._waiting = None

    @contextmanager
    def _notes(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._module.notes, timeout=5, isolation_level=None)) as notes:
            notes.execute("CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID")
            yield notes


FUNCTIONS: dict[str, Callable[..., Json]] = {
    "kv_get": HostCall.kv_get,
    "kv_set": HostCall.kv_set,
    "log": HostCall.log,
    "get_secret": HostCall.get_secret,
    "get_env": HostCall.get_env,
    "get_config": HostCall.get_config,
    "http_request": HostCall.http_request,
    "http_send": HostCall.http_send,
    "file_read": HostCall.file_read,
    "file_write": HostCall.file_write,
}
"""The host functions by the names under which plugins import them."""
