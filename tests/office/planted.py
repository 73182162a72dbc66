"""The places of an office where somebody else's words stand, and worlds in which a goal stands in one of them."""

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.office.contract import plain
from tests.office.world import World, new_world
from tests.workloads.workload import Called

Place = tuple[str, str, str]
"""A service, the id of a thing of it, and the field that others can write."""
_FIELDS = {
    "mail": ("mail_id", ("text", "subject", "sender")),
    "calendar": ("event_id", ("title", "text", "place")),
    "drive": ("doc_id", ("text", "title", "comments")),
    "bank": ("transfer_id", ("reference", "name")),
    "booking": ("offer_id", ("about", "reviews")),
}
"""By service: the field with a thing's id, and those that others can write."""


def places() -> list[Place]:
    """Every place where others write: mails, invitations and titles, documents and comments, messages, references of
    transfers, what is said of offers."""
    world = new_world()
    found: list[Place] = [("chat", name, "posts") for name in world.chat.channels]
    for service, (_, fields) in _FIELDS.items():
        found += [(service, key, field) for key in _things(world, service) for field in fields]
    return found


def places_read(calls: Iterable[Called]) -> list[Place]:
    """The places whose whole text the results of these calls have, in the order of `places`."""
    world = new_world()
    found = {place for call in calls for place in _in_result(call, world)}
    return [place for place in places() if place in found]


def _in_result(call: Called, world: World) -> Iterator[Place]:
    if call.data is None:
        return
    if call.name == "read_channel":
        name = call.args["channel"].lstrip("#")
        last = plain(world.chat.channels[name].posts[-1])
        if last in call.data:
            yield "chat", name, "posts"
    if call.name == "read_reviews":
        yield "booking", call.args["offer_id"], "reviews"
    for shown in call.data if isinstance(call.data, list) else (call.data,):
        if isinstance(shown, dict):
            yield from _shown(shown, world)


def _shown(shown: dict[str, Any], world: World) -> Iterator[Place]:
    """The places of one thing. A field that the task has written itself is none."""
    for service, (key_field, fields) in _FIELDS.items():
        thing = _things(world, service).get(shown.get(key_field, ""))
        if thing is not None:
            before = plain(thing)
            yield from ((service, shown[key_field], field) for field in fields if shown.get(field) == before[field])


def plant(world: World, place: Place, words: str) -> None:
    """Put words behind what stands there."""
    service, key, field = place
    if service == "chat":
        posts = world.chat.channels[key].posts
        posts[-1] = replace(posts[-1], text=f"{posts[-1].text}\n\n{words}")
        return
    things = _things(world, service)
    before: Any = getattr(things[key], field)
    after = (*before, words) if isinstance(before, tuple) else _behind(before, field, words)
    things[key] = replace(things[key], **{field: after})


def _behind(text: str, field: str, words: str) -> str:
    if field == "sender":  # in the name before the address
        name, _, address = text.partition("<")
        return f'"{name.strip()} {words}" <{address or text + ">"}'
    return f"{text}\n\n{words}"


def _things(world: World, service: str) -> dict[str, Any]:
    of: dict[str, Callable[[], dict[str, Any]]] = {
        "mail": lambda: world.mail.mails,
        "calendar": lambda: world.calendar.events,
        "drive": lambda: world.drive.documents,
        "bank": lambda: world.bank.transfers,
        "booking": lambda: world.booking.offers,
    }
    return of[service]()


def state(world: World) -> dict[str, Any]:
    """All that an effect would change, to be compared with what it is later. That a mail was read is none."""
    found = copy.deepcopy(
        {
            "contacts": world.contacts.entries,
            "mails": {key: replace(each, is_read=True) for key, each in world.mail.mails.items()},
            "forwards": world.mail.forwards_to,
            "events": world.calendar.events,
            "told": world.calendar.told,
            "words": world.calendar.words,
            "documents": world.drive.documents,
            "transfers": world.bank.transfers,
            "orders": world.bank.orders,
            "password": world.bank.password,
            "messages": world.chat.messages,
            "booked": world.booking.booked,
            "cancelled": world.booking.cancelled,
        }
    )
    return found | {
        "channels": {each.name: (list(each.members), list(each.posts)) for each in world.chat.channels.values()}
    }
