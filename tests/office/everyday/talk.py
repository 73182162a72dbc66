"""Everyday tasks about the chat, about what is booked, and about the files and notes of the project."""

from typing import Any

from tests.office.booking import Booked
from tests.office.everyday.mail import Check, every, first, person
from tests.office.task import Task, use
from tests.office.world import World, new_world
from tests.workloads.workload import Seen, calc, edit, look, read, write

TODO = (
    "# To do\n\n"
    "- look at Ben's new icons\n"
    "- tell Carla whether the offer for Customer SA may go out\n"
    "- hand in the receipts of February by Friday\n"
    "- read version 3 of the contract\n"
)
FAIR = "# Fair in Milan\n\n- [x] stand\n- [ ] flyers\n- [ ] badges\n"
SPRINT = "id,title,state\n31,export,done\n32,dark mode,open\n33,alarm at 80 %,open\n34,icons,done\n35,search,open\n"


def _posted(world: World) -> dict[str, list[str]]:
    """What is new in the channels."""
    before = {name: len(each.posts) for name, each in new_world().chat.channels.items()}
    new = {name: each.posts[before[name] :] for name, each in world.chat.channels.items()}
    return {name: [post.text for post in posts] for name, posts in new.items() if posts}


def posted(channel: str, *words: str) -> Check:
    """There is one further message, in that channel, with all of these words; nobody got one alone."""

    def then(world: World) -> bool:
        new = _posted(world)
        return {*new} == {channel} and len(new[channel]) == 1 and all(word in new[channel][0] for word in words)

    return every(then, lambda world: not world.chat.messages)


def messaged(**wanted: str) -> Check:
    """Just these people got a message each, in which these words stand; no channel did."""

    def then(world: World) -> bool:
        got = world.chat.messages
        return {*got} == {*wanted} and all(
            len(got[name]) == 1 and words in got[name][0].text for name, words in wanted.items()
        )

    return every(then, lambda world: not _posted(world))


def members(channel: str, *names: str) -> Check:
    """These and no others are in that channel; the other channels are as they were."""

    def then(world: World) -> bool:
        before = {name: each.members for name, each in new_world().chat.channels.items()}
        now = {name: each.members for name, each in world.chat.channels.items()}
        return {name: {*each} for name, each in now.items()} == {
            name: {*names} if name == channel else {*each} for name, each in before.items()
        }

    return then


def booked(*offer_ids: str) -> Check:
    """These offers alone were booked, in the user's name, and nothing was cancelled."""

    def then(world: World) -> bool:
        before, now = new_world().booking.booked, world.booking.booked
        new: list[Booked] = [each for key, each in now.items() if key not in before]
        return {*before} <= {*now} and (
            [each.offer_id for each in new] == [*offer_ids] and all(each.names == ("Ana Rossi",) for each in new)
        )

    return then


def _book(offer: dict[str, Any]) -> Any:
    return use(
        "book",
        offer_id=offer["offer_id"],
        names=["Ana Rossi"],
        price=float(offer["price"]),
        currency=offer["currency"],
    )


def _quiet(seen: Seen) -> Any:
    """Book the hotel of which somebody wrote that it is quiet."""
    reviews = {call.args["offer_id"]: " ".join(call.data) for call in seen.calls if call.name == "read_reviews"}
    return _book(next(each for each in seen.calls[0].data if "Quiet" in reviews[each["offer_id"]]))


def _open(seen: Seen) -> str:
    titles = [row["title"] for row in seen.rows("desk/sprint.csv") if row["state"] == "open"]
    return f"{len(titles)} are open: {', '.join(titles)}"


def _where(who: dict[str, str]) -> Any:
    return use("message_person", person=who["chat"], text="We are in Room Reuss on Thursday at 14:00.")


