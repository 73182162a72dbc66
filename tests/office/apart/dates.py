"""Meetings and invitations: finding a time, inviting, moving, cancelling, and the user's own calendar."""

from tests.office.apart.letters import Check, entry, just, result, results, sent_to, untouched
from tests.office.calendar import Event
from tests.office.task import Task, use
from tests.office.world import World, new_world


def new_events(world: World) -> list[Event]:
    return [each for key, each in world.calendar.events.items() if key not in new_world().calendar.events]


def invited(begin: str, end: str, *guests: str, place: str = "") -> Check:
    """One event was made, at that time, with just these guests, who were told."""

    def then(world: World) -> bool:
        made = [(each.begin, each.end, {*each.guests}, each.place) for each in new_events(world)]
        return made == [(begin, end, {*guests}, place)] and {who for who, _ in world.calendar.told} == {*guests}

    return then


def blocked(begin: str, end: str) -> Check:
    """One event was made at that time, of the user alone."""

    def then(world: World) -> bool:
        return [(each.begin, each.end, each.guests) for each in new_events(world)] == [(begin, end, ())]

    return then


def moved(event_id: str, begin: str, end: str, *guests: str) -> Check:
    """That event is at that time now, with just these guests; all others are as they were."""

    def then(world: World) -> bool:
        before, after = new_world().calendar.events, world.calendar.events
        times = {key: (each.begin, each.end, {*each.guests}) for key, each in after.items()}
        same = all(after.get(key) == each for key, each in before.items() if key != event_id)
        return same and {*after} == {*before} and times[event_id] == (begin, end, {*guests})

    return then


def cancelled(event_id: str, *told: str) -> Check:
    """That event alone is gone, and these were told."""

    def then(world: World) -> bool:
        gone = {*new_world().calendar.events} - {*world.calendar.events}
        return gone == {event_id} and {who for who, _ in world.calendar.told} == {*told}

    return then


def answered(event_id: str, answer: str, by: str) -> Check:
    """That invitation alone was answered so, and who had invited was told."""

    def then(world: World) -> bool:
        given = {key: each.answer for key, each in world.calendar.events.items() if each.answer}
        return given == {event_id: answer} and world.calendar.told == [(by, event_id)]

    return then


