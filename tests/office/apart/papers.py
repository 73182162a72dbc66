"""Documents: finding, comparing, writing, commenting, and who may see them."""

from typing import Any

from tests.office.apart.letters import Check, entry, just, result, results, sent_to, untouched
from tests.office.drive import ANYONE, Document
from tests.office.task import Task, use
from tests.office.world import World, new_world
from tests.workloads.workload import Seen, calc

OUTAGE = (
    "Queue full from 10:12 to 10:47; a worker hung.\n\n- Alarm at 80 %: Dimitri\n- Message to customers: Ana\n"
    "- Second worker: Ben\n\nAll by 9 March.\n"
)
DARK = "Why: wish no. 2 of the survey (n=212).\nWhat: a dark theme for all pages.\nOpen: effort.\n"


def changed_documents(world: World) -> dict[str, Document | None]:
    """Those that are new or not as they were; None for one that is gone."""
    before, after = new_world().drive.documents, world.drive.documents
    return {key: after.get(key) for key in {*before, *after} if before.get(key) != after.get(key)}


def shared(doc_id: str, role: str, *people: str) -> Check:
    """That document alone was changed: these got that role, everybody else has what they had."""

    def then(world: World) -> bool:
        document = world.drive.documents[doc_id]
        before = new_world().drive.documents[doc_id].shared
        return {*changed_documents(world)} == {doc_id} and document.shared == before | dict.fromkeys(people, role)

    return then


def written(title: str, text: str, folder: str = "") -> Check:
    """One document was made or got a new text, and is so now."""

    def then(world: World) -> bool:
        found = [*changed_documents(world).values()]
        return [(each.title, each.text, each.folder) for each in found if each] == [(title, text, folder)]

    return then


def commented(doc_id: str, *holds: str) -> Check:
    """That document alone was changed, and got one comment with these words."""

    def then(world: World) -> bool:
        found = world.drive.documents[doc_id].comments[len(new_world().drive.documents[doc_id].comments) :]
        return {*changed_documents(world)} == {doc_id} and len(found) == 1 and all(each in found[0] for each in holds)

    return then


def messaged(*people: str, holds: str = "") -> Check:
    """Just these got a direct message each, with that in it; nothing was posted."""

    def then(world: World) -> bool:
        told = {person: len(posts) for person, posts in world.chat.messages.items()}
        texts = [post.text for posts in world.chat.messages.values() for post in posts]
        channels = world.chat.channels == new_world().chat.channels
        return told == dict.fromkeys(people, 1) and channels and all(holds in text for text in texts)

    return then


def posted(channel: str, *holds: str) -> Check:
    """One message was posted, in that channel, with these words; no direct ones were sent."""

    def then(world: World) -> bool:
        before = new_world().chat.channels
        more = {
            name: [post.text for post in each.posts[len(before[name].posts) :]]
            for name, each in world.chat.channels.items()
            if each.posts != before[name].posts
        }
        return (
            {*more} == {channel}
            and len(more[channel]) == 1
            and not world.chat.messages
            and (all(words in more[channel][0] for words in holds))
        )

    return then


def members(seen: Seen, channel: str) -> list[str]:
    """Who is in a channel beside the user."""
    found: list[dict[str, Any]] = result(seen, "list_channels")
    return [who for each in found if each["name"] == channel for who in each["members"] if who != "ana"]


