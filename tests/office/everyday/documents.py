"""Everyday tasks about the drive: to read, to write, to comment, to share and to tidy documents."""

from typing import Any

from tests.office.drive import ANYONE, Document, Role
from tests.office.everyday.mail import Check, every, first, person, sent_nothing, sent_to
from tests.office.task import Task, use
from tests.office.world import World, new_world
from tests.workloads.workload import Seen, calc

TEAM = ("Ben", "Carla", "Dimitri")


def _changed(world: World) -> dict[str, Document]:
    before = new_world().drive.documents
    return {key: each for key, each in world.drive.documents.items() if each != before.get(key)}


def unchanged(world: World) -> bool:
    return world.drive.documents == new_world().drive.documents


def shared(doc_id: str, role: Role, *people: str) -> Check:
    """Just this document got further readers or writers, just these."""

    def then(world: World) -> bool:
        before = new_world().drive.documents[doc_id].shared
        changed = _changed(world)
        return {*changed} == {doc_id} and changed[doc_id].shared == before | dict.fromkeys(people, role)

    return then


def wrote(title: str, *words: str, doc_id: str = "") -> Check:
    """Just one document was written, a further one if none is named, with that title and all of these words."""

    def then(world: World) -> bool:
        changed = _changed(world)
        if len(changed) != 1:
            return False
        ((key, document),) = changed.items()
        is_it = key == doc_id if doc_id else int(key[1:]) > 12
        return is_it and document.title == title and all(word in document.text for word in words)

    return then


def _read_first(seen: Seen) -> Any:
    return use("read_document", doc_id=first(seen, "find_documents")["doc_id"])


def _sum(text: str, month: str) -> str:
    """The costs of a month, as an expression."""
    return "+".join(row.rpartition(",")[2] for row in text.splitlines() if row.startswith(month))


def _table(seen: Seen) -> Any:
    rows = "".join(f"{month},{value}\n" for month, value in zip(("Jan", "Feb", "Mar"), seen.values, strict=True))
    return use("write_document", title="Q1 for Emma", text=f"month,eur\n{rows}", folder="Finance")


def _with_wishes(seen: Seen) -> Any:
    """The ideas with the wishes of the survey that aren't among them."""
    survey, ideas = seen.calls[-2].data["text"], seen.calls[-1].data["text"]
    wishes = [part.partition(": ")[2] for part in survey.split("; ") if part.startswith("wish")]
    text = ideas + "".join(f"- {wish}\n" for wish in wishes if wish not in ideas)
    return use("write_document", doc_id="d6", title="Ideas", text=text)


def _for_nadia(document: dict[str, Any]) -> Any:
    return use("share_document", doc_id=document["doc_id"], people=["nadia.berg@firm.example"])