DATES = (
    Task(
        name="move the kick-off as Farid asks",
        message="Farid wants the kick-off at another time, see his mail. Move it, an hour will do, and get Grace in.",
        rounds=[
            use("list_mail", query="Farid kick-off"),
            lambda seen: (
                use("read_mail", mail_id=seen.last[0]["mail_id"]),
                use("find_contact", name="Grace"),
                use("list_events", first="2026-03-02", last="2026-03-06"),
            ),
            lambda seen: use(
                "change_event",
                event_id=next(each["event_id"] for each in seen.last if each["title"].startswith("Kick-off")),
                begin="2026-03-05T14:00",
                end="2026-03-05T15:00",
                add_guests=[entry(seen, "Grace")["mail"]],
            ),
        ],
        says="2026-03-05T14:00",
        answer=lambda seen: f"The kick-off is at {seen.last['begin']} now; Farid, Ben and Grace were told.",
        then=just(
            "calendar",
            moved(
                "e2",
                "2026-03-05T14:00",
                "2026-03-05T15:00",
                "farid@partner.example",
                "ben@firm.example",
                "grace@partner.example",
            ),
        ),
        acts=True,
    ),
    Task(
        name="when three are free on Thursday",
        message="When on Thursday could Ben, Carla and I sit together for an hour?",
        rounds=[
            (use("find_contact", name="Ben"), use("find_contact", name="Carla")),
            lambda seen: use(
                "find_free", people=[entry(seen, "Ben")["mail"], entry(seen, "Carla")["mail"]], day="2026-03-05"
            ),
        ],
        says="12:00, 14:00, 16:00",
        answer=lambda seen: ", ".join(each[11:] for each in seen.last),
        then=untouched,
    ),
    Task(
        name="half an hour with Dimitri about the alarm",
        message="Half an hour with Dimitri tomorrow after lunch, about the alarm. Whenever we both can.",
        rounds=[
            use("find_contact", name="Dimitri"),
            lambda seen: use("find_free", people=[seen.last[0]["mail"]], day="2026-03-03", minutes=30),
            lambda seen: use(
                "invite",
                title="Alarm of the queue",
                begin=next(each for each in seen.last if each >= "2026-03-03T13:00"),
                end="2026-03-03T13:30",
                guests=[entry(seen, "Dimitri")["mail"]],
            ),
        ],
        says="13:00",
        then=just("calendar", invited("2026-03-03T13:00", "2026-03-03T13:30", "dimitri@firm.example")),
        acts=True,
    ),
    Task(
        name="follow-up with all of the outage minutes",
        message="invite everyone from the outage minutes to a follow-up on monday 9 march, 10 to 10:30, room aare",
        rounds=[
            use("list_mail", query="outage minutes"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            lambda seen: use(
                "invite",
                title="Outage: follow-up",
                begin="2026-03-09T10:00",
                end="2026-03-09T10:30",
                guests=[each for each in seen.last["to"] if each != "ana@firm.example"],
                place="Room Aare",
            ),
        ],
        says="follow-up",
        answer=lambda seen: f"The follow-up is {seen.last['event_id']}; Ben, Carla and Dimitri are invited.",
        then=just(
            "calendar",
            invited(
                "2026-03-09T10:00",
                "2026-03-09T10:30",
                "ben@firm.example",
                "carla@firm.example",
                "dimitri@firm.example",
                place="Room Aare",
            ),
        ),
        acts=True,
    ),
    Task(
        name="approved holidays into the own calendar",
        message="Emma approved my holidays by mail. Put them in my calendar.",
        rounds=[
            use("list_mail", query="Emma holidays"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            use("add_event", title="Holidays", begin="2026-07-06T00:00", end="2026-07-17T23:59"),
        ],
        says="6 to 17 July",
        then=just("calendar", blocked("2026-07-06T00:00", "2026-07-17T23:59")),
    ),
    Task(
        name="accept the budget review",
        message="Accept Emma's budget review.",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-08"),
            lambda seen: use(
                "answer_invitation",
                event_id=next(each["event_id"] for each in seen.last if each["title"] == "Budget review"),
                answer="yes",
            ),
        ],
        says="yes",
        answer=lambda seen: f"You said {seen.last['answer']} to the budget review.",
        then=just("calendar", answered("e4", "yes", "emma@firm.example")),
        acts=True,
    ),
    Task(
        name="decline the design review with a word to Ben",
        message="I can't make Ben's design review tomorrow. Decline and tell him I look at the icons in the afternoon.",
        rounds=[
            use("list_events", first="2026-03-03", last="2026-03-03"),
            lambda seen: use(
                "answer_invitation",
                event_id=next(each["event_id"] for each in seen.last if each["title"] == "Design review"),
                answer="no",
                text="Sorry, I can't make it. I look at the icons in the afternoon. Ana",
            ),
        ],
        says="declined",
        then=just("calendar", answered("e6", "no", "ben@firm.example")),
        acts=True,
    ),
    Task(
        name="the week at a glance",
        message="what does my week look like? times pls, from today to friday",
        rounds=[use("list_events", first="2026-03-02", last="2026-03-06")],
        says="2026-03-04T10:00 Kick-off with Partner AG",
        answer=lambda seen: "\n".join(f"{each['begin']} {each['title']}" for each in seen.last),
        then=untouched,
    ),
    Task(
        name="cancel today's weekly",
        message="Cancel the weekly today, Ben and Carla are both ill.",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-02"),
            lambda seen: use(
                "cancel_event",
                event_id=next(each["event_id"] for each in seen.last if each["title"] == "Weekly"),
                text="No weekly today, as two of us are ill. Ana",
            ),
        ],
        says="cancelled",
        then=just("calendar", cancelled("e1", "ben@firm.example", "carla@firm.example", "dimitri@firm.example")),
        acts=True,
    ),
    Task(
        name="two hours for the figures before the deadline",
        message="Block me two hours tomorrow for the figures Emma wants. As early as possible.",
        rounds=[
            (
                use("list_mail", query="Emma figures"),
                use("find_free", people=[], day="2026-03-03", minutes=120),
            ),
            lambda seen: use(
                "add_event",
                title="Figures of the first quarter",
                begin=seen.last[0],
                end="2026-03-03T13:00",
                text=result(seen, "list_mail")[0]["subject"],
            ),
        ],
        says="11:00",
        answer=lambda seen: f"I blocked two hours from {result(seen, 'find_free')[0][11:]}.",
        then=just("calendar", blocked("2026-03-03T11:00", "2026-03-03T13:00")),
    ),
    Task(
        name="another date at Dr. Keller",
        message=(
            "I can't go to Dr. Keller on Thursday after all. Answer the practice and ask for a date in the week after, "
            "and take it out of my calendar."
        ),
        rounds=[
            (
                use("list_mail", query="Keller appointment"),
                use("list_events", first="2026-03-05", last="2026-03-05"),
            ),
            lambda seen: use(
                "reply_mail",
                mail_id=result(seen, "list_mail")[0]["mail_id"],
                text="Hello, I can't come on 5 March. Is there a date from 9 to 13 March instead? Ana Rossi",
            ),
            lambda seen: use(
                "cancel_event",
                event_id=next(
                    each["event_id"] for each in result(seen, "list_events") if each["title"] == "Dr. Keller"
                ),
            ),
        ],
        says="Keller",
        then=just("mail calendar", sent_to("praxis@keller.example", holds=["can't come on 5 March"]), cancelled("e5")),
        acts=True,
    ),
    Task(
        name="focus in the afternoon",
        message="move my focus time on friday to the afternoon, 1 to 4",
        rounds=[
            use("list_events", first="2026-03-06", last="2026-03-06"),
            lambda seen: use(
                "change_event", event_id=seen.last[0]["event_id"], begin="2026-03-06T13:00", end="2026-03-06T16:00"
            ),
        ],
        says="13:00",
        answer=lambda seen: f"Focus is from {seen.last['begin']} to {seen.last['end']} now.",
        then=just("calendar", moved("e8", "2026-03-06T13:00", "2026-03-06T16:00")),
    ),
    Task(
        name="the last free hour with Farid and Ben",
        message="the last one. call it Interface, online",
        before=[
            (
                "Find an hour on Thursday for Farid, Ben and me, what is there?",
                [
                    (use("find_contact", name="Farid"), use("find_contact", name="Ben")),
                    lambda seen: use(
                        "find_free",
                        people=[each[0]["mail"] for each in results(seen, "find_contact")],
                        day="2026-03-05",
                    ),
                ],
                "On Thursday all of you are free from 14:00 and from 16:00.",
            )
        ],
        rounds=[
            use(
                "invite",
                title="Interface",
                begin="2026-03-05T16:00",
                end="2026-03-05T17:00",
                guests=["farid@partner.example", "ben@firm.example"],
                place="online",
            ),
        ],
        says="16:00",
        then=just(
            "calendar",
            invited(
                "2026-03-05T16:00", "2026-03-05T17:00", "farid@partner.example", "ben@firm.example", place="online"
            ),
        ),
        acts=True,
    ),
    Task(
        name="interview on Friday",
        message=(
            "Invite candidate B, mira.novak@post.example, to an interview on Friday 6 March from 13:30 to 14:30 in "
            "Room Aare. Ben sits in."
        ),
        rounds=[
            (use("find_contact", name="Ben"), use("list_events", first="2026-03-06", last="2026-03-06")),
            lambda seen: use(
                "invite",
                title="Interview",
                begin="2026-03-06T13:30",
                end="2026-03-06T14:30",
                guests=["mira.novak@post.example", entry(seen, "Ben")["mail"]],
                place="Room Aare",
                text="Dear Mira Novak, we look forward to meeting you. Ana Rossi",
            ),
        ],
        says="Friday",
        then=just(
            "calendar",
            invited(
                "2026-03-06T13:30",
                "2026-03-06T14:30",
                "mira.novak@post.example",
                "ben@firm.example",
                place="Room Aare",
            ),
        ),
        acts=True,
    ),
    Task(
        name="weekly half an hour later, and say so",
        message="weekly half an hour later today pls, and say so in #product",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-02"),
            lambda seen: use(
                "change_event",
                event_id=next(each["event_id"] for each in seen.last if each["title"] == "Weekly"),
                begin="2026-03-02T11:30",
                end="2026-03-02T12:30",
            ),
            use("post_message", channel="product", text="The weekly begins half an hour later today, at 11:30."),
        ],
        says="11:30",
        then=just(
            "calendar chat",
            moved(
                "e1",
                "2026-03-02T11:30",
                "2026-03-02T12:30",
                "ben@firm.example",
                "carla@firm.example",
                "dimitri@firm.example",
            ),
            lambda world: (
                [each.text for each in world.chat.channels["product"].posts if each.by == "ana"]
                == ["The weekly begins half an hour later today, at 11:30."]
            ),
        ),
        acts=True,
    ),
    Task(
        name="demo for all of the partner channel",
        message="Invite all who are in the partner channel to a demo on Thursday 12 March, 10:00-11:00. Online.",
        rounds=[
            use("list_channels"),
            lambda seen: tuple(
                use("find_contact", name=each)
                for each in next(found["members"] for found in seen.last if found["name"] == "partner")
                if each != "ana"
            ),
            lambda seen: use(
                "invite",
                title="Demo",
                begin="2026-03-12T10:00",
                end="2026-03-12T11:00",
                guests=[each[0]["mail"] for each in results(seen, "find_contact")],
                place="online",
            ),
        ],
        says="Ben, Farid and Grace",
        then=just(
            "calendar",
            invited(
                "2026-03-12T10:00",
                "2026-03-12T11:00",
                "ben@firm.example",
                "farid@partner.example",
                "grace@partner.example",
                place="online",
            ),
        ),
        acts=True,
    ),
)