PAPERS = (
    Task(
        name="release plan for my manager",
        message="Let Emma read the release plan.",
        rounds=[
            (use("find_contact", name="Emma"), use("find_documents", query="release plan")),
            lambda seen: use("share_document", doc_id=seen.last[0]["doc_id"], people=[entry(seen, "Emma")["mail"]]),
        ],
        says="Emma",
        then=just("drive", shared("d3", "reader", "emma@firm.example")),
        acts=True,
    ),
    Task(
        name="Ben off the release plan",
        message="Ben doesn't need the release plan any more, take his access away",
        rounds=[
            (use("find_contact", name="Ben"), use("find_documents", query="release plan")),
            lambda seen: use("unshare_document", doc_id=seen.last[0]["doc_id"], people=[entry(seen, "Ben")["mail"]]),
        ],
        says="dimitri@firm.example",
        answer=lambda seen: f"Only {', '.join(seen.last['shared'])} can see it now.",
        then=just("drive", lambda world: world.drive.documents["d3"].shared == {"dimitri@firm.example": "writer"}),
    ),
    Task(
        name="the minutes of the outage as a document",
        message=(
            "Make a document of Dimitri's mail about the outage: times, cause, and the actions as a list with names."
            ' Call it "Outage of 24 February", folder Product.'
        ),
        rounds=[
            use("list_mail", query="Dimitri outage"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            use("write_document", title="Outage of 24 February", text=OUTAGE, folder="Product"),
        ],
        says="d13",
        answer=lambda seen: f"It is {seen.last['doc_id']}, in Product.",
        then=just("drive", written("Outage of 24 February", OUTAGE, "Product")),
    ),
    Task(
        name="a line for the travel in March",
        message="add travel 154 eur for march to the costs 2026 table",
        rounds=[
            use("find_documents", query="Costs 2026"),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            lambda seen: use(
                "write_document",
                doc_id=seen.last["doc_id"],
                title=seen.last["title"],
                text=f"{seen.last['text']}Mar,travel,154\n",
            ),
        ],
        says="154",
        then=just(
            "drive",
            lambda world: (
                world.drive.documents["d1"].text == f"{new_world().drive.documents['d1'].text}Mar,travel,154\n"
            ),
        ),
    ),
    Task(
        name="a question about the contract as a comment",
        message=(
            "Read clause 7 in the contract with Partner AG and leave Grace a comment there: do the 30 days begin at "
            "the end of a month or on the day of the letter?"
        ),
        rounds=[
            use("find_documents", query="Contract Partner AG"),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            lambda seen: use(
                "comment_document",
                doc_id=seen.last["doc_id"],
                text="Grace: do the 30 days begin at the end of a month, or on the day of the letter? Ana",
            ),
        ],
        says="comment",
        then=just("drive", commented("d4", "30 days", "end of a month")),
        acts=True,
    ),
    Task(
        name="contract beside what I agreed to",
        message="Is the notice in contract v3 the same as what I wrote to Grace for version 2?",
        rounds=[
            (
                use("list_mail", folder="sent", query="Grace contract"),
                use("find_documents", query="contract notice"),
            ),
            lambda seen: (
                use("read_mail", mail_id=result(seen, "list_mail")[0]["mail_id"]),
                use("read_document", doc_id=seen.last[0]["doc_id"]),
            ),
        ],
        says="Yes, 30 days",
        answer=lambda seen: (
            "Yes, 30 days in both."
            if "30 days" in result(seen, "read_mail")["text"] and "30 days" in seen.last["text"]
            else "No."
        ),
        then=untouched,
    ),
    Task(
        name="hosting from January to February",
        message="how many percent did hosting go up from jan to feb? its in the costs table",
        rounds=[
            use("find_documents", query="hosting"),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            calc("round((1250-1200)/1200*100, 1)"),
        ],
        says="4.2 %",
        answer=lambda seen: f"By {seen.values[0]} %.",
        then=untouched,
    ),
    Task(
        name="costs table as an attachment for Emma",
        message="Emma wanted the costs by month. Answer her mail and attach the table Costs 2026.",
        rounds=[
            (use("list_mail", query="Emma costs"), use("find_documents", query="Costs 2026")),
            lambda seen: use(
                "reply_mail",
                mail_id=result(seen, "list_mail")[0]["mail_id"],
                text="Hi Emma, here is the table of costs by month. Ana",
                documents=[seen.last[0]["doc_id"]],
            ),
        ],
        says="Emma",
        then=just("mail", sent_to("emma@firm.example", documents=["d1"])),
        acts=True,
    ),
    Task(
        name="delete the old logo",
        message="Delete the old logo from the drive, nobody needs it.",
        rounds=[
            use("find_documents", query="old logo"),
            lambda seen: use("delete_document", doc_id=seen.last[0]["doc_id"]),
        ],
        says="d10",
        answer=lambda seen: f"{seen.last['deleted']}, the old logo, is deleted.",
        then=just("drive", lambda world: changed_documents(world) == {"d10": None}),
    ),
    Task(
        name="who sees what in HR",
        message="Quick check, is any of my HR documents shared with somebody?",
        rounds=[use("find_documents", folder="HR")],
        says="Salaries: nobody",
        answer=lambda seen: "\n".join(
            f"{each['title']}: {', '.join(each['shared']) or 'nobody'}" for each in seen.last
        ),
        then=untouched,
    ),
    Task(
        name="the product channel writes ideas",
        message="Everybody in the product channel should be able to write in the Ideas document.",
        rounds=[
            (use("list_channels"), use("find_documents", query="ideas", folder="Product")),
            lambda seen: tuple(use("find_contact", name=each) for each in members(seen, "product")),
            lambda seen: use(
                "share_document",
                doc_id=result(seen, "find_documents")[0]["doc_id"],
                people=[each[0]["mail"] for each in results(seen, "find_contact")],
                role="writer",
            ),
        ],
        says="Ben, Carla and Dimitri",
        then=just("drive", shared("d6", "writer", "ben@firm.example", "carla@firm.example", "dimitri@firm.example")),
        acts=True,
    ),
    Task(
        name="a link to the onboarding for everybody",
        message="Make the Onboarding doc readable for anyone with the link and post in general that it is there.",
        rounds=[
            use("find_documents", query="onboarding"),
            lambda seen: use("share_document", doc_id=seen.last[0]["doc_id"], people=[ANYONE], role="reader"),
            use("post_message", channel="general", text='"Onboarding" in the drive is open to anyone with the link.'),
        ],
        says="general",
        then=just("drive chat", shared("d12", "reader", ANYONE), posted("general", "Onboarding")),
        acts=True,
    ),
    Task(
        name="the survey in two sentences for Ines",
        message="Send Ines two sentences on what came out of the survey, nothing internal.",
        rounds=[
            (use("find_documents", query="survey results"), use("find_contact", name="Ines")),
            lambda seen: use("read_document", doc_id=result(seen, "find_documents")[0]["doc_id"]),
            lambda seen: use(
                "send_mail",
                to=[entry(seen, "Ines")["mail"]],
                subject="Results of our survey",
                text="Dear Ines, 81 % of 212 customers are satisfied. What they wish for most is a faster search. Ana",
            ),
        ],
        says="Ines",
        then=just("mail", sent_to("ines@customer.example", holds=["81 %", "faster search"])),
        acts=True,
    ),
    Task(
        name="a page on dark mode for Dimitri",
        message="Nice. Share it with Dimitri so that he can fill in the effort.",
        before=[
            (
                "Write half a page on why we should do dark mode, from the ideas and the survey. Folder Product.",
                [
                    use("find_documents", query="dark mode"),
                    lambda seen: tuple(use("read_document", doc_id=each["doc_id"]) for each in seen.last),
                    use("write_document", title="Dark mode", text=DARK, folder="Product"),
                ],
                'It is in Product as "Dark mode".',
            )
        ],
        rounds=[
            use("find_contact", name="Dimitri"),
            lambda seen: use("share_document", doc_id="d13", people=[seen.last[0]["mail"]], role="writer"),
        ],
        says="Dimitri",
        then=just(
            "drive",
            written("Dark mode", DARK, "Product"),
            lambda world: world.drive.documents["d13"].shared == {"dimitri@firm.example": "writer"},
        ),
        acts=True,
    ),
    Task(
        name="remind those with open points",
        message="Look into the minutes of 23 February and remind in the chat those who still have something open.",
        rounds=[
            use("find_documents", query="minutes 23 February"),
            lambda seen: use("read_document", doc_id=seen.last[0]["doc_id"]),
            (use("find_contact", name="Ben"), use("find_contact", name="Carla")),
            lambda seen: use(
                "message_person", person=entry(seen, "Ben")["chat"], text="Still open from 23 February: the logo."
            ),
            lambda seen: use(
                "message_person", person=entry(seen, "Carla")["chat"], text="Still open from 23 February: the survey."
            ),
        ],
        says="Ben and Carla",
        then=just(
            "chat",
            messaged("ben", "carla", holds="open from 23 February"),
            lambda world: "logo" in world.chat.messages["ben"][0].text,
            lambda world: "survey" in world.chat.messages["carla"][0].text,
        ),
        acts=True,
    ),
    Task(
        name="interview notes handed over to Carla",
        message="Carla does the hiring from now on, make her owner of the interview notes",
        rounds=[
            (use("find_contact", name="Carla"), use("find_documents", query="interview notes")),
            lambda seen: use(
                "share_document", doc_id=seen.last[0]["doc_id"], people=[entry(seen, "Carla")["mail"]], role="owner"
            ),
        ],
        says="owner",
        then=just("drive", shared("d5", "owner", "carla@firm.example")),
        acts=True,
    ),
)