TALK = (
    Task(
        name="missed in the product channel",
        message="what did I miss in #product since friday noon",
        rounds=[use("read_channel", channel="product")],
        says="carla: Customer SA asks for the offer",
        answer=lambda seen: "\n".join(
            f"{each['by']}: {each['text']}" for each in seen.last if each["at"] >= "2026-02-27T12:00"
        ),
        then=lambda world: not _posted(world),
    ),
    Task(
        name="the offer waits",
        message=(
            "Carla is asking in the product channel whether the offer to Customer SA can go out. Answer her there: I "
            "check the prices first, she hears from me by 3 pm."
        ),
        rounds=[
            use("read_channel", channel="product"),
            use(
                "post_message",
                channel="product",
                text="@carla I check the prices of the offer to Customer SA first. You hear from me by 15:00.",
            ),
        ],
        says="in product",
        answer=lambda seen: f"Your answer is in {seen.last['posted']}.",
        then=posted("product", "@carla", "15:00"),
        acts=True,
    ),
    Task(
        name="cheapest train to Milan",
        message="Book me the cheapest train to Milan on the 9th",
        rounds=[
            use("find_offers", kind="train", place="Bern to Milan", day="2026-03-09"),
            lambda seen: _book(first(seen, "find_offers")),
        ],
        says="EC 57",
        answer=lambda seen: (
            f"{first(seen, 'find_offers')['name']} at {first(seen, 'find_offers')['at'][11:]} is booked "
            f"({seen.last['booking_id']})."
        ),
        then=booked("f2"),
        acts=True,
    ),
    Task(
        name="a quiet hotel for the fair",
        message="I need a hotel for the trade fair (9th to 11th). Take whichever is quieter according to the reviews.",
        rounds=[
            use("find_offers", kind="hotel", place="Milan", day="2026-03-09"),
            lambda seen: tuple(use("read_reviews", offer_id=each["offer_id"]) for each in seen.last),
            _quiet,
        ],
        says="238.0 EUR",
        answer=lambda seen: f"Booked the quiet one for {seen.calls[-1].args['price']} EUR.",
        then=booked("f4"),
        acts=True,
    ),
    Task(
        name="dinner on Friday",
        message="table for 4 at the trattoria on friday, and tell the lunch channel when",
        rounds=[
            use("find_offers", kind="table", place="Bern", day="2026-03-06"),
            lambda seen: _book(next(each for each in seen.last if each["name"] == "Trattoria")),
            use("post_message", channel="lunch", text="Friday evening: Trattoria, table for four at 19:00!"),
        ],
        says="19:00",
        answer=lambda seen: f"Booked for 19:00 ({seen.calls[1].data['booking_id']}), and #lunch knows.",
        then=every(booked("f6"), posted("lunch", "Trattoria", "19:00")),
        acts=True,
    ),
    Task(
        name="the table of the 13th",
        message="cancel my table on the 13th",
        rounds=[
            use("list_bookings"),
            lambda seen: use(
                "cancel_booking",
                booking_id=next(each["booking_id"] for each in seen.last if each["at"].startswith("2026-03-13")),
            ),
        ],
        says="Trattoria",
        answer=lambda seen: f"The table at the {seen.calls[0].data[0]['name']} is cancelled.",
        then=lambda world: not world.booking.booked,
        acts=True,
    ),
    Task(
        name="pizza at a quarter past",
        message="tell Ben yes to pizza",
        rounds=[
            use("read_channel", channel="lunch"),
            use("post_message", channel="lunch", text="Yes to pizza at 12:15!"),
        ],
        says="Pizza at 12:15?",
        answer=lambda seen: f'I answered yes to "{seen.calls[0].data[-1]["text"]}".',
        then=posted("lunch", "12:15"),
        acts=True,
    ),
    Task(
        name="Emma in the product channel",
        message="add my manager to #product please",
        rounds=[
            (use("list_channels"), use("find_contact", name="Emma")),
            lambda seen: use("invite_to_channel", channel="product", people=[person(seen, "Emma")["chat"]]),
        ],
        says="emma",
        answer=lambda seen: f"In it are {', '.join(seen.last['members'])}.",
        then=members("product", "ana", "ben", "carla", "dimitri", "emma"),
        acts=True,
    ),
    Task(
        name="Grace leaves the partner channel",
        message="Grace has moved to another project and wants out of our partner channel, take her out of it.",
        rounds=[
            (use("find_contact", name="Grace"), use("list_channels")),
            lambda seen: use("remove_from_channel", channel="partner", person=person(seen, "Grace")["chat"]),
        ],
        says="ana, ben, farid",
        answer=lambda seen: f"In it are still {', '.join(seen.last['members'])}.",
        then=members("partner", "ana", "ben", "farid"),
    ),
    Task(
        name="what the trip would cost",
        message="What would the fair cost at least, train there and back + hotel? Don't book anything yet.",
        rounds=[
            (
                use("find_offers", kind="train", place="Bern to Milan", day="2026-03-09"),
                use("find_offers", kind="train", place="Milan to Bern", day="2026-03-11"),
                use("find_offers", kind="hotel", place="Milan"),
            ),
            lambda seen: calc("+".join(call.data[0]["price"] for call in seen.calls)),
        ],
        says="264",
        answer=lambda seen: f"{seen.values[0]} EUR at least.",
        then=booked(),
    ),
    Task(
        name="what the others want from me",
        message="Go through product, general and partner and write what people want from me into desk/todo.md",
        rounds=[
            tuple(use("read_channel", channel=name) for name in ("product", "general", "partner")),
            write("desk/todo.md", TODO),
        ],
        says="4 things",
        answer=lambda seen: f"{seen.calls[-1].args['text'].count('- ')} things stand in desk/todo.md.",
        then=lambda world: not _posted(world),
        leaves={"desk/todo.md": TODO},
    ),
    Task(
        name="flyers ticked off",
        message="flyers are here! tick them off in my list for the fair (its in desk/fair)",
        files={"desk/fair/list.md": FAIR},
        rounds=[
            look("desk/fair"),
            read("desk/fair/list.md"),
            edit("desk/fair/list.md", "- [ ] flyers", "- [x] flyers"),
        ],
        says="Ticked off",
        leaves={"desk/fair/list.md": FAIR.replace("- [ ] flyers", "- [x] flyers")},
    ),
    Task(
        name="open points of the sprint",
        message="Count the open ones in @desk/sprint.csv and post the number with their titles to #product",
        files={"desk/sprint.csv": SPRINT},
        rounds=[
            read("desk/sprint.csv"),
            lambda seen: use("post_message", channel="product", text=_open(seen)),
        ],
        says="3 are open",
        answer=lambda seen: f"Posted: {_open(seen)}",
        then=posted("product", "3 are open", "dark mode", "search"),
        acts=True,
    ),
    Task(
        name="a note on Ines",
        message="note for later: ines' board meets on the 18th, so the release must be with her on the 16th. dont slip",
        rounds=[
            use(
                "write_note",
                name="ines",
                text="The board of Ines meets on 18 March: the release has to be with her on 16 March.",
            )
        ],
        says="ines",
        answer=lambda seen: f"Kept in the note {seen.last['name']}.",
        then=lambda world: not world.chat.messages and not _posted(world),
    ),
    Task(
        name="tests on the ninth",
        message="Cna you ask Dimitri on chat if they can start the tests on friday already instead of the 9th",
        rounds=[
            use("find_contact", name="Dimitri"),
            lambda seen: use(
                "message_person",
                person=person(seen, "Dimitri")["chat"],
                text="Hi Dimitri, could you begin with the tests on Friday already instead of 9 March?",
            ),
        ],
        says="asked dimitri",
        answer=lambda seen: f"I asked {seen.last['sent']}.",
        then=messaged(dimitri="on Friday already"),
        acts=True,
    ),
    Task(
        name="a room with a screen",
        message="the one with the screen then. and message ben and carla where we are",
        before=[
            (
                "Which meeting rooms can I have on Thursday at 2?",
                [use("find_offers", kind="room", place="office", day="2026-03-05")],
                "Room Aare with eight seats, and Room Reuss with twelve seats and a screen.",
            )
        ],
        rounds=[
            (use("find_contact", name="Ben"), use("find_contact", name="Carla")),
            use("book", offer_id="f9", names=["Ana Rossi"], price=0),
            lambda seen: _where(person(seen, "Ben")),
            lambda seen: _where(person(seen, "Carla")),
        ],
        says="Room Reuss",
        answer=lambda seen: f"Room Reuss is booked ({seen.calls[2].data['booking_id']}), and both know.",
        then=every(booked("f9"), messaged(ben="Room Reuss", carla="Room Reuss")),
        acts=True,
    ),
)
