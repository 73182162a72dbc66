"""The gateway's side of a tool host: connections to MCP servers and loaded plugins, and calls of their tools
(docs/plugins.md)."""

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeAlias, TypeVar

from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.channel import CallDropped, Channel, ChannelLost, Inbox
from ozzie_server_ext.planes.supervisor import PlaneUnavailable, Supervisor
from ozzie_server_ext.protocol.codec import InvalidShape, decode, encode
from ozzie_server_ext.protocol.jsontext import InvalidJson, canonical_bytes, loads
from ozzie_server_ext.protocol.ndjson import LineTooLong
from ozzie_server_ext.protocol.tool_host import (
    MAX_OUTPUT_CHARS,
    Abort,
    Answer,
    Connect,
    Connected,
    Elicit,
    Error,
    Given,
    Grant,
    Granted,
    HostEvent,
    Invoke,
    Meet,
    Output,
    Piece,
    Progress,
    PromptList,
    Reach,
    Refresh,
    Refused,
    Renew,
    ResourceList,
    SignIn,
    Stop,
    Tools,
    Visit,
    Wanted,
    Wrote,
    message_json,
    parse_event,
)

log = logger(__name__)

HOST_ARGV = (sys.executable, "-P", "-m", "ozzie_server_ext.programs.tool_host")
"""`-P`: a `json.py` in the user's folder must not replace the library's."""
_SPARE_S = 5.0
"""How much longer than the host we wait for an answer: it says better why there is none."""

