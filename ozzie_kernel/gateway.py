"""The gateway as one kernel has it: a link that is made when it is needed, and made anew when it has ended."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from ozzie_kernel.client import GatewayLost, Refused
from ozzie_kernel.connect import Link, SessionChoice, ask_running
from ozzie_server_ext.domain.errors import OzzieError, Unavailable
from ozzie_server_ext.domain.json import JsonObject

MAX_OWED = 32
LOOK_FIRST_S, LOOK_LAST_S = 0.25, 15.0
"""How long is waited between two looks for a gateway, where one is owed a request: at first, and later."""

_LINK_IS_OVER = frozenset({GatewayLost.code, "gateway.unreachable"})


@dataclass(frozen=True, slots=True)
class _Owed:
    """A request that a gateway has still to get, about a session."""

    method: str
    params: Mapping[str, Any]
    session_id: str


class Gateway:
    """One link at a time. `connect` makes it: it raises Unavailable, and Refused with the gateway's own words.
    `ask_running` asks whatever gateway runs, as the user and without a link; it raises the same."""

    def __init__(
        self,
        connect: Callable[[SessionChoice], Awaitable[Link]],
        ask_running: Callable[[str, Mapping[str, Any]], Awaitable[JsonObject]] = ask_running,
    ) -> None:
        self._connect = connect
        self._ask_running = ask_running
        self._connecting: asyncio.Future[Link] | None = None
        self._session_id = ""
        self._owed: deque[_Owed] = deque(maxlen=MAX_OWED)
        self._paying: asyncio.Task[None] | None = None

    def begin(self) -> "asyncio.Future[Link]":
        """Begins to connect, where no link stands or is being made; what that comes to."""
        if not self._stands():
            self._connecting = asyncio.ensure_future(self._link(SessionChoice(again=self._session_id)))
            # Its failure is asked for when it is needed.
            self._connecting.add_done_callback(lambda done: done.cancelled() or done.exception())
        assert self._connecting is not None
        return self._connecting

    async def link(self) -> Link:
        """The link that stands, or a new one. Raises what `connect` raises."""
        return await asyncio.shield(self.begin())

    async def switch(self, choice: SessionChoice) -> Link:
        """See `magic.Host`."""
        before = await self.link()
        try:
            link = await self._link(choice)
        except Refused:
            raise
        except BaseException:
            # Which session the notebook has now, nobody knows here: the next cell asks anew.
            self._connecting, self._session_id = None, ""
            raise
        self._connecting = asyncio.get_running_loop().create_future()
        self._connecting.set_result(link)
        await before.client.close()
        return link

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, as_user: bool = False) -> JsonObject:
        """See `magic.Host`."""
        link = await self.link()
        try:
            return await _ask_over(link, method, params or {}, as_user=as_user)
        except Unavailable as error:
            if error.code not in _LINK_IS_OVER:
                raise
        # A gateway that has just died is found out by the first who asks it.
        await link.client.close()
        return await _ask_over(await self.link(), method, params or {}, as_user=as_user)

    async def ask_in_passing(self, method: str, params: Mapping[str, Any], *, as_user: bool = False) -> JsonObject:
        """The answer over a link that stands or is being made; empty where there is none, for nothing is started.

        Raises what `ask` raises.
        """
        if self._connecting is None or not self._stands():
            return {}
        return await _ask_over(await asyncio.shield(self._connecting), method, params, as_user=as_user)

    def owe(self, method: str, params: Mapping[str, Any]) -> None:
        """Have the gateway asked for this by all means, whenever one answers: over the link that stands or can be had,
        else over the next one before it is used for anything else, or at the first gateway that runs again, whoever
        started it. An answer or a refusal ends it. Of more than MAX_OWED, the oldest are forgotten."""
        self._owed.append(_Owed(method, params, self._session_id))
        if self._paying is None or self._paying.done():
            self._paying = asyncio.create_task(self._pay())

    async def _pay(self) -> None:
        for _ in range(2):  # the first link may be one whose end nobody has noticed yet
            try:
                await self._pay_over(await self.link())
            except GatewayLost:
                continue
            except OzzieError:
                pass
            break
        pause = LOOK_FIRST_S
        while self._owed:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LOOK_LAST_S)
            with suppress(OzzieError):
                if self._stands():
                    await self._pay_over(await self.link())
                else:
                    # No gateway of our own is started for it: where none runs, nothing goes on either.
                    await self._settle(lambda owed: self._ask_running(owed.method, owed.params))

    async def _pay_over(self, link: Link) -> None:
        """Raises Unavailable, and what is left is still owed."""
        await self._settle(
            # The kernel's own token is good for one session, which may be another by now.
            lambda owed: _ask_over(link, owed.method, owed.params, as_user=owed.session_id != link.session_id)
        )

    async def _settle(self, ask: Callable[[_Owed], Awaitable[JsonObject]]) -> None:
        while self._owed:
            owed = self._owed[0]
            try:
                await ask(owed)
            except Unavailable:
                raise
            except OzzieError:
                pass  # refused: there is nothing to be done any more
            if self._owed and self._owed[0] is owed:
                self._owed.popleft()

    def _stands(self) -> bool:
        """Whether there is a connection, or is going to be one."""
        connecting = self._connecting
        if connecting is None or not connecting.done():
            return connecting is not None
        return not connecting.cancelled() and connecting.exception() is None and not connecting.result().client.closed

    async def _link(self, choice: SessionChoice) -> Link:
        link = await self._connect(choice)
        # From here on it has this one, wherever its notebook is moved to.
        self._session_id = link.session_id
        if self._owed:
            with suppress(OzzieError):
                await self._pay_over(link)
        return link


async def _ask_over(link: Link, method: str, params: Mapping[str, Any], *, as_user: bool) -> JsonObject:
    async with link.as_user() if as_user else nullcontext(link.client) as client:
        return await client.request(method, params)
