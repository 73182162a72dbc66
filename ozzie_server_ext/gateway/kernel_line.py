"""One connection to one kernel, that can't be flooded: what is too large is not received, what is too much waits."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from uuid import uuid4

import zmq
import zmq.asyncio

from ozzie_server_ext.observability.logs import logger

log = logger(__name__)

MOST_BYTES = 12 * 1024 * 1024
"""Of a message's part. Of a kernel that sends a larger one, nothing that it shows is received any more: the transport
can't skip a part, and ends the connection."""
_MOST_WAITING = 16
"""Messages that were received and not read."""
_LIGHT = 64 * 1024
"""In bytes: what is more is parsed in a thread, so that the server goes on meanwhile."""
_AGAIN_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`process` is what the kernel that sent it calls itself; `is_reply`: it came to the one who asked, not to all."""

    kind: str
    parent: str
    process: str
    content: Mapping[str, Any]
    is_reply: bool


class KernelLine:
    """To be entered; it lets go of everything at its end. `manager` is jupyter_client's, of one kernel."""

    def __init__(self, manager: Any) -> None:
        context: zmq.asyncio.Context = zmq.asyncio.Context.shadow(manager.context)
        context.setsockopt(zmq.MAXMSGSIZE, MOST_BYTES)
        context.setsockopt(zmq.RCVHWM, _MOST_WAITING)
        # Nothing waits for a kernel that is not there: another process would run it.
        context.setsockopt(zmq.IMMEDIATE, 1)
        client = manager.client(context=context)
        self._session = client.session
        # Kernels tell those who ask apart by this, also two of ours.
        self._session.session = uuid4().hex
        self._shell: Any = None
        self._shown: Any = None
        self._watch: Any = None
        self._client = client
        self.is_cut_off = False
        """Nothing that the kernel shows is received any more: it sent too much at once, or it ended."""

    def __enter__(self) -> "KernelLine":
        self._shown = self._client.connect_iopub()
        self._watch = self._shown.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        self._shell = self._client.connect_shell(identity=self._session.bsession)
        self._poller = zmq.asyncio.Poller()
        self._poller.register(self._shown, zmq.POLLIN)
        self._poller.register(self._shell, zmq.POLLIN)
        self._poller.register(self._watch, zmq.POLLIN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._watch is not None:
            self._shown.disable_monitor()
        for socket in (self._watch, self._shown, self._shell):
            if socket is not None:
                socket.close(linger=0)

    async def send(self, kind: str, content: Mapping[str, Any], within_s: float) -> str:
        """The id of the message. Raises TimeoutError where the kernel is not there to take it: then it was not sent."""
        message = self._session.msg(kind, content)
        # Not by the session itself: it would wait for the kernel, and the whole server with it.
        async with asyncio.timeout(within_s):
            await self._shell.send_multipart(self._session.serialize(message))
        return str(message["header"]["msg_id"])

    async def greet(self, within_s: float) -> Message | None:
        """What the kernel says of itself, once all that it shows is received too, unless that was cut off; None where
        it does not answer."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        asked: set[str] = set()
        answer: Message | None = None
        again = 0.0
        while (now := loop.time()) < end:
            if now >= again:
                # What it shows is lost until the kernel knows that we listen, so it is asked until that is so.
                try:
                    asked.add(await self.send("kernel_info_request", {}, end - now))
                except TimeoutError:
                    return None
                again = loop.time() + _AGAIN_S
            for message in await self.read(min(end, again) - loop.time()):
                if message.parent not in asked:
                    continue
                if message.is_reply:
                    answer = message
                    if self.is_cut_off:
                        return answer
                elif answer is not None and message.process == answer.process:
                    return answer
        return None

    async def read(self, within_s: float) -> list[Message]:
        """What came, at most a message of each kind; nothing where none came in that time."""
        events = dict(await self._poller.poll(max(int(within_s * 1000), 0)))
        found: list[Message] = []
        if self._watch in events:
            await self._watch.recv_multipart(zmq.NOBLOCK)
            self.is_cut_off = True
        # What is shown comes first: a reply ends the wait.
        for socket in (self._shown, self._shell):
            if socket in events:
                try:
                    parts = await socket.recv_multipart(zmq.NOBLOCK)
                except zmq.Again:
                    continue
                if (message := await self._message(parts, is_reply=socket is self._shell)) is not None:
                    found.append(message)
        await asyncio.sleep(0)  # where messages always wait, nothing of the above lets anybody else on
        return found

    async def _message(self, parts: list[bytes], *, is_reply: bool) -> Message | None:
        if sum(map(len, parts)) > _LIGHT:
            return await asyncio.to_thread(self._parsed, parts, is_reply=is_reply)
        return self._parsed(parts, is_reply=is_reply)

    def _parsed(self, parts: list[bytes], *, is_reply: bool) -> Message | None:
        try:
            _, rest = self._session.feed_identities(parts)
            raw = self._session.deserialize(rest)
            header, parent, content = raw["header"], raw["parent_header"], raw["content"]
            return Message(
                kind=str(header["msg_type"]),
                parent=str(parent.get("msg_id", "")),
                process=str(header.get("session", "")),
                content=content if isinstance(content, dict) else {},
                is_reply=is_reply,
            )
        except Exception as error:  # whatever a kernel sends; also the greeting that is no message of Jupyter's
            log.debug("a kernel sent what is no message: %s", error)
            return None