OnProgress: TypeAlias = Callable[[str], None]
OnRefused: TypeAlias = Callable[[Refused], None]
OnWrote: TypeAlias = Callable[[str], None]
OnElicit: TypeAlias = Callable[[Elicit], Awaitable[Given]]
"""Has a person asked what a server wants to know."""
OnRenew: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns another token in place of one that was rejected, or ""."""


class ServerFailed(Unavailable):
    """A server could not be reached, or a call of it failed. `was_sent`: the call may have taken effect. `scope`: the
    rights that a sign-in lacks."""

    code = "mcp.failed"

    def __init__(self, message: str, *, code: str, was_sent: bool = False, hint: str = "", scope: str = "") -> None:
        super().__init__(message, hint=hint, code=code)
        self.was_sent = was_sent
        self.scope = scope


class Connection:
    """A connection to a server, or a loaded plugin, made by `ToolHost.open`. `info` is what a server said of itself;
    `tools` are those of now."""

    def __init__(self, channel: Channel, inbox: Inbox, info: Connected, renew: OnRenew) -> None:
        self.info = info
        self.tools = info.tools
        self._channel = channel
        self._inbox = inbox
        self._renew = renew
        self._numbers = itertools.count(1)
        self.open_calls = 0
        self._is_retired = False
        self._failure: Unavailable | None = None
        self._following = asyncio.create_task(self._follow(), name=f"connection {info.id}")

    @property
    def is_open(self) -> bool:
        return self._failure is None

    async def resources(self, *, within_s: float) -> ResourceList:
        """Return the resources that the server lists now. Raises ServerFailed."""
        return _listed(ResourceList, await self.call("", {}, within_s=within_s, wants="resources"))

    async def prompts(self, *, within_s: float) -> PromptList:
        """Return the prompts that the server lists now. Raises ServerFailed."""
        return _listed(PromptList, await self.call("", {}, within_s=within_s, wants="prompts"))

    async def completions(
        self, name: str, argument: str, value: str, others: JsonObject, *, is_template: bool, within_s: float
    ) -> tuple[str, ...]:
        """Return what the server offers for an argument of its prompt, or of its template (`name`); nothing if it
        completes none. `others` are the values of other arguments. Raises ServerFailed."""
        if "completions" not in self.info.offers:
            return ()
        asked: JsonObject = {"argument": argument, "value": value, "others": others, "is_template": is_template}
        return (await self.call(name, asked, within_s=within_s, wants="completion")).texts

    async def call(
        self,
        tool: str,
        arguments: JsonObject,
        *,
        within_s: float,
        on_progress: OnProgress = lambda text: None,
        on_refused: OnRefused = lambda refused: None,
        on_wrote: OnWrote = lambda path: None,
        on_elicit: OnElicit | None = None,
        wants: Wanted = "tool",
    ) -> Output:
        """Call a tool, or ask for what else a server has (see `Invoke`). `on_refused` is told what a plugin asked for
        that nobody granted, `on_wrote` which file of the project it writes. `on_elicit` takes its time; without it,
        what a server asks is declined. Cancelling tells the server to stop. Raises ServerFailed."""
        self._expect_open()
        call_id = f"{self.info.id}.{next(self._numbers)}"
        invoke = Invoke(
            id=call_id, connection=self.info.id, tool=tool, arguments=arguments, within_s=within_s, wants=wants
        )
        try:
            inbox = self._channel.open_call(call_id, start=message_json(invoke), abort=message_json(Abort(id=call_id)))
        except ChannelLost as error:
            raise ServerFailed(str(error), code="mcp.lost") from None
        except LineTooLong as error:
            raise ServerFailed(str(error), code=error.code) from None
        self.open_calls += 1
        try:
            async with asyncio.timeout(within_s + _SPARE_S) as limit:

                async def elicited(question: Elicit) -> None:
                    given = await _in_own_time(limit, (on_elicit or _declined)(question))
                    text = canonical_bytes(encode(given)).decode()
                    with suppress(ChannelLost):
                        self._channel.post(message_json(Answer(id=call_id, text=text)))

                return await _output(inbox, on_progress, on_refused, on_wrote, elicited)
        except TimeoutError:
            words = f"It did not answer within {within_s:g} s."
            raise ServerFailed(words, code="mcp.timeout", was_sent=True) from None
        finally:
            self.open_calls -= 1
            self._channel.close_call(inbox)
            if self._is_retired and not self.open_calls:
                self.close()

    def retire(self) -> None:
        """End the connection once its calls have ended; others are to take a new one."""
        self._is_retired = True
        if not self.open_calls:
            self.close()

    def close(self) -> None:
        """End the connection; a server that was started for it ends too."""
        self._failure = self._failure or ServerFailed("The connection was closed.", code="mcp.closed")
        self._following.cancel()
        self._channel.close_call(self._inbox)

    def _expect_open(self) -> None:
        if self._failure is not None:  # this call was not sent
            raise ServerFailed(str(self._failure), code="mcp.lost")

    async def _follow(self) -> None:
        """Take note of changed tools and renew tokens, until the connection ends."""
        try:
            while True:
                match await _next(self._inbox):
                    case Renew(token=token):
                        await _renewed(self._channel, self._inbox, self._renew, token)
                    case Tools(tools=tools):
                        self.tools = tools
                    case Stop():
                        raise ServerFailed("The connection has ended.", code="mcp.lost")
                    case _:
                        pass
        except Unavailable as error:
            self._failure = error
        finally:
            self._channel.close_call(self._inbox)


class ToolHost:
    """Opens connections to servers, in one child process."""

    def __init__(self, plane: Supervisor) -> None:
        self._plane = plane
        self._numbers = itertools.count(1)

    async def open(self, server: Reach, *, within_s: float, renew: OnRenew | None = None) -> Connection:
        """Connect to a server, or load a plugin. `renew` is called when a server rejects the token of a sign-in. Raises
        ServerFailed."""
        renew = renew or _no_other
        call_id = f"s{next(self._numbers)}"
        channel, inbox = await self._begun(Connect(id=call_id, server=server, within_s=within_s))
        try:
            async with asyncio.timeout(within_s + _SPARE_S):
                while isinstance(info := await _next(inbox), Renew):
                    await _renewed(channel, inbox, renew, info.token)
            if not isinstance(info, Connected):
                raise ServerFailed("The connection has ended.", code="mcp.lost")
        except TimeoutError:
            channel.close_call(inbox)
            raise ServerFailed(f"It did not answer within {within_s:g} s.", code="mcp.timeout") from None
        except ServerFailed as error:  # no call was sent, whatever became of the connection
            channel.close_call(inbox)
            raise ServerFailed(str(error), code=error.code, hint=error.hint, scope=error.scope) from None
        except BaseException:
            channel.close_call(inbox)
            raise
        return Connection(channel, inbox, info, renew)

    async def sign_in(
        self, sign_in: SignIn, *, meet: Callable[[str], Awaitable[bool]], visit: Callable[[str], Awaitable[str]]
    ) -> Grant:
        """Sign in to a server. `meet` returns whether a host may be contacted; `visit` has a person open an address,
        and returns the one where their browser ended. Raises ServerFailed, and what these raise."""

        async def answered(event: HostEvent) -> str:
            match event:
                case Meet(host=host):
                    return "yes" if await meet(host) else ""
                case Visit(url=url):
                    return await visit(url)
                case _:
                    return ""

        return await self._granted(sign_in, sign_in.within_s, answered)

    async def refresh(self, grant: Grant, *, within_s: float) -> Grant:
        """Exchange a refresh token for new tokens. Raises ServerFailed, with `mcp.signed_out` if it has ended."""
        call_id = f"s{next(self._numbers)}"
        return await self._granted(Refresh(id=call_id, grant=grant, within_s=within_s), within_s, None)

    async def _granted(
        self, command: SignIn | Refresh, within_s: float, answered: Callable[[HostEvent], Awaitable[str]] | None
    ) -> Grant:
        channel, inbox = await self._begun(command)
        grant: Grant | None = None
        try:
            async with asyncio.timeout(within_s + _SPARE_S):
                while not isinstance(event := await _next(inbox), Stop):
                    if isinstance(event, Granted):
                        grant = event.grant
                    elif answered is not None:
                        text = await _unless_it_ends(inbox, answered(event))
                        channel.post(message_json(Answer(id=command.id, text=text)))
        except TimeoutError:
            raise ServerFailed(f"It did not end within {within_s:g} s.", code="mcp.timeout") from None
        except (ChannelLost, LineTooLong) as error:
            raise ServerFailed(str(error), code=error.code) from None
        finally:
            channel.close_call(inbox)
        if grant is None:
            raise ServerFailed("The sign-in was stopped.", code="mcp.auth")
        return grant

    async def _begun(self, command: Connect | SignIn | Refresh) -> tuple[Channel, Inbox]:
        """Send a command that begins a call. Raises ServerFailed."""
        try:
            channel = await self._plane.channel()
        except PlaneUnavailable as error:
            raise ServerFailed(str(error), code=error.code, hint=error.hint) from None
        abort = message_json(Abort(id=command.id))
        try:
            return channel, channel.open_call(command.id, start=message_json(command), abort=abort)
        except (ChannelLost, LineTooLong) as error:
            raise ServerFailed(str(error), code=error.code) from None

    async def stop(self) -> None:
        """Stop the process, and with it all servers that it started."""
        await self._plane.stop()


async def _no_other(token: str) -> str:
    return ""


async def _renewed(channel: Channel, inbox: Inbox, renew: OnRenew, token: str) -> None:
    """Answer a connection that needs another token. Without one, its call fails and says why."""
    try:
        fresh = await renew(token)
    except OzzieError as error:
        log.info("a sign-in was not renewed: %s", error)
        fresh = ""
    with suppress(ChannelLost):
        channel.post(message_json(Answer(id=inbox.call_id, text=fresh)))


async def _unless_it_ends(inbox: Inbox, answer: Awaitable[str]) -> str:
    """Return an answer that takes a person's time. Raises ServerFailed if nobody waits for it any more."""
    answering = asyncio.ensure_future(answer)
    ending = asyncio.ensure_future(_next(inbox))
    try:
        await asyncio.wait({answering, ending}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        ending.result()
        raise ServerFailed("The sign-in was stopped.", code="mcp.auth")
    finally:
        answering.cancel()
        ending.cancel()
        await asyncio.wait({answering, ending})


async def _declined(question: Elicit) -> Given:
    return Given(action="decline")


async def _in_own_time(limit: asyncio.Timeout, answer: Awaitable[Given]) -> Given:
    """Return an answer for which a call waits; its time does not pass meanwhile. An error cancels the question."""
    now = asyncio.get_running_loop().time
    left_s = (limit.when() or now()) - now()
    limit.reschedule(None)
    try:
        return await answer
    except OzzieError as error:
        log.warning("a question of a server came to nothing: %s", error)
        return Given(action="cancel")
    finally:
        with suppress(RuntimeError):  # the call has ended
            limit.reschedule(now() + left_s)


async def _output(
    inbox: Inbox,
    on_progress: OnProgress,
    on_refused: OnRefused,
    on_wrote: OnWrote,
    elicited: Callable[[Elicit], Awaitable[None]],
) -> Output:
    pieces: list[str] = []
    size = 0
    asking: list[asyncio.Future[None]] = []
    try:
        while True:
            match await _next(inbox):
                case Progress(text=text):
                    on_progress(text)
                case Refused() as refused:
                    on_refused(refused)
                case Wrote(path=path):
                    on_wrote(path)
                case Elicit() as question:  # the call may end before there is an answer
                    asking.append(asyncio.ensure_future(elicited(question)))
                case (Piece(text=text) | Stop(text=text)) as piece:
                    pieces.append(text)
                    size += len(text)
                    if size > MAX_OUTPUT_CHARS:
                        raise ServerFailed("Its result is too long.", code="mcp.too_long", was_sent=True)
                    if isinstance(piece, Piece):
                        continue
                    return await asyncio.to_thread(_parsed, pieces) if size > 1 << 16 else _parsed(pieces)
                case _:
                    pass
    finally:
        for each in asking:
            each.cancel()
        if asking:
            await asyncio.wait(asking)


T = TypeVar("T", ResourceList, PromptList)


def _listed(kind: type[T], output: Output) -> T:
    try:
        return decode(kind, output.structured)
    except InvalidShape as error:
        raise ServerFailed(f"Its list can't be read: {error}", code="mcp.garbage") from None


def _parsed(pieces: list[str]) -> Output:
    try:
        value = loads("".join(pieces).encode(), max_bytes=6 * MAX_OUTPUT_CHARS, surrogates="repair")
        return decode(Output, value)
    except (InvalidJson, InvalidShape) as error:
        raise ServerFailed(f"Its result can't be read: {error}", code="mcp.garbage", was_sent=True) from None


async def _next(inbox: Inbox) -> HostEvent:
    """Return the next event of a call. Raises ServerFailed for its failure, and at the end of the host."""
    try:
        event = parse_event(await inbox.get())
    except (ChannelLost, CallDropped) as error:
        raise ServerFailed(f"The process of its server is gone. {error}", code="mcp.lost", was_sent=True) from None
    except InvalidShape as error:
        words = f"The process of its server sent nonsense: {error}"
        raise ServerFailed(words, code="mcp.garbage", was_sent=True) from None
    if isinstance(event, Error):
        raise ServerFailed(event.message, code=event.code, was_sent=event.was_sent, scope=event.scope)
    return event
