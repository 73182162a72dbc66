"""Signing in to an MCP server with a browser, here or on another machine, from a terminal.

The browser comes back to a port of this machine that is open meanwhile, or a person pastes the address at which it
ended.
"""

import asyncio
import os
import sys
import threading
import webbrowser
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack, suppress
from urllib.parse import parse_qs, urlsplit

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.plugins.sign_ins import SignIns
from ozzie_server_ext.plugins.tool_host import ToolHost
from ozzie_server_ext.protocol.tool_host import Client, Grant, SignIn
from ozzie_server_ext.render.text import LINE_WIDTH, quoted, wrapped

WITHIN_S = 600.0
_MAX_HEAD = 16 * 1024
_HEAD_S = 10.0
_PATH = "/callback"


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """Who signs in to what: the server's name, key and address; `client` as whom and `scope` the rights, if a person
    says so; `yes`: nobody is asked about hosts."""

    name: str
    key: str
    url: str
    client: Client | None = None
    scope: str = ""
    yes: bool = False


async def sign_in(host: ToolHost, sign_ins: SignIns, wish: Wish) -> Grant:
    """Have a person sign in. Raises ServerFailed, and Conflict if they do so elsewhere just now."""
    with sign_ins.signing_in(wish.key):
        known = await asyncio.to_thread(sign_ins.known, wish.key, wish.name, wish.url)
        async with Callback(known.client.redirect if known else "") as callback:
            client = wish.client
            if client is None and known is not None and known.client.redirect == callback.address:
                # It need not register again. What was given is for the server that it was used at.
                client = msgspec.structs.replace(known.client, issuer=known.client.issuer or known.issuer)
            request = SignIn(
                id="sign-in",
                url=wish.url,
                redirect=callback.address,
                within_s=WITHIN_S,
                client=client,
                scope=wish.scope,
            )
            person = _Person(wish, callback, has_secret=client is not None and client.secret != "")
            return await host.sign_in(request, meet=person.meet, visit=person.visit)


class _Person:
    """Whoever signs in, at the terminal. `has_secret`: Ozzie is known there as a client with a secret."""

    def __init__(self, wish: Wish, callback: "Callback", *, has_secret: bool) -> None:
        self._wish = wish
        self._callback = callback
        self._would = "may send the secret of its client there" if has_secret else "would register there"

    async def meet(self, host: str) -> bool:
        """Say which host the sign-in leads to, and ask whether to go there."""
        name = quoted(self._wish.name)
        _say(f"{name} leads to {quoted(host)}. You would sign in there, and Ozzie {self._would}.")
        if self._wish.yes:
            return True
        print("Go there? [y/N] ", end="", file=sys.stderr, flush=True)
        return (await typed_line()).strip().lower() in ("y", "yes")

    async def visit(self, url: str) -> str:
        """Show the address, open it where that is possible, and return the one where the browser ended."""
        state = _one(url, "state")
        if not url.startswith(("https://", "http://")) or not url.isascii() or not url.isprintable() or not state:
            raise InputError("The address to sign in at is none that a browser should open.", code="mcp.auth")
        _say(f"Open this address in a browser, and sign in to {quoted(self._wish.name)}:")
        print(f"\n{url}\n", file=sys.stderr, flush=True)
        if _has_browser(os.environ):
            # It may not return before the browser ends.
            threading.Thread(target=_open, args=(url,), name="browser", daemon=True).start()
        waits: list[Awaitable[str]] = [self._callback.wait_for(state)]
        if sys.stdin.isatty():
            _say("It goes on by itself. If your browser is on another machine, paste here the address where it ended:")
            _prompt()
            waits.append(_pasted(state))
        brought = await _first(waits)
        print(file=sys.stderr)
        return brought


def _say(text: str) -> None:
    print(*wrapped(text, LINE_WIDTH), sep="\n", file=sys.stderr, flush=True)


def _prompt() -> None:
    print("> ", end="", file=sys.stderr, flush=True)


def _one(url: str, name: str) -> str:
    """Return a parameter of an address that it has once, or ""."""
    try:
        values = parse_qs(urlsplit(url).query, max_num_fields=30).get(name, [])
    except ValueError:
        return ""
    return values[0] if len(values) == 1 else ""


def _has_browser(env: Mapping[str, str]) -> bool:
    """Whether a window can be opened here. A browser of text would take over the terminal."""
    return bool(env.get("BROWSER") or env.get("DISPLAY") or env.get("WAYLAND_DISPLAY")) or sys.platform == "darwin"


def _open(url: str) -> None:
    with suppress(OSError, webbrowser.Error):
        webbrowser.open(url)


async def typed_line() -> str:
    """Return the next line that is typed, without holding up anything else; "" at the end of input."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    number = sys.stdin.fileno()

    def read() -> None:
        if not line.done():
            line.set_result(os.read(number, 16 * 1024).decode(errors="replace"))

    loop.add_reader(number, read)
    try:
        return await line
    finally:
        loop.remove_reader(number)


async def _pasted(state: str) -> str:
    while line := (await typed_line()):
        if _one(line.strip(), "state") == state:
            return line.strip()
        if line.strip():
            _say("That is not where this sign-in ends. It begins with http://127.0.0.1 and has a code in it:")
            _prompt()
    await asyncio.Event().wait()  # the end of input is no answer
    raise AssertionError("it waits until it is cancelled")


async def _first(waits: list[Awaitable[str]]) -> str:
    tasks = [asyncio.ensure_future(each) for each in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return done.pop().result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


class Callback:
    """A port of this machine to which the browser comes back: `http://127.0.0.1:PORT/callback`, if possible at the
    `earlier` address, with which Ozzie is registered. It takes no answer but that to the visit that it waits for."""

    def __init__(self, earlier: str = "") -> None:
        self._earlier = earlier
        self._state = ""
        self._brought: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._stack = AsyncExitStack()
        self.address = ""

    async def __aenter__(self) -> "Callback":
        port = urlsplit(self._earlier).port or 0 if self._earlier.startswith("http://127.0.0.1:") else 0
        try:
            server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=_MAX_HEAD)
        except OSError:
            server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_MAX_HEAD)
        await self._stack.enter_async_context(server)
        self.address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{_PATH}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def wait_for(self, state: str) -> str:
        """Return the address where the browser ended after the visit with this state."""
        self._state = state
        return await self._brought

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            status, words = self._taken(head.split(b"\r\n", 1)[0].decode("latin-1"))
            body = f"<!doctype html><meta charset=utf-8><title>Ozzie</title><p>{words}</p>".encode()
            lines = (
                f"HTTP/1.1 {status}",
                "Content-Type: text/html; charset=utf-8",
                f"Content-Length: {len(body)}",
                "Cache-Control: no-store",
                "Referrer-Policy: no-referrer",
                "Content-Security-Policy: default-src 'none'",
                "Connection: close",
            )
            writer.write("\r\n".join((*lines, "", "")).encode() + body)
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _taken(self, line: str) -> tuple[str, str]:
        """Take what a browser brings; return the status and the words for its page."""
        method, _, rest = line.partition(" ")
        target = rest.rpartition(" ")[0]
        if method != "GET" or urlsplit(target).path != _PATH:
            return "404 Not Found", "There is nothing here."
        if not self._state or _one(target, "state") != self._state or self._brought.done():
            return "400 Bad Request", "This does not belong to the sign-in that Ozzie waits for."
        self._brought.set_result(f"{self.address}{target.removeprefix(_PATH)}")
        return "200 OK", "Ozzie has what it waited for. You can close this page."
