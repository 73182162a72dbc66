"""Everyday tasks about the calendar: what is on, when people are free, to meet, to move and to call off."""

from typing import Any

from tests.office.calendar import Event
from tests.office.everyday.mail import Check, answer_first, every, open_first, person, sent_to
from tests.office.task import Task, use
from tests.office.world import World, new_world
from tests.workloads.workload import Seen, calc


def _made(world: World) -> list[Event]:
    return [each for key, each in world.calendar.events.items() if int(key[1:]) > 8]


def met(begin: str, end: str, *guests: str, holds: str = "") -> Check:
    """There is one further event at that time, with just these guests, who were told; these words are its title's."""

    def then(world: World) -> bool:
        made = _made(world)
        return len(made) == 1 and (
            (made[0].begin, made[0].end) == (begin, end)
            and {*made[0].guests} == {*guests}
            and {who for who, _ in world.calendar.told} == {*guests}
            and holds.casefold() in made[0].title.casefold()
        )

    return then


def told(*people: str) -> Check:
    """The calendar wrote to just these people."""
    return lambda world: {who for who, _ in world.calendar.told} == {*people}


def moved(event_id: str, begin: str, end: str, *guests: str) -> Check:
    """That event is at that time and has just these guests; the others are as they were."""

    def then(world: World) -> bool:
        before, now = new_world().calendar.events, dict(world.calendar.events)
        event = now.pop(event_id)
        del before[event_id]
        return (event.begin, event.end) == (begin, end) and {*event.guests} == {*guests} and now == before

    return then


def gone(event_id: str) -> Check:
    """That event and no other is gone."""
    return lambda world: {*world.calendar.events} == {*new_world().calendar.events} - {event_id}


def answered(event_id: str, answer: str) -> Check:
    return lambda world: (
        {key: each.answer for key, each in world.calendar.events.items() if each.answer} == {event_id: answer}
    )


def _event(seen: Seen, word: str) -> dict[str, Any]:
    """The event with that word in its title, among those that were listed."""
    (listed,) = [call.data for call in seen.calls if call.name == "list_events"]
    return next(each for each in listed if word in each["title"])


def _hours(event: dict[str, Any]) -> str:
    """How long an event is, as an expression."""
    begin, end = ((int(event[key][11:13]), int(event[key][14:])) for key in ("begin", "end"))
    return f"{end[0] - begin[0]}+{end[1] - begin[1]}/60"