DOCUMENTS = (
    Task(
        name="costs for Emma's eyes",
        message="Give Emma access to the costs sheet, read is enough.",
        rounds=[
            (use("find_documents", query="costs"), use("find_contact", name="Emma")),
            lambda seen: use(
                "share_document",
                doc_id=first(seen, "find_documents")["doc_id"],
                people=[person(seen, "Emma")["mail"]],
                role="reader",
            ),
        ],
        says="emma@firm.example",
        answer=lambda seen: f"Can read it now: {', '.join(seen.last['shared'])}",
        then=shared("d1", "reader", "emma@firm.example"),
        acts=True,
    ),
    Task(
        name="what users want most",
        message="whats the no 1 wish in carlas survey, and how many answered?",
        rounds=[use("find_documents", query="survey results"), _read_first],
        says="faster search",
        answer=lambda seen: seen.last["text"].partition("; wish no. 2")[0],
        then=unchanged,
    ),
    Task(
        name="one more idea",
        message='Add "undo for deletions" to my ideas list',
        rounds=[
            use("find_documents", query="ideas dark mode"),
            _read_first,
            lambda seen: use(
                "write_document",
                doc_id=seen.last["doc_id"],
                title=seen.last["title"],
                text=f"{seen.last['text']}- undo for deletions\n",
            ),
        ],
        says="Ideas",
        answer=lambda seen: f"It stands in {seen.calls[-1].args['title']} now.",
        then=wrote("Ideas", "- dark mode\n", "- import from spreadsheets\n", "- undo for deletions\n", doc_id="d6"),
    ),
    Task(
        name="costs by month",
        message=(
            "Emma wants costs by month for the first quarter. Add up what's in Costs 2026 and put a table month/EUR "
            'into a new document "Q1 for Emma" in Finance. I\'ll check before she gets it.'
        ),
        rounds=[
            use("find_documents", query="costs 2026"),
            _read_first,
            lambda seen: tuple(calc(_sum(seen.last["text"], month)) for month in ("Jan", "Feb", "Mar")),
            _table,
        ],
        says="1510, 1584, 1250",
        answer=lambda seen: f"By month: {', '.join(seen.values)}.",
        then=wrote("Q1 for Emma", "Jan,1510\n", "Feb,1584\n", "Mar,1250\n"),
    ),
    Task(
        name="does Carla's offer add up",
        message=(
            "Carla asked me to check the prices in her offer for Customer SA. Add them up and if the total is wrong "
            "leave her a comment in the document."
        ),
        rounds=[
            use("find_documents", query="offer customer sa"),
            _read_first,
            calc("9000 + 2400 + 1200"),
            lambda seen: use(
                "comment_document",
                doc_id=seen.calls[1].data["doc_id"],
                text=f"Carla, I get {seen.values[0]} as the total, not 12'400. Could you check? Ana",
            ),
        ],
        says="12600",
        answer=lambda seen: f"It doesn't: the items make {seen.values[0]}. I left Carla a comment.",
        then=lambda world: (
            {*_changed(world)} == {"d2"}
            and len(world.drive.documents["d2"].comments) == 1
            and "12600" in world.drive.documents["d2"].comments[0]
        ),
        acts=True,
    ),
    Task(
        name="no release plan for Ben any more",
        message="Ben doesn't need the release plan any more, remove him.",
        rounds=[
            (use("find_documents", query="release plan"), use("find_contact", name="Ben")),
            lambda seen: use(
                "unshare_document",
                doc_id=first(seen, "find_documents")["doc_id"],
                people=[person(seen, "Ben")["mail"]],
            ),
        ],
        says="dimitri@firm.example",
        answer=lambda seen: f"Still on it: {', '.join(seen.last['shared'])}",
        then=lambda world: (
            {*_changed(world)} == {"d3"} and world.drive.documents["d3"].shared == {"dimitri@firm.example": "writer"}
        ),
    ),
    Task(
        name="the old logo can go",
        message="delete the old logo from the drive, we wont need it",
        rounds=[
            use("find_documents", query="old logo"),
            lambda seen: use("delete_document", doc_id=seen.last[0]["doc_id"]),
        ],
        says="Deleted d10",
        answer=lambda seen: f"Deleted {seen.last['deleted']}.",
        then=lambda world: {*world.drive.documents} == {*new_world().drive.documents} - {"d10"},
    ),
    Task(
        name="minutes for the team",
        message=(
            "Write up minutes of today (title Minutes of 2 March, folder Product): release stays on the 13th; Carla "
            "sends the offer today; logo is due on the 12th. Ben, Carla and Dimitri should be able to edit."
        ),
        rounds=[
            tuple(use("find_contact", name=name) for name in TEAM),
            use(
                "write_document",
                title="Minutes of 2 March",
                text="The release stays on 13 March. Carla sends the offer today. The logo is due on 12 March.",
                folder="Product",
            ),
            lambda seen: use(
                "share_document",
                doc_id=seen.last["doc_id"],
                people=[person(seen, name)["mail"] for name in TEAM],
                role="writer",
            ),
        ],
        says="3 people",
        answer=lambda seen: f"{len(seen.last['shared'])} people can edit it.",
        then=every(
            wrote("Minutes of 2 March", "13 March", "12 March", "Carla sends the offer"),
            lambda world: (
                world.drive.documents["d13"].shared
                == dict.fromkeys(("ben@firm.example", "carla@firm.example", "dimitri@firm.example"), "writer")
            ),
        ),
        acts=True,
    ),
    Task(
        name="packing list to the fair",
        message="move my packing list into a folder Milan",
        rounds=[
            use("find_documents", query="packing list"),
            lambda seen: use("move_document", doc_id=seen.last[0]["doc_id"], folder="Milan"),
        ],
        says="in Milan",
        answer=lambda seen: f"It is in {seen.last['folder']} now.",
        then=lambda world: {*_changed(world)} == {"d11"} and world.drive.documents["d11"].folder == "Milan",
    ),
    Task(
        name="candidate for design",
        message="Which of the two candidates is the better one for Ben's team (design)? See my interview notes",
        rounds=[use("find_documents", query="interview notes"), _read_first],
        says="Candidate B",
        answer=lambda seen: next(part for part in seen.last["text"].split(". ") if "design" in part),
        then=unchanged,
    ),
    Task(
        name="who outside sees what",
        message="Which documents are shared with people outside of the firm?",
        rounds=[use("find_documents")],
        says="Contract Partner AG v3",
        answer=lambda seen: ", ".join(
            each["title"] for each in seen.last if any(not who.endswith("@firm.example") for who in each["shared"])
        ),
        then=unchanged,
    ),
    Task(
        name="clause 7 into a file",
        message="Copy clause 7 of the Partner contract into desk/clause-7.md, I need it for the talk with legal",
        rounds=[
            use("find_documents", query="contract partner"),
            _read_first,
            lambda seen: use(
                "write_file", path="desk/clause-7.md", text=f"# {seen.last['title']}\n\n{seen.last['text']}\n"
            ),
        ],
        says="desk/clause-7.md",
        then=sent_nothing,
        leaves={
            "desk/clause-7.md": "# Contract Partner AG v3\n\n7. Either side may end this contract with a notice of 30 "
            "days.\n"
        },
    ),
    Task(
        name="Nadia begins on Monday",
        message=(
            "Nadia Berg starts next Monday. Share the onboarding doc and my ideas list with her, "
            "nadia.berg@firm.example, so she can read up."
        ),
        rounds=[
            (use("find_documents", query="onboarding"), use("find_documents", query="ideas dark mode")),
            lambda seen: _for_nadia(seen.calls[0].data[0]),
            lambda seen: _for_nadia(seen.calls[1].data[0]),
        ],
        says="Nadia can read both",
        then=lambda world: (
            {key: each.shared for key, each in _changed(world).items()}
            == {key: {"nadia.berg@firm.example": "reader"} for key in ("d6", "d12")}
        ),
        acts=True,
    ),
    Task(
        name="wishes into the ideas",
        message="take the top wishes from the survey over into my Ideas, if they aren't in there already",
        rounds=[
            (use("find_documents", query="survey wish"), use("find_documents", query="offline mode")),
            lambda seen: tuple(use("read_document", doc_id=call.data[0]["doc_id"]) for call in seen.calls),
            _with_wishes,
        ],
        says="faster search",
        answer=lambda seen: f"Ideas now ends with: {seen.calls[-1].args['text'].splitlines()[-1]}",
        then=every(
            wrote("Ideas", "- faster search\n", "- offline mode\n", doc_id="d6"),
            lambda world: world.drive.documents["d6"].text.count("dark mode") == 1,
        ),
    ),
    Task(
        name="costs sheet as an attachment",
        message="mail Emma the costs sheet as attachment, say that March is not complete yet",
        rounds=[
            (use("find_documents", query="costs 2026"), use("find_contact", name="Emma")),
            _read_first,
            lambda seen: use(
                "send_mail",
                to=[person(seen, "Emma")["mail"]],
                subject=seen.last["title"],
                text="Hi Emma, here are our costs of 2026. March is not complete yet. Ana",
                documents=[seen.last["doc_id"]],
            ),
        ],
        says="with Costs 2026",
        answer=lambda seen: f"Emma has a mail with {seen.calls[-1].args['subject']}.",
        then=sent_to("emma@firm.example", holds="not complete", documents=("d1",)),
        acts=True,
    ),
    Task(
        name="a link for the fair",
        message=(
            "I want a QR code at the fair that leads to the release plan. Make it readable for anyone who has the link."
        ),
        rounds=[
            use("find_documents", query="release plan"),
            _read_first,
            lambda seen: use("share_document", doc_id=seen.last["doc_id"], people=[ANYONE]),
        ],
        says="Whoever has the link can read Release plan March",
        answer=lambda seen: f"Whoever has the link can read {seen.calls[1].data['title']}.",
        then=shared("d3", "reader", ANYONE),
        acts=True,
    ),
)
