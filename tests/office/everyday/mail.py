"""Everyday tasks about mail: to answer, to write, to pass on, to look up and to tidy."""

from collections.abc import Callable
from typing import Any, TypeAlias

from tests.office.mail import Mail, address
from tests.office.task import Task, use
from tests.office.world import World
from tests.workloads.workload import Seen, calc

Check: TypeAlias = Callable[[World], bool]


def first(seen: Seen, tool: str) -> dict[str, Any]:
    """The first that the last call of a tool found."""
    return [call for call in seen.calls if call.name == tool][-1].data[0]


def person(seen: Seen, name: str) -> dict[str, str]:
    """Who was found in the address book by that name."""
    (found,) = [call.data for call in seen.calls if call.name == "find_contact" and call.args["name"] == name]
    return found[0]


def every(*checks: Check) -> Check:
    """The world is as all of these want it."""
    return lambda world: all(check(world) for check in checks)


def _written(world: World, folder: str) -> list[Mail]:
    return [each for each in world.mail.mails.values() if int(each.mail_id[1:]) > 18 and each.folder == folder]


def sent_nothing(world: World) -> bool:
    return not _written(world, "sent")


def sent_to(*people: str, holds: str = "", thread: str = "", documents: tuple[str, ...] = ()) -> Check:
    """One mail was sent, to these people alone, with these words and documents; in that thread if one is named."""

    def then(world: World) -> bool:
        mails = _written(world, "sent")
        return len(mails) == 1 and (
            {address(each) for each in (*mails[0].to, *mails[0].cc, *mails[0].bcc)} == {*people}
            and holds in f"{mails[0].subject}\n{mails[0].text}"
            and thread in ("", mails[0].thread)
            and mails[0].documents == documents
        )

    return then


def drafted(to: str, *words: str) -> Check:
    """One draft was written, to one person, with all of these words, and nothing was sent."""

    def then(world: World) -> bool:
        drafts = _written(world, "drafts")
        return len(drafts) == 1 and drafts[0].to == (to,) and all(word in drafts[0].text for word in words)

    return every(then, sent_nothing)


def filed(folder: str, *mail_ids: str) -> Check:
    """Just these mails are in that folder."""
    return lambda world: {each.mail_id for each in world.mail.mails.values() if each.folder == folder} == {*mail_ids}


def open_first(seen: Seen) -> Any:
    """Read the first of the mails that were listed last."""
    return use("read_mail", mail_id=first(seen, "list_mail")["mail_id"])


def answer_first(text: str, **more: Any) -> Callable[[Seen], Any]:
    """Answer the first of the mails that were listed last."""
    return lambda seen: use("reply_mail", mail_id=first(seen, "list_mail")["mail_id"], text=text, **more)


def _list_for_liv(seen: Seen) -> Any:
    text = f"Hi Liv, Milan in February: hotel EUR 238.00, train EUR 96.00, together EUR {seen.values[0]}.00. Ana"
    return use("reply_mail", mail_id="m13", text=text)


