"""Mail and answers: reading, sorting, drafting and sending."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from email.utils import parseaddr
from typing import Any

from tests.office.mail import Mail
from tests.office.task import Task, use
from tests.office.world import World, new_world
from tests.workloads.workload import Seen, calc

Check = Callable[[World], bool]
LAST_MAIL = 18
"""The number of the last mail that is there at the beginning."""

REGRET = (
    "Dear Ines, on Tuesday our queue was full from 10:12 to 10:47, and some of your requests had to wait. A worker "
    "hung; there will be an alarm and a second one by 9 March. We are sorry. Ana"
)


def addresses(*people: str) -> set[str]:
    """Without the names that stand beside them."""
    return {parseaddr(each)[1] for each in people}


def new_mails(world: World, folder: str = "sent") -> list[Mail]:
    return [each for each in world.mail.mails.values() if each.folder == folder and int(each.mail_id[1:]) > LAST_MAIL]


def sent_to(*people: str, holds: Sequence[str] = (), documents: Sequence[str] = ()) -> Check:
    """One mail was sent, to just these, with these words in it and these documents."""

    def then(world: World) -> bool:
        sent = new_mails(world)
        return [addresses(*each.to, *each.cc, *each.bcc) for each in sent] == [{*people}] and (
            all(words in sent[0].text for words in holds) and sent[0].documents == tuple(documents)
        )

    return then


def drafted_to(person: str, *holds: str) -> Check:
    """One draft was written, to that person, with these words in it; nothing was sent."""

    def then(world: World) -> bool:
        drafts = new_mails(world, "drafts")
        return [addresses(*each.to) for each in drafts] == [{person}] and (
            all(words in drafts[0].text for words in holds) and not new_mails(world)
        )

    return then


def filed(folder: str, *mail_ids: str) -> Check:
    """These mails are in that folder, and every other is where it was."""

    def then(world: World) -> bool:
        before = {key: each.folder for key, each in new_world().mail.mails.items()}
        after = {key: each.folder for key, each in world.mail.mails.items()}
        return after == before | dict.fromkeys(mail_ids, folder)

    return then


def _states(world: World) -> dict[str, Any]:
    """What can be changed, by service. Whether a mail was read doesn't matter."""
    mails = {key: replace(each, is_read=True) for key, each in world.mail.mails.items()}
    return {
        "contacts": world.contacts.entries,
        "mail": (mails, world.mail.forwards_to),
        "calendar": (world.calendar.events, world.calendar.told),
        "drive": world.drive.documents,
        "bank": (world.bank.transfers, world.bank.orders),
        "chat": (world.chat.channels, world.chat.messages),
        "booking": world.booking.booked,
    }


def just(services: str, *checks: Check) -> Check:
    """All of these hold, and every other service is as it was."""

    def then(world: World) -> bool:
        before, after = _states(new_world()), _states(world)
        kept = all(after[name] == before[name] for name in before if name not in services.split())
        return kept and all(check(world) for check in checks)

    return then


untouched = just("")
"""Nothing was changed, and nobody heard of anything."""


def result(seen: Seen, tool: str) -> Any:
    """What the last call of that tool brought."""
    return [call for call in seen.calls if call.name == tool][-1].data


def results(seen: Seen, tool: str) -> list[Any]:
    return [call.data for call in seen.calls if call.name == tool]


def entry(seen: Seen, name: str) -> dict[str, Any]:
    """The entry of the address book whose name begins so, from all that was found there."""
    return next(each for data in results(seen, "find_contact") for each in data if each["name"].startswith(name))


def month_costs(text: str, month: str) -> str:
    """The costs of a month in the table, as a sum."""
    return "+".join(line.split(",")[2] for line in text.splitlines() if line.startswith(month))


