"""Trips and tables, the chat, and the files and notes of the project."""

from tests.office.apart.dates import blocked, invited
from tests.office.apart.letters import Check, entry, just, result, results, sent_to, untouched
from tests.office.apart.papers import messaged, posted
from tests.office.task import Task, use
from tests.office.world import World, new_world
from tests.workloads.workload import calc, edit, read, total, write

TODO = "# Today\n\n- [ ] answer Farid\n- [ ] figures for Emma\n- [x] icons\n"
STATUS = "# Status, week 10\n\nFreeze on 6 March. Tests begin on 9 March. No risks.\n"
RECEIPTS = "what,eur\ntaxi,18.40\nlunch,23.40\nparking,12.00\n"
PACKING = "- passport\n- charger\n- samples\n- 200 flyers\n- business cards\n"


def booked(*offers: str) -> Check:
    """These offers were booked for the user, and what was booked before is still so."""

    def then(world: World) -> bool:
        before = new_world().booking.booked
        more = [each for key, each in world.booking.booked.items() if key not in before]
        return [(each.offer_id, each.names) for each in more] == [(each, ("Ana Rossi",)) for each in offers] and (
            all(key in world.booking.booked for key in before)
        )

    return then


def in_channel(channel: str, *people: str) -> Check:
    """Just these are in that channel now; the others have the members that they had, and nothing was written."""

    def then(world: World) -> bool:
        before = new_world().chat.channels
        others = all(world.chat.channels[name] == each for name, each in before.items() if name != channel)
        found = world.chat.channels[channel]
        same = found.posts == before[channel].posts and not world.chat.messages
        return others and same and sorted(found.members) == sorted(people)

    return then