MAIL = (
    Task(
        name="what has to be answered today",
        message="morning! is there anything unread that really needs an answer from me today? skip newsletters",
        rounds=[
            use("list_mail", unread=True),
            lambda seen: tuple(
                use("read_mail", mail_id=each["mail_id"]) for each in seen.last if "newsletter" not in each["sender"]
            ),
        ],
        says="Kick-off (Farid Haddad)",
        answer=lambda seen: "; ".join(
            f"{call.data['subject']} ({call.data['sender'].partition(' <')[0]})"
            for call in seen.calls
            if call.name == "read_mail" and "?" in call.data["text"]
        ),
        then=every(lambda world: not world.mail.mails["m6"].is_read, sent_nothing),
    ),
    Task(
        name="Emma gets the figures on Wednesday",
        message="Tell Emma she'll have the Q1 figures by Wednesday noon.",
        rounds=[
            use("list_mail", query="emma budget"),
            open_first,
            answer_first("Hi Emma, you'll have the figures of the first quarter by Wednesday noon. Ana"),
        ],
        says="I answered Emma",
        then=sent_to("emma@firm.example", holds="Wednesday noon", thread="m1"),
        acts=True,
    ),
    Task(
        name="clause 7 is fine",
        message="Answer Grace that clause 7 is fine with us.",
        rounds=[
            use("list_mail", query="Grace contract"),
            open_first,
            answer_first("Dear Grace, thank you for version 3. Clause 7 with 30 days is fine with us. Ana"),
        ],
        says="told Grace",
        answer=lambda seen: f"I told Grace: {first(seen, 'list_mail')['subject']} is fine with you.",
        then=sent_to("grace@partner.example", holds="Clause 7", thread="m11"),
        acts=True,
    ),
    Task(
        name="thanks to Ben",
        message="drop ben a quick mail: thanks for paying at the trattoria, money comes tonight",
        rounds=[
            use("find_contact", name="Ben"),
            lambda seen: use(
                "send_mail",
                to=[person(seen, "Ben")["mail"]],
                subject="Trattoria",
                text="Hi Ben, thanks for paying at the Trattoria! You get the money tonight. Ana",
            ),
        ],
        says="ben@firm.example",
        answer=lambda seen: f"Sent to {person(seen, 'Ben')['mail']}.",
        then=sent_to("ben@firm.example", holds="tonight"),
        acts=True,
    ),
    Task(
        name="minutes on to Emma",
        message="Can you forward the minutes of the outage to Emma? She was not on the list.",
        rounds=[
            (use("list_mail", query="outage minutes"), use("find_contact", name="Emma")),
            lambda seen: use(
                "forward_mail",
                mail_id=first(seen, "list_mail")["mail_id"],
                to=[person(seen, "Emma")["mail"]],
                text="Hi Emma, here are the minutes of Tuesday's outage. Ana",
            ),
        ],
        says="Emma has the minutes",
        then=sent_to("emma@firm.example", holds="The queue was full"),
        acts=True,
    ),
    Task(
        name="draft about the outage",
        message=(
            "I owe our customers a message about Tuesday's outage. Draft one to Ines Duarte please, short and without "
            "technical detail - I'll go over it tonight, don't send it."
        ),
        rounds=[
            (use("list_mail", query="outage"), use("find_contact", name="Ines")),
            open_first,
            lambda seen: use(
                "draft_mail",
                to=[person(seen, "Ines")["mail"]],
                subject="Short outage last Tuesday",
                text="Dear Ines, last Tuesday our service did not answer from 10:12 to 10:47. We are sorry. By 9 March "
                "we will have an earlier alarm and more reserve. Kind regards, Ana",
            ),
        ],
        says="in your drafts",
        answer=lambda seen: f"{seen.last['mail_id']} is in your drafts.",
        then=drafted("ines@customer.example", "10:12", "10:47"),
    ),
    Task(
        name="newsletters aside",
        message="put newsletters in a folder Reading, i want them out of my inbox",
        rounds=[
            use("list_mail", query="newsletter"),
            lambda seen: use("file_mail", mail_ids=[each["mail_id"] for each in seen.last], folder="Reading"),
        ],
        says="1 mail",
        answer=lambda seen: f"{seen.last['filed']} mail is in Reading now.",
        then=filed("Reading", "m6"),
    ),
    Task(
        name="spam away",
        message="Empty my spam folder.",
        rounds=[
            use("list_mail", folder="spam"),
            lambda seen: use("delete_mail", mail_ids=[each["mail_id"] for each in seen.last]),
        ],
        says="1 deleted",
        answer=lambda seen: f"{seen.last['deleted']} deleted.",
        then=lambda world: {*map(int, (key[1:] for key in world.mail.mails))} == {*range(1, 19)} - {14},
    ),
    Task(
        name="receipts of Milan for Liv",
        message="Liv needs a list of my Milan costs. The receipts must be somewhere in my archive. Send her the sums?",
        rounds=[
            (use("list_mail", query="liv travel costs"), use("list_mail", folder="archive", query="Milan")),
            lambda seen: tuple(use("read_mail", mail_id=each["mail_id"]) for each in seen.last),
            calc("238.00 + 96.00"),
            _list_for_liv,
        ],
        says="334",
        answer=lambda seen: f"Liv has the list: {seen.values[0]} EUR in all.",
        then=sent_to("liv@firm.example", holds="EUR 334.00", thread="m13"),
        acts=True,
    ),
    Task(
        name="Thursday at two suits me",
        message="pls answer farid, thursday 2pm works if were done by 3",
        rounds=[
            (
                use("list_mail", query="farid kick-off"),
                use("list_events", first="2026-03-05", last="2026-03-05"),
            ),
            lambda seen: use("read_mail", mail_id=seen.calls[0].data[0]["mail_id"]),
            answer_first("Hi Farid, Thursday at 14:00 works for me if we are done by 15:00. Best, Ana"),
        ],
        says="Farid",
        answer=lambda seen: f"Farid knows. At {seen.calls[1].data[-1]['begin'][11:]} you have the budget review.",
        then=sent_to("farid@partner.example", holds="done by 15:00", thread="m2"),
        acts=True,
    ),
    Task(
        name="who wrote about the contract",
        message="Who wrote to me about the contract last week and what exactly do they want from me?",
        rounds=[use("list_mail", query="contract"), open_first],
        says="Grace Lin <grace@partner.example>",
        answer=lambda seen: f"{seen.last['sender']}: {seen.last['text']}",
        then=sent_nothing,
    ),
    Task(
        name="cold bathroom",
        message=(
            "Write to weber@homes.example that the heating in my bathroom has been cold since Saturday, and ask when "
            "somebody can have a look. I'm at home before 8 and after 18:00."
        ),
        rounds=[
            use(
                "send_mail",
                to=["weber@homes.example"],
                subject="Heating in the bathroom",
                text="Dear Mr Weber, the heating in my bathroom has been cold since Saturday. When can somebody have a "
                "look at it? I am at home before 8:00 and after 18:00. Kind regards, Ana Rossi",
            )
        ],
        says="Mr Weber",
        answer=lambda seen: f"The mail to Mr Weber is out ({seen.last['mail_id']}).",
        then=sent_to("weber@homes.example", holds="since Saturday"),
        acts=True,
    ),
    Task(
        name="away at the dentist's",
        message="Mail Dimitri and Carla that I'm out tomorrow from when the dentist is, back Wed morning",
        rounds=[
            (
                use("list_events", first="2026-03-03", last="2026-03-03"),
                use("find_contact", name="Dimitri"),
                use("find_contact", name="Carla"),
            ),
            lambda seen: use(
                "send_mail",
                to=[person(seen, "Dimitri")["mail"], person(seen, "Carla")["mail"]],
                subject="Out tomorrow afternoon",
                text=f"Hi both, I'm out tomorrow from {seen.calls[0].data[-1]['begin'][11:]}, and back on Wednesday "
                "morning. Ana",
            ),
        ],
        says="Both know",
        then=sent_to("dimitri@firm.example", "carla@firm.example", holds="from 16:30"),
        acts=True,
    ),
    Task(
        name="all of the minutes",
        message="Reply all on Dimitri's outage minutes: the message to customers goes out tomorrow, from me.",
        rounds=[
            use("list_mail", query="outage"),
            open_first,
            answer_first("Hi all, the message to customers goes out tomorrow; I'll send it. Ana", to_all=True),
        ],
        says="the three of them",
        then=sent_to("dimitri@firm.example", "ben@firm.example", "carla@firm.example", holds="tomorrow", thread="m7"),
        acts=True,
    ),
    Task(
        name="the printer gets the money on Friday",
        message="let hugo know hell have his money by friday, and that the flyers look great",
        rounds=[
            use("list_mail", query="hugo invoice"),
            open_first,
            lambda seen: use(
                "reply_mail",
                mail_id=seen.last["mail_id"],
                text=f"Hello, the flyers look great! {seen.last['subject']} will be paid by Friday. Ana Rossi",
            ),
        ],
        says="Hugo",
        answer=lambda seen: f"Hugo's shop has the answer, at {address(seen.last['to'][0])}.",
        then=every(
            sent_to("orders@hugo-print.example", holds="2026-118 will be paid by Friday", thread="m3"),
            lambda world: not world.bank.paid,
        ),
        acts=True,
    ),
    Task(
        name="draft with the date of the release",
        message=(
            "Ines asked for the March release. Look up in our plan when customers get it and prepare an answer for me "
            "as draft, mentioning her board meeting."
        ),
        rounds=[
            (use("list_mail", query="ines release"), use("find_documents", query="release plan")),
            lambda seen: (
                use("read_mail", mail_id=seen.calls[0].data[0]["mail_id"]),
                use("read_document", doc_id=first(seen, "find_documents")["doc_id"]),
            ),
            lambda seen: use(
                "draft_mail",
                to=[address(seen.calls[2].data["sender"])],
                subject=f"Re: {seen.calls[2].data['subject']}",
                text=f"Dear Ines, you will have the release on {seen.last['text'].partition('get it on ')[2]} "
                "That is two days before your board meeting on the 18th. Ana",
            ),
        ],
        says="16 March",
        answer=lambda seen: f"A draft is ready. The plan says: {seen.calls[3].data['text']}",
        then=drafted("ines@customer.example", "on 16 March.", "18th"),
    ),
)