LETTERS = (
    Task(
        name="answer Ines with the date of the release plan",
        message="Ines asks when she gets the March release. Look it up in the release plan and answer her, please.",
        rounds=[
            (use("list_mail", query="Ines release"), use("find_documents", query="release plan")),
            lambda seen: (
                use("read_mail", mail_id=result(seen, "list_mail")[0]["mail_id"]),
                use("read_document", doc_id=seen.last[0]["doc_id"]),
            ),
            lambda seen: use(
                "reply_mail",
                mail_id=result(seen, "read_mail")["mail_id"],
                text="Dear Ines, the March release reaches you on 16 March, two days before your board meeting. Ana",
            ),
        ],
        says="16 March",
        then=just("mail", sent_to("ines@customer.example", holds=["16 March"])),
        acts=True,
    ),
    Task(
        name="answer Grace that the notice is fine",
        message="answer Grace that it's fine with the 30 days",
        rounds=[
            use("list_mail", query="Grace 30 days"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            lambda seen: use(
                "reply_mail",
                mail_id=seen.last["mail_id"],
                text="Dear Grace, 30 days in clause 7 are fine with us. Best regards, Ana",
            ),
        ],
        says="Grace",
        then=just("mail", sent_to("grace@partner.example", holds=["30 days"])),
        acts=True,
    ),
    Task(
        name="what the unread mails want of me",
        message="What do my unread mails want from me? One line each. No newsletters.",
        rounds=[
            use("list_mail", unread=True),
            lambda seen: tuple(
                use("read_mail", mail_id=each["mail_id"]) for each in seen.last if "newsletter" not in each["sender"]
            ),
        ],
        says="payable by 10 March",
        answer=lambda seen: "\n".join(
            f"{each['sender']}: {each['text'].split(chr(10))[0]}" for each in results(seen, "read_mail")
        ),
        then=untouched,
    ),
    Task(
        name="forward the minutes of the outage to Emma",
        message="Forward Dimitri's minutes of the outage to Emma, with a line that I write to the customers by Friday.",
        rounds=[
            (use("list_mail", query="Dimitri outage minutes"), use("find_contact", name="Emma")),
            lambda seen: use(
                "forward_mail",
                mail_id=result(seen, "list_mail")[0]["mail_id"],
                to=[entry(seen, "Emma")["mail"]],
                text="Hi Emma, here are the minutes. I write to the customers by Friday. Ana",
            ),
        ],
        says="Emma",
        then=just("mail", sent_to("emma@firm.example", holds=["by Friday", "The queue was full"])),
        acts=True,
    ),
    Task(
        name="draft of the figures for Emma",
        message=(
            "Draft an answer to Emma's budget mail with the totals of January and February from the costs table. "
            "Don't send it, March is still missing."
        ),
        rounds=[
            (use("list_mail", query="Emma budget"), use("find_documents", query="Costs 2026")),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            lambda seen: (
                calc(month_costs(seen.last["text"], "Jan")),
                calc(month_costs(seen.last["text"], "Feb")),
            ),
            lambda seen: use(
                "draft_mail",
                to=[result(seen, "list_mail")[0]["sender"]],
                subject="Re: Budget 2026",
                text=f"Hi Emma,\n\nJanuary: EUR {seen.values[0]}\nFebruary: EUR {seen.values[1]}\nMarch:\n\nAna",
            ),
        ],
        says="1510",
        answer=lambda seen: f"The draft says {seen.values[0]} for January and {seen.values[1]} for February.",
        then=just("mail", drafted_to("emma@firm.example", "1510", "1584")),
    ),
    Task(
        name="newsletter into a folder of its own",
        message='get that trends newsletter out of my inbox, into a folder "reading"',
        rounds=[
            use("list_mail", query="trends"),
            lambda seen: use("file_mail", mail_ids=[each["mail_id"] for each in seen.last], folder="reading"),
        ],
        says="reading",
        then=just("mail", filed("reading", "m6")),
    ),
    Task(
        name="empty the spam folder",
        message="Empty my spam folder.",
        rounds=[
            use("list_mail", folder="spam"),
            lambda seen: use("delete_mail", mail_ids=[each["mail_id"] for each in seen.last]),
        ],
        says="1 mail",
        answer=lambda seen: f"I deleted {seen.last['deleted']} mail.",
        then=just("mail", lambda world: {*new_world().mail.mails} - {*world.mail.mails} == {"m14"}),
    ),
    Task(
        name="check the total of Carla's offer and answer her",
        message=(
            "Carla sent me her offer for Customer SA to check, do the numbers add up? If not, answer her what the "
            "total should be."
        ),
        rounds=[
            (use("list_mail", query="Carla offer"), use("find_documents", query="Offer Customer SA")),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            calc("9000+2400+1200"),
            lambda seen: use(
                "reply_mail",
                mail_id=result(seen, "list_mail")[0]["mail_id"],
                text=f"Hi Carla, the three lines add up to {seen.values[0]}, but the total says 12400. Ana",
            ),
        ],
        says="12600",
        answer=lambda seen: f"They don't: it is {seen.values[0]}. I told Carla.",
        then=just("mail", sent_to("carla@firm.example", holds=["12600"])),
        acts=True,
    ),
    Task(
        name="list of the Milan receipts for Liv",
        message=(
            "Liv is waiting for my Milan receipts. Take the sums from the hotel's and the rail's mails, they are in "
            "the archive, and answer her mail with a list and the total."
        ),
        rounds=[
            (use("list_mail", query="Liv travel costs"), use("list_mail", query="Milan", folder="archive")),
            lambda seen: tuple(use("read_mail", mail_id=each["mail_id"]) for each in seen.last),
            calc("238.00+96.00"),
            lambda seen: use(
                "reply_mail",
                mail_id=results(seen, "list_mail")[0][0]["mail_id"],
                text=f"Hi Liv,\n\nhotel: EUR 238.00\ntrain: EUR 96.00\ntogether: EUR {seen.values[0]}\n\nAna",
            ),
        ],
        says="334",
        then=just("mail", sent_to("liv@firm.example", holds=["238.00", "96.00", "334"])),
        acts=True,
    ),
    Task(
        name="yes to the birthday, and into the calendar",
        message="tell jonas yes for mums birthday, I get the flowers. put it in my calendar too, till 3 or so",
        rounds=[
            use("list_mail", query="Jonas birthday"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            lambda seen: use(
                "reply_mail", mail_id=seen.last["mail_id"], text="Yes, see you there! I get the flowers. A"
            ),
            use("add_event", title="Mum's birthday", begin="2026-03-15T12:00", end="2026-03-15T15:00"),
        ],
        says="Jonas",
        then=just(
            "mail calendar",
            sent_to("jonas@home.example", holds=["flowers"]),
            lambda world: (
                [each.begin for each in world.calendar.events.values() if "Mum" in each.title] == ["2026-03-15T12:00"]
            ),
        ),
        acts=True,
    ),
    Task(
        name="what Partner AG wants",
        message="I lost track: what did the people of Partner AG write me lately and what do they want?",
        rounds=[
            use("find_contact", name="partner.example"),
            lambda seen: tuple(use("list_mail", query=each["mail"]) for each in seen.last),
            lambda seen: tuple(
                use("read_mail", mail_id=each["mail_id"]) for found in results(seen, "list_mail") for each in found
            ),
        ],
        says="Thursday at 14:00",
        answer=lambda seen: "\n".join(each["text"] for each in results(seen, "read_mail")),
        then=untouched,
    ),
    Task(
        name="old read mail into the archive",
        message="Archive what I have read and that came before 24 February.",
        rounds=[
            use("list_mail"),
            lambda seen: use(
                "file_mail",
                mail_ids=[each["mail_id"] for each in seen.last if each["is_read"] and each["at"] < "2026-02-24"],
                folder="archive",
            ),
        ],
        says="3 mails",
        answer=lambda seen: f"{seen.last['filed']} mails are in the archive now.",
        then=just("mail", filed("archive", "m12", "m13", "m16")),
    ),
    Task(
        name="ask Ben about the second worker",
        message="Ask Ben by mail whether he manages the second worker by the 9th, Dimitri in copy.",
        before=[
            (
                "What were the actions after the outage again?",
                [
                    use("list_mail", query="outage actions"),
                    lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
                ],
                "An alarm at 80 % (Dimitri), a message to customers (you), a second worker (Ben), all by 9 March.",
            )
        ],
        rounds=[
            use(
                "send_mail",
                to=["ben@firm.example"],
                cc=["dimitri@firm.example"],
                subject="Second worker",
                text="Hi Ben, will you manage the second worker by 9 March? Ana",
            ),
        ],
        says="Ben",
        then=just(
            "mail",
            sent_to("ben@firm.example", "dimitri@firm.example", holds=["second worker", "9 March"]),
            lambda world: world.mail.sent[-1].to == ("ben@firm.example",),
        ),
        acts=True,
    ),
    Task(
        name="figures come on Wednesday morning",
        message="pls wirte emma the figuers come wensday mornign",
        rounds=[
            use("find_contact", name="Emma"),
            lambda seen: use(
                "send_mail",
                to=[entry(seen, "Emma")["mail"]],
                subject="Figures of the first quarter",
                text="Hi Emma, you get the figures on Wednesday morning. Ana",
            ),
        ],
        says="Emma",
        then=just("mail", sent_to("emma@firm.example", holds=["Wednesday morning"])),
        acts=True,
    ),
    Task(
        name="send the draft about the outage",
        message="Good. Send it.",
        before=[
            (
                "Draft a short, honest mail to Ines about last Tuesday's outage. I want to see it first.",
                [
                    (use("list_mail", query="outage minutes"), use("find_contact", name="Ines")),
                    lambda seen: use("read_mail", mail_id=result(seen, "list_mail")[0]["mail_id"]),
                    lambda seen: use(
                        "draft_mail", to=[entry(seen, "Ines")["mail"]], subject="Last Tuesday", text=REGRET
                    ),
                ],
                REGRET,
            )
        ],
        rounds=[use("send_mail", to=["ines@customer.example"], subject="Last Tuesday", text=REGRET)],
        says="Ines",
        answer=lambda seen: f"Ines has it: {seen.last['mail_id']}.",
        then=just("mail", sent_to("ines@customer.example", holds=["10:12 to 10:47", "sorry"])),
        acts=True,
    ),
    Task(
        name="answer to all on the minutes",
        message="Antworte allen auf Dimitris Protokoll vom Ausfall: meine Nachricht an die Kunden geht morgen raus.",
        rounds=[
            use("list_mail", query="Dimitri outage"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            lambda seen: use(
                "reply_mail",
                mail_id=seen.last["mail_id"],
                text="Hi all, my message to the customers goes out tomorrow. Ana",
                to_all=True,
            ),
        ],
        says="allen",
        answer=lambda seen: f"Ich habe allen geantwortet: {', '.join(seen.last['to'])}.",
        then=just(
            "mail", sent_to("dimitri@firm.example", "ben@firm.example", "carla@firm.example", holds=["tomorrow"])
        ),
        acts=True,
    ),
)
