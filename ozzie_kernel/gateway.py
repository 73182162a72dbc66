"""A kernel's link to the gateway: opened when needed, and opened again when it has ended."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from ozzie_kernel.client import REQUEST_TIMEOUT_S, GatewayLost, Refused
from ozzie_kernel.connect import Link, SessionChoice, ask_running
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject

MAX_PENDING = 32
FIRST_PAUSE_S, LAST_PAUSE_S = 0.25, 15.0
"""Pauses between looking for a gateway that still has to get a request: at first, and later."""

_LINK_IS_OVER = frozenset({GatewayLost.code, "gateway.unreachable"})


@dataclass(frozen=True, slots=True)
class _Pending:
    """A request about a session that a gateway still has to get."""

    method: str
    params: Mapping[str, Any]
    session_id: str


class GatewayConnection:
    """Holds one link at a time. `connect` opens it, and raises Unavailable, and Refused with the gateway's error.
    `ask_running` sends a request to any running gateway, as the user and without a link; it raises the same."""

    def __init__(
        self,
        connect: Callable[[SessionChoice], Awaitable[Link]],
        ask_running: Callable[[str, Mapping[str, Any]], Awaitable[JsonObject]] = ask_running,
    ) -> None:
        self._connect = connect
        self._ask_running = ask_running
        self._connecting: asyncio.Future[Link] | None = None
        self._session_id = ""
        self._pending: deque[_Pending] = deque(maxlen=MAX_PENDING)
        self._delivering: asyncio.Task[None] | None = None

    def begin(self) -> "asyncio.Future[Link]":
        """Start connecting unless linked or connecting; return the future link."""
        if not self._is_linked():
            self._connecting = asyncio.ensure_future(self._link(SessionChoice(again=self._session_id)))
            # Its failure is read when it is needed.
            self._connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        assert self._connecting is not None
        return self._connecting

    async def link(self) -> Link:
        """Return the open link, or a new one. Raises as `connect`."""
        return await asyncio.shield(self.begin())

    async def switch(self, choice: SessionChoice) -> Link:
        """See `magic.Host`."""
        before = await self.link()
        try:
            link = await self._link(choice)
        except Refused:
            raise
        except BaseException:
            # The notebook's session is unknown now: the next cell asks the gateway again.
            self._connecting, self._session_id = None, ""
            raise
        self._connecting = asyncio.get_running_loop().create_future()
        self._connecting.set_result(link)
        await before.client.close()
        return link

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        as_user: bool = False,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> JsonObject:
        """See `magic.Host`."""
        link = await self.link()
        try:
            return await _ask_over(link, method, params or {}, as_user=as_user, timeout_s=timeout_s)
        except Unavailable as error:
            if error.code not in _LINK_IS_OVER:
                raise
        # The first request after a gateway's death notices it.
        await link.client.close()
        return await _ask_over(await self.link(), method, params or {}, as_user=as_user, timeout_s=timeout_s)

    async def ask_in_passing(self, method: str, params: Mapping[str, Any], *, as_user: bool = False) -> JsonObject:
        """Return the answer over an open or opening link, or {} if there is none: nothing is started.

        Raises as `ask`.
        """
        if self._connecting is None or not self._is_linked():
            return {}
        return await _ask_over(await asyncio.shield(self._connecting), method, params, as_user=as_user)

    def deliver(self, method: str, params: Mapping[str, Any]) -> None:
        """Deliver a request without fail, whenever a gateway answers: over the current link or a new one, else over the
        next link before any other use, or to the first gateway that runs again, whoever started it. An answer or a
        refusal completes it. Beyond MAX_PENDING, the oldest are dropped."""
        self._pending.append(_Pending(method, params, self._session_id))
        if self._delivering is None or self._delivering.done():
            self._delivering = asyncio.create_task(self._deliver())

    async def _deliver(self) -> None:
        for _ in range(2):  # the first link may have ended unnoticed
            try:
                await self._deliver_over(await self.link())
            except GatewayLost:
                continue
            except OzzieError:
                pass
            break
        pause = FIRST_PAUSE_S
        while self._pending:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_PAUSE_S)
            with suppress(OzzieError):
                if self._is_linked():
                    await self._deliver_over(await self.link())
                else:
                    # Start no gateway for this: where none runs, nothing goes on either.
                    await self._deliver_all(lambda pending: self._ask_running(pending.method, pending.params))

    async def _deliver_over(self, link: Link) -> None:
        """Raises Unavailable; the rest stays pending."""
        await self._deliver_all(
            # The kernel's own token is for one session, which may have changed.
            lambda one: _ask_over(link, one.method, one.params, as_user=one.session_id != link.session_id)
        )

    async def _deliver_all(self, ask: Callable[[_Pending], Awaitable[JsonObject]]) -> None:
        while self._pending:
            pending = self._pending[0]
            try:
                await ask(pending)
            except Unavailable:
                raise
            except OzzieError:
                pass  # refused: nothing is left to do
            if self._pending and self._pending[0] is pending:
                self._pending.popleft()

    def _is_linked(self) -> bool:
        """Return whether a link is open or opening."""
        connecting = self._connecting
        if connecting is None or not connecting.done():
            return connecting is not None
        return not connecting.cancelled() and connecting.exception() is None and not connecting.result().client.closed

    async def _link(self, choice: SessionChoice) -> Link:
        link = await self._connect(choice)
        # From here on the kernel keeps this session, wherever its notebook is moved.
        self._session_id = link.session_id
        if self._pending:
            with suppress(OzzieError):
                await self._deliver_over(link)
        return link


async def _ask_over(
    link: Link, method: str, params: Mapping[str, Any], *, as_user: bool, timeout_s: float = REQUEST_TIMEOUT_S
) -> JsonObject:
    async with link.as_user() if as_user else nullcontext(link.client) as client:
        return await client.request(method, params, timeout_s=timeout_s)
