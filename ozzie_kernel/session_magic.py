"""`%session`: show the current session, list others, and switch between them."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from ozzie_kernel.client import WHOLE_SESSION_TIMEOUT_S, Refused
from ozzie_kernel.connect import SessionChoice
from ozzie_kernel.forks import fork, list_turns
from ozzie_kernel.magic import Host, Magic, MagicUsage, did_you_mean, moment
from ozzie_server_ext.domain.disk import write_new
from ozzie_server_ext.domain.errors import Gone, InputError, NotFound
from ozzie_server_ext.domain.exports import form_of
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.domain.terms import AUTHORS
from ozzie_server_ext.render.page import Block, Command, Facts, Inline, Strong, Table, paragraph
from ozzie_server_ext.render.text import money

MOST_LISTED = 50
MOST_FOUND = 10
_ID_END = 8
"""Characters of an id in a list: the gateway also finds a session by the end of its id."""

_Act = Callable[[str, Host], Awaitable[Sequence[Block]]]


async def _session(argument: str, host: Host) -> Sequence[Block]:
    word, _, rest = argument.partition(" ")
    if not word:
        return await _show(host)
    act = _ACTS.get(word)
    if act is None:
        raise InputError(
            f"There is no %session {word}. There are: {', '.join(_ACTS)}.",
            hint=did_you_mean(word, _ACTS, "%session "),
            code="magic.usage",
        )
    return await act(rest.strip(), host)


async def _show(host: Host) -> list[Block]:
    session = await host.ask("session.open")
    cost = money(_number(session, "cost"))
    if not session["cost_known"]:
        cost = f"{cost} + unknown" if session["cost"] else "unknown"
    facts = [
        ("Id", str(session["session_id"])),
        ("State", str(session["status"])),
        *([("Project", str(session["project"]))] if session["project"] else []),
        ("Model", str(session["model"]) or "the default"),
        ("Messages", f"{_number(session, 'message_count'):,}"),
        ("Tokens", f"{_number(session, 'input_tokens'):,} in, {_number(session, 'output_tokens'):,} out"),
        ("Cost", cost),
    ]
    return [
        paragraph("This is the session ", _title(session), "."),
        Facts(facts),
        paragraph(Command("%session list"), " shows the others, ", Command("%help session"), " what can be done."),
    ]


async def _list(rest: str, host: Host) -> list[Block]:
    if rest not in ("", "archived"):
        raise InputError(
            f"%session list takes no argument but archived; not {rest[:40]}.",
            hint="Run `%session list` alone.",
            code="magic.usage",
        )
    archived = rest == "archived"
    query = {"limit": MOST_LISTED + 1, "archived": archived}
    found = objects((await host.ask("session.list", query, as_user=True))["items"])
    if not found:
        return [paragraph("There is no archived session." if archived else "There is no session yet.")]
    page: list[Block] = [session_table(found[:MOST_LISTED], (await host.link()).session_id)]
    if len(found) > MOST_LISTED:
        page.append(
            paragraph(f"These are the {MOST_LISTED} that were used last; the others are found by their titles.")
        )
    page.append(
        paragraph("Go on in one with ", Command("%session resume TITLE"), ", or with its id in place of the title.")
    )
    return page


async def _search(words: str, host: Host) -> list[Block]:
    if not words:
        raise InputError(
            "%session find needs the words to search for.",
            hint="For example: %session find revenue May",
            code="magic.usage",
        )
    found = await host.ask("search", {"text": words, "limit": MOST_FOUND}, as_user=True)
    items = objects(found["items"])
    if not found["words"]:
        return [paragraph('Nothing was searched for: words of every text, such as "the" and "which", are left out.')]
    if not items:
        return [paragraph("Nothing was found. All words must be in one text; ", Command("beg*"), " is a beginning.")]
    own = (await host.link()).session_id
    page: list[Block] = [
        Table(
            heads=("Id", "Session", "When", "Who", "Text"),
            rows=[
                (
                    str(item["session_id"] or "")[-_ID_END:],
                    "this one" if item["session_id"] == own else str(item["title"]) or "(no title)",
                    moment(item["ts"]),
                    AUTHORS[str(item["kind"])],
                    _snippet(item),
                )
                for item in items
            ],
            flexible=frozenset({1, 4}),
        )
    ]
    count = _number(found, "count")
    if count > len(items):
        all_found = f"the newest {count:,}" if found["capped"] else f"{count:,}"
        page.append(paragraph(f"These are the {len(items)} best of {all_found}; a further word narrows the search."))
    if any(item["session_id"] != own for item in items):
        page.append(paragraph("Go on in another session with ", Command("%session resume ID"), "."))
    return page


def _snippet(item: JsonObject) -> str:
    labels = item["labels"]
    outside = f" (from outside: {', '.join(map(str, labels))})" if isinstance(labels, list) and labels else ""
    return f"{item['snippet']}{outside}"


def session_table(rows: Sequence[JsonObject], own: str) -> Table:
    """Return the table of sessions."""
    return Table(
        heads=("Id", "Title", "Messages", "Last used", "Model", ""),
        rows=[
            (
                str(row["session_id"])[-_ID_END:],
                str(row["title"]) or "(no title yet)",
                f"{_number(row, 'message_count'):,}",
                moment(row["updated_at"]),
                str(row["chosen_model"]) or "default",
                "this one" if row["session_id"] == own else "" if row["status"] == "active" else str(row["status"]),
            )
            for row in rows
        ],
        right=frozenset({2}),
        flexible=frozenset({1, 4}),
    )


async def _new(title: str, host: Host) -> list[Block]:
    before = await _previous(host)
    await host.switch(SessionChoice(new=True))
    session = await host.ask("session.rename", {"title": title}) if title else None
    begun: list[Inline] = ["A new session begins", *((": ", _title(session)) if session else ()), "."]
    if before is None:
        return [paragraph(*begun)]
    model = await _keep_model(before, host)
    answers = f" {model} answers in it, too." if model else ""
    return [
        paragraph(*begun, " It knows nothing of the previous one, ", _title(before), f", which is kept.{answers}"),
        paragraph("To go back: ", Command(f"%session resume {before['session_id']}")),
    ]


async def _previous(host: Host) -> JsonObject | None:
    """Return this session; None if it was erased."""
    try:
        return await host.ask("session.open")
    except Refused as error:
        if error.code != Gone.code:
            raise
        return None


async def _keep_model(before: JsonObject, host: Host) -> str:
    """Choose the previous session's model in the new one, so that a model is connected once per notebook. Return "" if
    none was chosen, or it is gone and the default answers."""
    choice = {"model": before["model"], "base_url": before["base_url"]}
    if not before["model"]:
        return ""
    try:
        return str((await host.ask("model.choose", choice))["alias"])
    except Refused:
        return ""


async def _resume(named: str, host: Host) -> list[Block]:
    found = await _find(named, "resume", host)
    await host.switch(SessionChoice(session_id=str(found["session_id"])))
    count = _number(found, "message_count")
    model = str((await host.ask("session.open"))["model"]) or "the default model"
    messages = "1 message" if count == 1 else f"{count:,} messages"
    return [paragraph("The session ", _title(found), f" goes on here. It has {messages}; {model} answers in it.")]


async def _rename(title: str, host: Host) -> list[Block]:
    if not title:
        raise InputError("A session needs a title.", hint="Write it after the command.", code="magic.usage")
    session = await host.ask("session.rename", {"title": title})
    return [paragraph("This session is called ", _title(session), " now.")]


async def _archive(named: str, host: Host) -> list[Block]:
    session = await _change("archive", named, host)
    return [paragraph("The session ", _title(session), " is archived. A message in it brings it back.")]


async def _close(named: str, host: Host) -> list[Block]:
    session = await _change("close", named, host)
    return [
        paragraph("The session ", _title(session), " is closed: it takes no more messages."),
        paragraph("To open it again: ", Command(f"%session resume {session['session_id']}")),
    ]


async def _change(what: str, named: str, host: Host) -> JsonObject:
    """Archive or close the named session, or this one."""
    if not named:
        return await host.ask(f"session.{what}")
    found = await _find(named, what, host)
    return await host.ask(f"session.{what}", {"session_id": found["session_id"]}, as_user=True)


async def _find(named: str, what: str, host: Host) -> JsonObject:
    if not named:
        raise InputError(
            f"%session {what} needs the id or the title of a session.",
            hint="`%session list` shows them.",
            code="magic.usage",
        )
    try:
        return await host.ask("session.find", {"text": named}, as_user=True)
    except Refused as error:
        # The gateway's hint names a command for a terminal.
        hint = "`%session list` shows them." if error.code == NotFound.code else error.hint
        raise Refused(str(error), hint=hint, code=error.code) from None


def _title(session: JsonObject) -> Strong:
    return Strong(str(session["title"]) or "without a title")


def _number(row: JsonObject, name: str) -> int:
    return int(str(row[name]))


async def _export(name: str, host: Host) -> list[Block]:
    form = form_of(name)
    exported = await host.ask("session.export", {"form": form}, timeout_s=WHOLE_SESSION_TIMEOUT_S)
    path = Path.cwd() / name
    write_new(path, str(exported["text"]).encode())
    page: list[Block] = [paragraph("This session is written into ", Strong(str(path)), ".")]
    if form in ("ipynb", "jsonl"):
        page.append(paragraph("In a terminal, check it with ", Command(f"ozzie sessions verify {name}")))
    return page


_ACTS: dict[str, _Act] = {
    "list": _list,
    "find": _search,
    "export": _export,
    "turns": list_turns,
    "fork": fork,
    "new": _new,
    "resume": _resume,
    "title": _rename,
    "archive": _archive,
    "close": _close,
}

MAGIC = Magic(
    name="session",
    usage=MagicUsage("%session [WHAT]", "Shows this session, lists others, begins or resumes one"),
    run=_session,
    forms=(
        MagicUsage("%session", "Shows which session this is, and what it has used"),
        MagicUsage("%session list [archived]", "Lists the sessions, those used last first"),
        MagicUsage("%session find WORDS", "Finds what was said in any session"),
        MagicUsage("%session export FILE", "Writes this session into a notebook, page or document"),
        MagicUsage("%session turns", "Lists the turns of this session with their numbers"),
        MagicUsage("%session fork [TURN]", "Goes on from that turn in a notebook of its own"),
        MagicUsage("%session new [TITLE]", "Begins a new session in this notebook"),
        MagicUsage("%session resume TITLE", "Goes on in another session, by its title or its id"),
        MagicUsage("%session title TEXT", "Gives this session a title"),
        MagicUsage("%session archive [TITLE]", "Puts a session away; a message in it brings it back"),
        MagicUsage("%session close [TITLE]", "Takes no more messages until it is resumed"),
    ),
    examples=("%session new Prices in May", "%session resume Prices in May", "%session list"),
)
