"""The gateway as one kernel has it: a link that is made when it is needed, and made anew when it has ended."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from typing import Any

from ozzie_kernel.client import GatewayLost, Refused
from ozzie_kernel.connect import Link, SessionChoice
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.json import JsonObject

_LINK_IS_OVER = frozenset({GatewayLost.code, "gateway.unreachable"})


class Gateway:
    """One link at a time. `connect` makes it: it raises Unavailable, and Refused with the gateway's own words."""

    def __init__(self, connect: Callable[[SessionChoice], Awaitable[Link]]) -> None:
        self._connect = connect
        self._connecting: asyncio.Future[Link] | None = None
        self._session_id = ""

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
        return link


async def _ask_over(link: Link, method: str, params: Mapping[str, Any], *, as_user: bool) -> JsonObject:
    async with link.as_user() if as_user else nullcontext(link.client) as client:
        return await client.request(method, params)