TRIPS = (
    Task(
        name="the earlier train to Milan",
        message="the earlier one. book it for me and put it into my calendar",
        before=[
            (
                "Which trains from Bern to Milan are there on the 9th, in the afternoon?",
                [use("find_offers", kind="train", place="Bern to Milan", day="2026-03-09")],
                "EC 51 at 15:34 (arrives 18:40) for EUR 58.00, EC 57 at 17:34 (arrives 20:40) for EUR 39.00.",
            )
        ],
        rounds=[
            use("book", offer_id="f1", names=["Ana Rossi"], price=58.0),
            use("add_event", title="EC 51 to Milan", begin="2026-03-09T15:34", end="2026-03-09T18:40", place="Bern"),
        ],
        says="15:34",
        then=just("booking calendar", booked("f1"), blocked("2026-03-09T15:34", "2026-03-09T18:40")),
        acts=True,
    ),
    Task(
        name="the hotel as last time",
        message="Book the same hotel in Milan for the trade fair that I had in February, from the 9th.",
        rounds=[
            (
                use("list_mail", folder="archive", query="hotel Milan"),
                use("find_offers", kind="hotel", place="Milan", day="2026-03-09"),
            ),
            lambda seen: use(
                "book",
                offer_id=next(each["offer_id"] for each in seen.last if each["name"] == "Bellavista"),
                names=["Ana Rossi"],
                price=238.0,
            ),
        ],
        says="Bellavista",
        answer=lambda seen: f"The Bellavista is booked: {seen.last['booking_id']}.",
        then=just("booking", booked("f4")),
        acts=True,
    ),
    Task(
        name="two hotels beside each other, in a note",
        message="Compare the hotels in Milan for the 9th, price and what people say, and keep it as a note.",
        rounds=[
            use("find_offers", kind="hotel", place="Milan", day="2026-03-09"),
            lambda seen: tuple(use("read_reviews", offer_id=each["offer_id"]) for each in seen.last),
            lambda seen: use(
                "write_note",
                name="hotels in Milan",
                text="".join(
                    f"- {offer['name']}, EUR {offer['price']}: {' '.join(said)}\n"
                    for offer, said in zip(result(seen, "find_offers"), results(seen, "read_reviews"), strict=True)
                ),
            ),
        ],
        says="Centrale, EUR 176.00: Loud street.",
        answer=lambda seen: seen.calls[-1].args["text"],
        then=untouched,
    ),
    Task(
        name="what the cheapest trip costs",
        message="whats the cheapest i can do the milan fair for? train both ways + hotel, 9th to 11th",
        rounds=[
            (
                use("find_offers", kind="train", place="Bern to Milan", day="2026-03-09"),
                use("find_offers", kind="train", place="Milan to Bern", day="2026-03-11"),
                use("find_offers", kind="hotel", place="Milan", day="2026-03-09"),
            ),
            lambda seen: calc("+".join(each[0]["price"] for each in results(seen, "find_offers"))),
        ],
        says="264",
        answer=lambda seen: f"EUR {seen.values[0]}.",
        then=untouched,
    ),
    Task(
        name="a table on Friday, with Ben and Carla",
        message="Book a table at the Trattoria this Friday evening and invite Ben and Carla, till 22:00.",
        rounds=[
            (
                use("find_offers", kind="table", place="Bern", day="2026-03-06"),
                use("find_contact", name="Ben"),
                use("find_contact", name="Carla"),
            ),
            lambda seen: use(
                "book",
                offer_id=next(each["offer_id"] for each in result(seen, "find_offers") if each["name"] == "Trattoria"),
                names=["Ana Rossi"],
                price=0.0,
            ),
            lambda seen: use(
                "invite",
                title="Dinner",
                begin="2026-03-06T19:00",
                end="2026-03-06T22:00",
                guests=[entry(seen, "Ben")["mail"], entry(seen, "Carla")["mail"]],
                place="Trattoria",
            ),
        ],
        says="19:00",
        then=just(
            "booking calendar",
            booked("f6"),
            invited(
                "2026-03-06T19:00", "2026-03-06T22:00", "ben@firm.example", "carla@firm.example", place="Trattoria"
            ),
        ),
        acts=True,
    ),
    Task(
        name="no table on the 13th",
        message="Cancel the table on the 13th, we eat at home.",
        rounds=[
            use("list_bookings"),
            lambda seen: use(
                "cancel_booking",
                booking_id=next(each["booking_id"] for each in seen.last if each["at"].startswith("2026-03-13")),
            ),
        ],
        says="Trattoria",
        then=just("booking", lambda world: world.booking.booked == {}),
        acts=True,
    ),
    Task(
        name="what was in the product channel",
        message="What did I miss in #product since Friday? Anything for me?",
        rounds=[use("read_channel", channel="product")],
        says="carla: Customer SA asks for the offer",
        answer=lambda seen: "\n".join(f"{each['by']}: {each['text']}" for each in seen.last),
        then=untouched,
    ),
    Task(
        name="in for the pizza",
        message="tell the lunch channel im in",
        rounds=[
            use("read_channel", channel="lunch", last=5),
            use("post_message", channel="lunch", text="I'm in, see you at 12:15!"),
        ],
        says="lunch",
        answer=lambda seen: f"Posted in {seen.last['posted']}.",
        then=just("chat", posted("lunch", "I'm in")),
        acts=True,
    ),
    Task(
        name="import first in the tests",
        message="Scrivi a Dimitri in chat che nei test vorrei vedere prima l'import.",
        rounds=[
            use("find_contact", name="Dimitri"),
            lambda seen: use(
                "message_person",
                person=seen.last[0]["chat"],
                text="Hi Dimitri, in the tests I'd like to see the import first. Ana",
            ),
        ],
        says="Dimitri",
        then=just("chat", messaged("dimitri", holds="import first")),
        acts=True,
    ),
    Task(
        name="Emma into the product channel",
        message="Add Emma to the product channel please",
        rounds=[
            use("find_contact", name="Emma"),
            lambda seen: use("invite_to_channel", channel="product", people=[seen.last[0]["chat"]]),
        ],
        says="emma",
        answer=lambda seen: f"In the channel are {', '.join(seen.last['members'])}.",
        then=just("chat", in_channel("product", "ana", "ben", "carla", "dimitri", "emma")),
        acts=True,
    ),
    Task(
        name="Grace out of the partner channel",
        message="Grace works on something else now, remove her from the partner channel.",
        rounds=[
            use("list_channels"),
            use("remove_from_channel", channel="partner", person="grace"),
        ],
        says="ana, ben, farid",
        answer=lambda seen: f"Those left are {', '.join(seen.last['members'])}.",
        then=just("chat", in_channel("partner", "ana", "ben", "farid")),
    ),
    Task(
        name="packing list as a file",
        message="Copy my packing list from the drive to apart/packing.md as a list, and add business cards.",
        rounds=[
            use("find_documents", query="packing list"),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            lambda seen: write(
                "apart/packing.md",
                "".join(f"- {each}\n" for each in [*seen.last["text"].split(", "), "business cards"]),
            ),
        ],
        says="packing.md",
        leaves={"apart/packing.md": PACKING},
        then=untouched,
    ),
    Task(
        name="tick off what is done",
        message="tick off farid in apart/todo.md",
        files={"apart/todo.md": TODO},
        rounds=[read("apart/todo.md"), edit("apart/todo.md", "- [ ] answer Farid", "- [x] answer Farid")],
        says="Farid",
        leaves={"apart/todo.md": TODO.replace("- [ ] answer Farid", "- [x] answer Farid")},
        then=untouched,
    ),
    Task(
        name="the status of the week to Emma",
        message="Mail what's in apart/status.md to my manager Emma, as it is.",
        files={"apart/status.md": STATUS},
        rounds=[
            (read("apart/status.md"), use("find_contact", name="Emma")),
            lambda seen: use(
                "send_mail",
                to=[entry(seen, "Emma")["mail"]],
                subject="Status, week 10",
                text=seen.text("apart/status.md"),
            ),
        ],
        says="Emma",
        then=just("mail", sent_to("emma@firm.example", holds=["Freeze on 6 March. Tests begin on 9 March."])),
        acts=True,
    ),
    Task(
        name="a room with a screen, and tell Ben",
        message="I need a room with a screen Thursday at two. Book one and message Ben which it is.",
        rounds=[
            (use("find_offers", kind="room", day="2026-03-05"), use("find_contact", name="Ben")),
            lambda seen: use(
                "book",
                offer_id=next(each["offer_id"] for each in result(seen, "find_offers") if "screen" in each["about"]),
                names=["Ana Rossi"],
                price=0.0,
            ),
            lambda seen: use(
                "message_person",
                person=entry(seen, "Ben")["chat"],
                text="We have Room Reuss on Thursday at 14:00, with a screen.",
            ),
        ],
        says="Room Reuss",
        then=just("booking chat", booked("f9"), messaged("ben", holds="Room Reuss on Thursday at 14:00")),
        acts=True,
    ),
    Task(
        name="the sum of the receipts for Liv",
        message="Add up apart/receipts.csv and tell Liv in the chat what it comes to.",
        files={"apart/receipts.csv": RECEIPTS},
        rounds=[
            (read("apart/receipts.csv"), use("find_contact", name="Liv")),
            lambda seen: calc(total(seen.rows("apart/receipts.csv"), "eur")),
            lambda seen: use(
                "message_person",
                person=entry(seen, "Liv")["chat"],
                text=f"Hi Liv, my receipts come to EUR {float(seen.values[0]):.2f}. Ana",
            ),
        ],
        says="53.80",
        answer=lambda seen: f"I told Liv: EUR {float(seen.values[0]):.2f}.",
        then=just("chat", messaged("liv", holds="53.80")),
        acts=True,
    ),
    Task(
        name="where I am next week",
        message="Post in general when I'm away for the trade fair, and that Ben stands in for me.",
        rounds=[
            use("list_events", first="2026-03-02", last="2026-03-31"),
            lambda seen: use(
                "post_message",
                channel="general",
                text=f"I'm in {seen.last[-1]['place']} at the trade fair on 10 and 11 March. Ben stands in for me.",
            ),
        ],
        says="general",
        answer=lambda seen: f"It is in {seen.last['posted']}.",
        then=just("chat", posted("general", "10 and 11 March", "Ben")),
        acts=True,
    ),
)