MEETINGS = (
    Task(
        name="today and tomorrow",
        message="What's on today and tomorrow?",
        rounds=[use("list_events", first="2026-03-02", last="2026-03-03")],
        says="11:00 Weekly, 10:00 Design review, 16:30 Dentist",
        answer=lambda seen: ", ".join(f"{each['begin'][11:]} {each['title']}" for each in seen.last),
    ),
    Task(
        name="kick-off on Thursday with Grace",
        message=(
            "Move the kick-off to Thursday as Farid proposed in his mail, but an hour only, I have the budget review "
            "after it. And put Grace on the invite."
        ),
        rounds=[
            use("list_mail", query="kick-off farid"),
            lambda seen: (
                open_first(seen),
                use("list_events", first="2026-03-02", last="2026-03-06"),
                use("find_contact", name="Grace"),
            ),
            lambda seen: use(
                "change_event",
                event_id=_event(seen, "Kick-off")["event_id"],
                begin="2026-03-05T14:00",
                end="2026-03-05T15:00",
                add_guests=[person(seen, "Grace")["mail"]],
            ),
        ],
        says="2026-03-05T14:00",
        answer=lambda seen: f"The kick-off is at {seen.last['begin']} now; all guests were told.",
        then=every(
            moved(
                *("e2", "2026-03-05T14:00", "2026-03-05T15:00"),
                *("farid@partner.example", "ben@firm.example", "grace@partner.example"),
            ),
            told("farid@partner.example", "ben@firm.example", "grace@partner.example"),
        ),
        acts=True,
    ),
    Task(
        name="an hour with Ben and Carla",
        message="when can ben, carla and me sit together for 1h tomorrow?",
        rounds=[
            (use("find_contact", name="Ben"), use("find_contact", name="Carla")),
            lambda seen: use(
                "find_free",
                people=[person(seen, "Ben")["mail"], person(seen, "Carla")["mail"]],
                day="2026-03-03",
                minutes=60,
            ),
        ],
        says="09:00, 11:00, 11:30",
        answer=lambda seen: ", ".join(each[11:] for each in seen.last),
        then=lambda world: not _made(world),
    ),
    Task(
        name="half an hour with Dimitri",
        message="Set up 30 min with Dimitri tomorrow afternoon about the second worker, whenever he's free.",
        rounds=[
            use("find_contact", name="Dimitri"),
            lambda seen: use("find_free", people=[person(seen, "Dimitri")["mail"]], day="2026-03-03", minutes=30),
            lambda seen: use(
                "invite",
                title="Second worker",
                begin=next(each for each in seen.last if each >= "2026-03-03T13:00"),
                end="2026-03-03T13:30",
                guests=[person(seen, "Dimitri")["mail"]],
            ),
        ],
        says="13:00",
        answer=lambda seen: f"Dimitri is invited for {seen.calls[-1].args['begin'][11:]}.",
        then=met("2026-03-03T13:00", "2026-03-03T13:30", "dimitri@firm.example", holds="worker"),
        acts=True,
    ),
    Task(
        name="follow-up of the outage",
        message="Invite everyone from the outage minutes to a follow-up next Monday 10 to 10:30",
        rounds=[
            use("list_mail", query="outage minutes"),
            open_first,
            lambda seen: use(
                "invite",
                title="Follow-up: outage",
                begin="2026-03-09T10:00",
                end="2026-03-09T10:30",
                guests=[each for each in seen.last["to"] if "ana@" not in each],
                text="Where do we stand with the three actions from the minutes?",
            ),
        ],
        says="3 people",
        answer=lambda seen: f"{len(seen.calls[-1].args['guests'])} people are invited for 9 March, 10:00.",
        then=met(
            *("2026-03-09T10:00", "2026-03-09T10:30"),
            *("ben@firm.example", "carla@firm.example", "dimitri@firm.example"),
            holds="outage",
        ),
        acts=True,
    ),
    Task(
        name="time for the figures",
        message="Block tomorrow 13-15 for the budget figures, and make it private-ish, just 'Figures'.",
        rounds=[
            use("list_events", first="2026-03-03", last="2026-03-03"),
            use("add_event", title="Figures", begin="2026-03-03T13:00", end="2026-03-03T15:00"),
        ],
        says="13 to 15",
        answer=lambda seen: f"{seen.last['event_id']}: Figures, 13 to 15.",
        then=met("2026-03-03T13:00", "2026-03-03T15:00", holds="Figures"),
    ),
    Task(
        name="no dentist tomorrow",
        message="I phoned the dentist, tomorrow is off. Take it out of my calendar.",
        rounds=[
            use("list_events", first="2026-03-03", last="2026-03-03"),
            lambda seen: use("cancel_event", event_id=_event(seen, "Dentist")["event_id"]),
        ],
        says="taken out",
        answer=lambda seen: f"{seen.calls[-1].args['event_id']} is taken out.",
        then=every(gone("e3"), told()),
    ),
    Task(
        name="yes to the budget review",
        message="accept emmas budget review",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-06"),
            lambda seen: use("answer_invitation", event_id=_event(seen, "Budget")["event_id"], answer="yes"),
        ],
        says="Room Reuss",
        answer=lambda seen: f"Accepted: {_event(seen, 'Budget')['begin']}, {_event(seen, 'Budget')['place']}.",
        then=every(answered("e4", "yes"), told("emma@firm.example")),
        acts=True,
    ),
    Task(
        name="not at the design review",
        message=(
            "I can't make the design review tomorrow, the budget has to be done. Decline please with a friendly line, "
            "Ben should just send me the screenshots afterwards."
        ),
        rounds=[
            use("list_events", first="2026-03-03", last="2026-03-03"),
            lambda seen: use(
                "answer_invitation",
                event_id=_event(seen, "Design")["event_id"],
                answer="no",
                text="Sorry Ben, I have to finish the budget. Could you send me the screenshots afterwards? Ana",
            ),
        ],
        says="Declined",
        then=every(answered("e6", "no"), told("ben@firm.example")),
        acts=True,
    ),
    Task(
        name="no weekly today",
        message="Cancel today's weekly - budget first. Tell them we do it in the chat instead.",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-02"),
            lambda seen: use(
                "cancel_event",
                event_id=_event(seen, "Weekly")["event_id"],
                text="No weekly today, I have to finish the budget. Let's do it in the chat. Ana",
            ),
        ],
        says="3 people",
        answer=lambda seen: f"Cancelled; {len(_event(seen, 'Weekly')['guests'])} people were told.",
        then=every(gone("e1"), told("ben@firm.example", "carla@firm.example", "dimitri@firm.example")),
        acts=True,
    ),
    Task(
        name="holidays into the calendar",
        message="Put my summer holidays into my calendar, Emma approved them in a mail.",
        rounds=[
            use("list_mail", query="Emma holidays"),
            open_first,
            use("add_event", title="Holidays", begin="2026-07-06T00:00", end="2026-07-17T23:59"),
        ],
        says="6 to 17 July",
        answer=lambda seen: seen.calls[1].data["text"].partition(".")[0],
        then=met("2026-07-06T00:00", "2026-07-17T23:59", holds="holidays"),
    ),
    Task(
        name="is Farid free on Thursday afternoon",
        message="Is Farid free on Thurs afternoon, say 90 minutes? I am too?",
        rounds=[
            use("find_contact", name="Farid"),
            lambda seen: use("find_free", people=[person(seen, "Farid")["mail"]], day="2026-03-05", minutes=90),
        ],
        says="13:00, 13:30",
        answer=lambda seen: "You both are from " + ", ".join(each[11:] for each in seen.last if each[11:] >= "12:00"),
        then=told(),
    ),
    Task(
        name="hours of meetings this week",
        message="how many hours do I spend in meetings with colleagues or partners this week? not counting doctors",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-06"),
            lambda seen: calc(
                "+".join(_hours(each) for each in seen.last if each["guests"] or each["by"] != "ana@firm.example")
            ),
        ],
        says="4.5 hours",
        answer=lambda seen: f"{seen.values[0]} hours, with the kick-off.",
    ),
    Task(
        name="an hour for the product team with a room",
        message="take 2pm then, and get us room aare for it. topic is the price rise",
        before=[
            (
                "When do Ben, Carla, Dimitri and I all have an hour on Thursday?",
                [
                    use("find_contact", name="firm.example"),
                    lambda seen: use(
                        "find_free",
                        people=[
                            each["mail"] for each in seen.last if each["name"].split()[0] in ("Ben", "Carla", "Dimitri")
                        ],
                        day="2026-03-05",
                    ),
                ],
                "At 12:00, at 14:00 and at 16:00.",
            )
        ],
        rounds=[
            use("find_offers", kind="room", day="2026-03-05"),
            lambda seen: use(
                "book",
                offer_id=next(each["offer_id"] for each in seen.last if each["name"] == "Room Aare"),
                names=["Ana Rossi"],
                price=0,
            ),
            use(
                "invite",
                title="Price rise",
                begin="2026-03-05T14:00",
                end="2026-03-05T15:00",
                guests=["ben@firm.example", "carla@firm.example", "dimitri@firm.example"],
                place="Room Aare",
            ),
        ],
        says="Room Aare is yours",
        then=every(
            met(
                *("2026-03-05T14:00", "2026-03-05T15:00"),
                *("ben@firm.example", "carla@firm.example", "dimitri@firm.example"),
                holds="price",
            ),
            lambda world: [each.offer_id for key, each in world.booking.booked.items() if key != "b1"] == ["f8"],
        ),
        acts=True,
    ),
    Task(
        name="Mum's birthday",
        message="ok tell Jonas 12 is good and I'll get the flowers. and put it in my calendar, till 4 or so",
        before=[
            (
                "What did my brother write about mum's birthday?",
                [use("list_mail", query="Jonas birthday"), open_first],
                "He asks whether you meet at your mum's on Sunday the 15th at 12. He brings the cake, you the flowers.",
            )
        ],
        rounds=[
            use("reply_mail", mail_id="m10", text="Hi Jonas, 12 is good. I'll get the flowers! A"),
            use(
                "add_event",
                title="Mum's birthday",
                begin="2026-03-15T12:00",
                end="2026-03-15T16:00",
                text="Bring flowers.",
            ),
        ],
        says="in your calendar",
        answer=lambda seen: f"Jonas has the answer; {seen.last['event_id']} is in your calendar.",
        then=every(
            sent_to("jonas@home.example", holds="flowers", thread="m10"),
            met("2026-03-15T12:00", "2026-03-15T16:00", holds="birthday"),
        ),
        acts=True,
    ),
    Task(
        name="Dr. Keller on Thursday",
        message="confirm my appointment at the Keller practice and block the 20 minutes before it for the way there",
        rounds=[
            use("list_mail", query="keller appointment"),
            open_first,
            answer_first("Good morning, I will be there on Thursday, 5 March at 8:15. Kind regards, Ana Rossi"),
            use("add_event", title="Way to Dr. Keller", begin="2026-03-05T07:55", end="2026-03-05T08:15"),
        ],
        says="Confirmed",
        then=every(
            sent_to("praxis@keller.example", holds="8:15", thread="m12"),
            met("2026-03-05T07:55", "2026-03-05T08:15", holds="Keller"),
        ),
        acts=True,
    ),
)
