"""Incidents: what happened that a person should look at, until they did or its cause is gone."""

import asyncio
from typing import Literal

import msgspec

from ozzie_server_ext.domain.clock import IdSource
from ozzie_server_ext.domain.errors import NotFound
from ozzie_server_ext.domain.events import Draft, Event, IncidentClosed, IncidentOpened
from ozzie_server_ext.store.log import EventLog

STREAM = "incidents"
MOST_OPEN = 50
"""Of one kind about one plugin. Further ones are not recorded before some are closed."""


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An incident, and how it was closed; None while it is open. `opened_at` and `closed_at` are ISO times."""

    opened: IncidentOpened
    opened_at: str
    closed: IncidentClosed | None = None
    closed_at: str = ""


class Incidents:
    """The incidents of this gateway, folded from their stream when they are first needed."""

    def __init__(self, log: EventLog, ids: IdSource) -> None:
        self._log = log
        self._ids = ids
        self._known: dict[str, Incident] | None = None
        self._changing = asyncio.Lock()

    async def all(self) -> tuple[Incident, ...]:
        """Return all incidents, the newest first."""
        async with self._changing:
            return tuple(reversed((await self._fold()).values()))

    async def open(self, kind: Literal["refused", "turned_off", "unhealthy"], about: str, **rest: str) -> None:
        """Open an incident, unless one of this kind, `about`, `detail` and `project` is open. `rest` are the further
        fields of `IncidentOpened`."""
        async with self._changing:
            known = await self._fold()
            which = (kind, about, rest.get("project", ""))
            still = [each.opened.detail for each in known.values() if each.closed is None and _which(each) == which]
            if len(still) >= MOST_OPEN or rest.get("detail", "") in still:
                return
            fact = IncidentOpened(
                incident_id=self._ids.new(),
                kind=kind,
                about=about,
                detail=rest.get("detail", ""),
                message=rest.get("message", ""),
                project=rest.get("project", ""),
            )
            await self._append(fact)

    async def close(self, incident_id: str, *, by: str) -> Incident:
        """Close an incident for a person; a closed one stays as it is. Raises NotFound."""
        async with self._changing:
            known = await self._fold()
            if incident_id not in known:
                raise NotFound(f"There is no incident {incident_id}.", code="incident.unknown")
            if known[incident_id].closed is None:
                await self._append(IncidentClosed(incident_id=incident_id, why="person", by=by))
            return known[incident_id]

    async def settle(
        self,
        kind: Literal["refused", "turned_off", "unhealthy"],
        about: str,
        why: Literal["granted", "turned_on", "healthy", "gone"],
        *,
        project: str,
        details: frozenset[str] | None = None,
    ) -> None:
        """Close the open incidents of a kind whose cause is gone; with `details`, those alone."""
        async with self._changing:
            for each in list((await self._fold()).values()):
                opened = each.opened
                if (
                    each.closed is None
                    and _which(each) == (kind, about, project)
                    and (details is None or opened.detail in details)
                ):
                    await self._append(IncidentClosed(incident_id=opened.incident_id, why=why))

    async def _append(self, fact: IncidentOpened | IncidentClosed) -> None:
        actor = "user" if isinstance(fact, IncidentClosed) and fact.why == "person" else "system"
        (event,) = await self._log.append(STREAM, [Draft(body=fact, actor=actor, source="plugin")])
        _take(await self._fold(), event)

    async def _fold(self) -> dict[str, Incident]:
        if self._known is None:
            known: dict[str, Incident] = {}
            for event in await self._log.read_stream(STREAM):
                _take(known, event)
            self._known = known
        return self._known


def _which(incident: Incident) -> tuple[str, str, str]:
    return incident.opened.kind, incident.opened.about, incident.opened.project


def _take(known: dict[str, Incident], event: Event) -> None:
    match event.body:
        case IncidentOpened() as opened:
            known[opened.incident_id] = Incident(opened=opened, opened_at=event.ts.isoformat())
        case IncidentClosed() as closed if closed.incident_id in known:
            known[closed.incident_id] = msgspec.structs.replace(
                known[closed.incident_id], closed=closed, closed_at=event.ts.isoformat()
            )
        case _:
            pass
