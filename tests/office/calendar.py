"""Calendars: events with and without others, invitations, and when people are free."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, Reached, ToolResult
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from tests.office.contract import (
    Offered,
    acts,
    changes,
    looks,
    named,
    next_id,
    objects,
    plain,
    reached,
    recipients,
    titled,
    told,
)

When = Annotated[str, Field(description="2026-03-02T14:00", pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d$")]
Day = Annotated[str, Field(description="2026-03-02", pattern=r"^\d{4}-\d\d-\d\d$")]
Guests = Annotated[list[str], Field(description="Addresses of those who are invited.", max_length=50)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    event_id: str
    title: str
    begin: str
    end: str
    guests: tuple[str, ...] = ()
    place: str = ""
    text: str = ""
    by: str = "ana@firm.example"
    answer: str = ""


class Calendar:
    def __init__(self, *events: Event, busy: dict[str, tuple[tuple[str, str], ...]] | None = None) -> None:
        """`busy`: when others can't, by address."""
        self.events = {each.event_id: each for each in events}
        self.told: list[tuple[str, str]] = []
        """Whom the service wrote to, and of which event: guests hear of all that changes."""
        self.words: list[tuple[str, str]] = []
        """Events that were cancelled or answered with a few words, and these words; whoever is told reads them."""
        self._busy = busy or {}

    def _tell(self, event_id: str, people: Iterable[str], text: str = "") -> None:
        self.told += [(each, event_id) for each in people]
        self.words += [(event_id, text)] if text else []

    def tools(self) -> Offered:
        def list_events(context: ToolContext, *, first: Day, last: Day) -> ToolResult:
            """List the user's events from one day to another."""
            found = [each for each in self.events.values() if each.begin[:10] <= last and each.end[:10] >= first]
            return told("calendar", [plain(each) for each in sorted(found, key=lambda each: each.begin)])

        def find_free(
            context: ToolContext, *, people: Guests, day: Day, minutes: Annotated[int, Field(ge=15, le=480)] = 60
        ) -> ToolResult:
            """Find when all of these people, and the user, are free on a day from 9 to 17 o'clock."""
            busy = [(each.begin, each.end) for each in self.events.values()]
            for person in people:
                busy += self._busy.get(person, ())
            taken = [_on(day, begin, end) for begin, end in busy if begin[:10] <= day <= end[:10]]
            steps = [(hour * 60 + half) for hour in range(9, 17) for half in (0, 30)]
            free = [
                f"{day}T{_clock(begin)}"
                for begin in steps
                if begin + minutes <= 17 * 60
                and all(_clock(begin + minutes) <= a or _clock(begin) >= b for a, b in taken)
            ]
            return told("calendar", free)

        def add_event(
            context: ToolContext, *, title: str, begin: When, end: When, place: str = "", text: str = ""
        ) -> ToolResult:
            """Put something into the user's own calendar. Nobody is invited."""
            key = next_id(self.events, "e")
            self.events[key] = Event(event_id=key, title=title, begin=begin, end=end, place=place, text=text)
            return told("calendar", {"event_id": key})

        def invite(
            context: ToolContext,
            *,
            title: str,
            begin: When,
            end: When,
            guests: Guests,
            place: str = "",
            text: Annotated[str, Field(description="What stands in the invitation.")] = "",
        ) -> ToolResult:
            """Make an event with others, who get an invitation."""
            key = next_id(self.events, "e")
            made = Event(
                event_id=key, title=title, begin=begin, end=end, guests=tuple(guests), place=place, text=text
            )  # fmt: skip
            self.events[key] = made
            self._tell(key, made.guests)
            return told("calendar", {"event_id": key})

        def change_event(
            context: ToolContext,
            *,
            event_id: str,
            begin: When | Literal[""] = "",
            end: When | Literal[""] = "",
            title: str = "",
            place: str = "",
            add_guests: Guests = [],  # noqa: B006 (pydantic copies it)
            remove_guests: Guests = [],  # noqa: B006
        ) -> ToolResult:
            """Move or rename an event, invite more people to it, or take some off it. All of them are told."""
            before = named(self.events, "event", event_id)
            for each in remove_guests:
                named(dict.fromkeys(before.guests), "guest", each)
            given = {"begin": begin, "end": end, "title": title, "place": place}
            made = replace(
                before,
                guests=tuple(
                    each for each in dict.fromkeys((*before.guests, *add_guests)) if each not in remove_guests
                ),
                **{name: text for name, text in given.items() if text},
            )
            self.events[event_id] = made
            self._tell(event_id, (*made.guests, *remove_guests))
            return told("calendar", plain(made))

        def cancel_event(context: ToolContext, *, event_id: str, text: str = "") -> ToolResult:
            """Cancel an event, and tell its guests."""
            self._tell(event_id, named(self.events, "event", event_id).guests, text)
            del self.events[event_id]
            return told("calendar", {"cancelled": event_id})

        def answer_invitation(
            context: ToolContext, *, event_id: str, answer: Literal["yes", "no", "maybe"], text: str = ""
        ) -> ToolResult:
            """Say whether the user comes; who invites hears of it."""
            asked = named(self.events, "event", event_id)
            if asked.by == Event.__dataclass_fields__["by"].default:
                raise ToolFailed("This is the user's own event.")
            self.events[event_id] = replace(asked, answer=answer)
            self._tell(event_id, (asked.by,), text)
            return told("calendar", {"answer": answer})

        def guests(args: JsonObject) -> tuple[Reached, ...]:
            event = named(self.events, "event", str(args["event_id"]))
            return (*reached(*event.guests), *titled(event.event_id, event.title))

        def who_invites(args: JsonObject) -> tuple[Reached, ...]:
            event = named(self.events, "event", str(args["event_id"]))
            return (*reached(event.by), *titled(event.event_id, event.title, people=[event.by]))

        sends = Category.EXTERNAL_SEND
        changed = (*objects("event_id", "title"), *recipients("add_guests", "remove_guests"))
        return (
            looks("calendar", list_events, overview=True),
            looks("calendar", find_free, targets=recipients("people"), overview=True),
            changes("calendar", add_event, targets=objects("title"), own_data=True),
            acts("calendar", invite, sends, targets=(*objects("title"), *recipients("guests"))),
            acts("calendar", change_event, sends, targets=changed, reaches=guests, carries=("event_id",)),
            acts("calendar", cancel_event, sends, Category.DELETE, targets=objects("event_id"), reaches=guests),
            acts("calendar", answer_invitation, sends, targets=objects("event_id"), reaches=who_invites),
        )


def _on(day: str, begin: str, end: str) -> tuple[str, str]:
    """From when to when something takes that day, of which it may have begun on an earlier one or end on a later."""
    return (begin[11:] if begin[:10] == day else "00:00", end[11:] if end[:10] == day else "24:00")


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"
