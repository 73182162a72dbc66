"""Completion of the text at a cursor, and inspection of the word there."""

import asyncio
import heapq
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.domain.messages import (
    MAX_PICTURE_BYTES,
    Mention,
    media_type_of,
    mention_at,
    picture_name,
    typed_mention,
    write_mention,
)
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.models import LABELS, fact_words, tag_words
from ozzie_server_ext.render.questions import EFFECTS_AT_LENGTH, REPEATS
from ozzie_server_ext.render.text import cut_end, visible_label
from ozzie_server_ext.skills.library import Library
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.budgets import Spent
from ozzie_server_ext.tasks.models import ModelDetails, ModelGlance, ModelService
from ozzie_server_ext.tasks.server_completion import Offered, ServerCompletion
from ozzie_server_ext.tasks.sessions import MOST_SEARCHED, Sessions
from ozzie_server_ext.tools.base import Tool, ToolFailed
from ozzie_server_ext.tools.registry import ToolRegistry
from ozzie_server_ext.tools.safe_open import open_below, parts_below

MOST_LOOKED_AT = 10_000
"""The number of entries of a folder that are read; more would take too long for a completion."""
MOST_FOUND = 200
HEAD_BYTES = 4096
HEAD_LINES = 10

T = TypeVar("T")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """`path` is relative to the project and, for a folder, ends with a slash."""

    path: str
    kind: Literal["folder", "file"]


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder. `head` has a text file's first lines; `entries` is a folder's number of entries; `picture` is
    the media type of a picture that can be shown to a model."""

    path: str
    kind: Literal["folder", "file"]
    size: int = 0
    modified_s: float = 0.0
    is_text: bool = False
    head: tuple[str, ...] = ()
    is_whole: bool = True
    entries: int = 0
    picture: str = ""


class ProjectFiles:
    """Reads below one folder, in one thread at a time, so that a hanging disk blocks one thread only."""

    def __init__(self, project: Path) -> None:
        self._project = project
        self._reading: asyncio.Future[Any] | None = None

    async def completions(self, typed: str) -> list[Entry]:
        """Return the entries of the typed folder whose names begin with the last component, sorted by name. Hidden ones
        only if that begins with a dot; symbolic links, which no tool follows, never.

        Raises Unavailable while an earlier read hangs.
        """
        return await self._in_thread(lambda: _completions(self._project, typed))

    async def facts(self, path: str) -> FileFacts:
        """Return the facts about `path`. Raises ToolFailed if it does not exist or is hidden, and Unavailable."""
        return await self._in_thread(lambda: _facts(self._project, path))

    async def _in_thread(self, read: Callable[[], T]) -> T:
        if self._reading is not None and not self._reading.done():
            raise Unavailable("The project's disk has not answered yet.", hint="Try again in a moment.")
        reading = asyncio.ensure_future(asyncio.to_thread(read))
        # The caller may have given up before the thread ends, so its exception is retrieved here.
        reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._reading = reading
        return await asyncio.shield(reading)


def _completions(project: Path, typed: str) -> list[Entry]:
    folder, slash, start = typed.rpartition("/")
    # "@/" would be read as the project's folder, but no tool accepts such a path.
    if slash and not folder:
        return []
    try:
        descriptor = open_below(project, folder or ".", folder=True, hidden=True)
    except (ToolFailed, OSError):
        return []
    try:
        with os.scandir(descriptor) as entries:
            names = (_entry(entry, folder + slash) for entry in itertools.islice(entries, MOST_LOOKED_AT))
            fitting = (found for found in names if found is not None and _fits(found, folder + slash, start))
            return heapq.nsmallest(MOST_FOUND, fitting, key=lambda found: (found.path.casefold(), found.path))
    except OSError:
        return []
    finally:
        os.close(descriptor)


def _entry(entry: "os.DirEntry[str]", before: str) -> Entry | None:
    try:
        if entry.is_dir(follow_symlinks=False):
            return Entry(path=f"{before}{entry.name}/", kind="folder")
        return Entry(path=f"{before}{entry.name}", kind="file") if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None  # removed in this moment


def _fits(entry: Entry, before: str, start: str) -> bool:
    name = entry.path[len(before) :]
    return name.casefold().startswith(start.casefold()) and (start.startswith(".") or not name.startswith("."))


def _facts(project: Path, path: str) -> FileFacts:
    parts_below(path)  # raises for hidden paths
    try:
        return _file(project, path)
    except ToolFailed as error:
        try:
            return _folder(project, path)
        except ToolFailed:
            raise error from None
        except OSError as failed:
            raise _unreadable(path, failed) from None
    except OSError as failed:  # the project is gone, or its disk fails
        raise _unreadable(path, failed) from None


def _unreadable(path: str, error: OSError) -> ToolFailed:
    return ToolFailed(f"{path} can't be read: {error.strerror}.")


def _file(project: Path, path: str) -> FileFacts:
    with os.fdopen(open_below(project, path, folder=False), "rb") as file:
        info = os.fstat(file.fileno())
        raw = file.read(HEAD_BYTES)
    text = raw.decode("utf-8", "replace")
    is_text = b"\0" not in raw and text.count("\ufffd") <= 1  # one may be a truncated character
    lines = text.replace("\r\n", "\n").split("\n") if is_text and raw else []
    is_whole = len(raw) == info.st_size and len(lines) <= HEAD_LINES + (lines[-1:] == [""])
    return FileFacts(
        path=path,
        kind="file",
        size=info.st_size,
        modified_s=info.st_mtime,
        is_text=is_text,
        head=tuple(lines[:HEAD_LINES]),
        is_whole=is_whole,
        picture=media_type_of(raw) or "",
    )


def _folder(project: Path, path: str) -> FileFacts:
    descriptor = open_below(project, path, folder=True)
    try:
        info = os.fstat(descriptor)
        with os.scandir(descriptor) as entries:
            shown = (entry for entry in entries if not entry.name.startswith("."))
            count = sum(1 for _ in itertools.islice(shown, MOST_LOOKED_AT))
    finally:
        os.close(descriptor)
    return FileFacts(
        path=path,
        kind="folder",
        modified_s=info.st_mtime,
        entries=count,
        is_whole=count < MOST_LOOKED_AT,
    )


WAIT_S = 1.5
"""How long a completion may take; a kernel waits 2 s in all."""
MOST_MATCHES = 200
DETAIL_CHARS = 60
"""The length of the details of a model, which have one line beside its name."""

_MODEL_AT_END = re.compile(r"[ \t]*%model[ \t]+(\S*)\Z")
_NAMING_SESSION = r"[ \t]*(?:%session[ \t]+(?:resume|archive|close)|%replay(?:[ \t]+--check)?)[ \t]+"
_SESSION_AT_END = re.compile(rf"{_NAMING_SESSION}(.*)\Z")


_RUN_AT_END = re.compile(r"[ \t]*%run[ \t]+(\S*)\Z")
_ARGUMENT_AT_END = re.compile(
    r"[ \t]*%run[ \t]+(?P<called>[^\s:]+:\S+)(?P<before>.*)[ \t](?P<word>[^\s=]*(?:=(?:\"[^\"]*|[^\s\"]*))?)\Z"
)


class Match(msgspec.Struct, frozen=True, kw_only=True):
    """`text` replaces the typed text. `kind`: file, folder, model, session, skill, or of MCP servers server, resource,
    template, prompt, argument or value; `detail` is for people."""

    text: str
    kind: str
    detail: str = ""


class Completions(msgspec.Struct, frozen=True, kw_only=True):
    """The matches for the text between `start` and `end`, in characters as Jupyter counts them."""

    start: int
    end: int
    matches: tuple[Match, ...] = ()


class Completion:
    """Completes text. It never raises: on an error or a timeout there are no matches."""

    def __init__(
        self,
        sessions: Sessions,
        models: ModelService,
        files: ProjectFiles,
        skills: Library,
        servers: ServerCompletion,
    ) -> None:
        self._sessions = sessions
        self._models = models
        self._files = files
        self._skills = skills
        self._servers = servers

    async def complete(self, text: str, cursor: int, *, own: SessionId | None, sees_all: bool) -> Completions:
        """Return the completions at the cursor. `own` is the caller's session; others are offered only if it
        `sees_all`."""
        cursor = min(max(cursor, 0), len(text))
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._find(text, cursor, own, sees_all)
        except (TimeoutError, OzzieError):
            return Completions(start=cursor, end=cursor)

    async def _find(self, text: str, cursor: int, own: SessionId | None, sees_all: bool) -> Completions:
        line = text[text.rfind("\n", 0, cursor) + 1 : cursor]
        if found := _MODEL_AT_END.fullmatch(line):
            matches = fitting_models(await self._models.listing(), found[1])
        elif found := _SESSION_AT_END.fullmatch(line):
            matches = fitting_sessions(await self._rows(), found[1], own) if sees_all else []
        elif found := _RUN_AT_END.fullmatch(line):
            matches = await self._runs(found[1])
        elif found := _ARGUMENT_AT_END.fullmatch(line):
            matches = _matches(await self._servers.arguments(found["called"], found["before"], found["word"]))
            return Completions(start=cursor - len(found["word"]), end=cursor, matches=tuple(matches[:MOST_MATCHES]))
        elif mention := typed_mention(text, cursor):
            return Completions(start=mention.start, end=mention.end, matches=await self._paths(mention))
        else:
            return Completions(start=cursor, end=cursor)
        return Completions(start=cursor - len(found[1]), end=cursor, matches=tuple(matches[:MOST_MATCHES]))

    async def _paths(self, mention: Mention) -> tuple[Match, ...]:
        entries = await self._files.completions(mention.path)
        written = ((entry, write_mention(entry.path)) for entry in entries)
        files = [Match(text=text, kind=entry.kind) for entry, text in written if text is not None and _is_plain(text)]
        return (*_matches(await self._servers.mentions(mention.path))[:MOST_MATCHES], *files)

    async def _runs(self, typed: str) -> list[Match]:
        """Return the skills and the prompts of servers that `%run` may name."""
        shelf = await self._skills.look()
        names = (file.skill.name for file in shelf.skills)
        skills = [Match(text=name, kind="skill") for name in names if name.startswith(typed) and _is_plain(name)]
        return [*skills, *_matches(await self._servers.prompts(typed))]

    async def _rows(self) -> list[Row]:
        open_ones = await self._sessions.list(limit=MOST_SEARCHED)
        return open_ones + await self._sessions.list(limit=MOST_SEARCHED, status="archived")


def _matches(offered: Iterable[Offered]) -> list[Match]:
    return [Match(text=each.text, kind=each.kind, detail=each.detail) for each in offered]


def fitting_models(listing: JsonObject, typed: str) -> list[Match]:
    """Return the models of `ModelService.listing` whose names begin with the typed text: configured ones, then others
    that were found here."""
    named = [
        Match(text=str(model["name"]), kind="model", detail=_detail(model)) for model in objects(listing.get("models"))
    ]
    offered = [
        Match(text=str(offer["choose"]), kind="model", detail=str(offer["found"]))
        for offer in objects(listing.get("offers"))
    ]
    wanted = typed.casefold()
    unique: dict[str, Match] = {}
    for match in (*named, *offered):
        unique.setdefault(match.text, match)
    return [
        match
        for match in unique.values()
        if match.text.casefold().startswith(wanted) and _is_plain(match.text) and " " not in match.text
    ]


def _detail(model: JsonObject) -> str:
    """Return "openai/gpt-4o-mini, fast, jurisdiction us", or the name that an alias stands for."""
    tags = model.get("tags")
    stands_for = f"= {model['model']}" if model["driver"] == "alias" else f"{model['driver']}/{model['model']}"
    detail = ", ".join(filter(None, [stands_for, tag_words(tags) if isinstance(tags, dict) else ""]))
    return cut_end(visible_label(detail), DETAIL_CHARS)


def fitting_sessions(rows: Iterable[Row], typed: str, own: SessionId | None) -> list[Match]:
    """Return the matching sessions by a text that `Sessions.find` resolves: a unique title, otherwise the id."""
    rows = list(rows)
    titles = Counter(str(row["title"]).casefold() for row in rows)
    wanted = typed.strip().casefold()
    found: list[Match] = []
    for row in rows:
        title, session_id = str(row["title"]), str(row["session_id"])
        if session_id == own or not (wanted in title.casefold() or wanted in session_id.casefold()):
            continue
        by_title = wanted in title.casefold() and titles[title.casefold()] == 1 and _resolves(title)
        found.append(
            Match(text=title if by_title else session_id, kind="session", detail=session_id if by_title else title)
        )
    return found


def _resolves(title: str) -> bool:
    """Whether `Sessions.find` finds the session by its title, which must not look like an id."""
    return _is_plain(title) and not title.startswith("sess_")


def _is_plain(text: str) -> bool:
    """Whether `text` can be shown without escapes. Others, such as control characters, are not offered: escaped, the
    text would name something else."""
    return bool(text) and visible_label(text) == text


_WORD = re.compile(r"[A-Za-z_][\w.]*")
_MODEL = re.compile(r"[ \t]*%model[ \t]+(\S+)")
_SESSION = re.compile(rf"{_NAMING_SESSION}(\S.*)")
_PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WebP"}
_WHO = {"configuration": "the configuration", "Ollama": "Ollama", "litellm": "litellm"}


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a thing: kind, name, a sentence, facts with labels, and a sample of its content. Its texts are
    unescaped."""

    kind: str
    name: str
    about: str = ""
    facts: list[tuple[str, str]] = msgspec.field(default_factory=list[tuple[str, str]])
    sample: str = ""


class Inspection(msgspec.Struct, frozen=True):
    """Describes the thing at a cursor."""

    sessions: Sessions
    models: ModelService
    details: ModelDetails
    tools: ToolRegistry
    files: ProjectFiles

    async def inspect(self, text: str, cursor: int, *, sees_all: bool) -> Card | None:
        """Return the card of the thing at the cursor; None if there is none, or on an error or a timeout. Sessions only
        if the caller `sees_all`."""
        cursor = min(max(cursor, 0), len(text))
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._find(text, cursor, sees_all)
        except (TimeoutError, OzzieError):
            return None

    async def _find(self, text: str, cursor: int, sees_all: bool) -> Card | None:
        start = text.rfind("\n", 0, cursor) + 1
        line = text[start:].split("\n", 1)[0]
        if found := _MODEL.match(line):
            return model_card(await self.details.glance(found[1]), await self.models.listing())
        if found := _SESSION.fullmatch(line):
            return await self._session(found[1].rstrip()) if sees_all else None
        if mention := mention_at(text, cursor):
            return await self._file(mention)
        tool = self.tools.find(_word(line, cursor - start))
        return tool_card(tool) if tool is not None else None

    async def _session(self, named: str) -> Card:
        return session_card(await self.sessions.row(await self.sessions.find(named)))

    async def _file(self, mention: Mention) -> Card:
        try:
            return file_card(await self.files.facts(mention.path))
        except InputError as error:
            return Card(kind="file", name=mention.path, about=str(error))


def tool_card(tool: Tool) -> Card:
    """Return a tool's description and metadata."""
    meta, spec = tool.meta, tool.spec
    facts = [
        ("Side effect", EFFECTS_AT_LENGTH[meta.side_effect]),
        ("Risk", meta.risk_level.value),
        ("Repeating", REPEATS[meta.idempotency]),
        ("Time limit", f"{meta.timeout_s:g} s"),
        ("Id", ", ".join((meta.tool_id, *meta.further_names))),
        ("Version", meta.version),
    ]
    parameters = [(f"{name}", _parameter(name, spec.parameters)) for name in _properties(spec.parameters)]
    return Card(kind="tool", name=meta.name, about=spec.description, facts=[*parameters, *facts])


def model_card(found: ModelGlance, listing: JsonObject) -> Card:
    """Return what a name stands for, and the model's state and capabilities. `listing` has the models found here."""
    offers = [str(offer["found"]) for offer in objects(listing.get("offers")) if offer["choose"] == found.name]
    stands_for = f"{found.driver}/{found.model}"
    if found.provider not in ("", found.name):
        stands_for = f"{found.provider}, which is {stands_for}"
    known = [(name, encode(getattr(found.capabilities, name))) for name in LABELS]
    facts = [
        ("Stands for", stands_for),
        ("State", found.missing or ("the default" if found.is_default else "can be chosen")),
        ("Last call", found.health),
        ("Tags", tag_words(found.tags)),
        *(
            (LABELS[name], f"{fact_words(name, fact['value'])}, says {_WHO[str(fact['source'])]}")
            for name, fact in known
            if fact["value"] is not None
        ),
        ("Unknown", ", ".join(LABELS[name].lower() for name, fact in known if fact["value"] is None)),
    ]
    return Card(
        kind="model",
        name=found.name,
        about=f"Offered here: {offers[0]}. It is not used yet." if offers else "",
        facts=[(label, value) for label, value in facts if value],
    )


def session_card(row: Row) -> Card:
    spent = Spent.of_row(row)
    return Card(
        kind="session",
        name=str(row["title"]) or "(no title yet)",
        facts=[
            ("Id", str(row["session_id"])),
            ("State", str(row["status"])),
            ("From", str(row["channel"])),
            ("Model", str(row["chosen_model"]) or "the default"),
            ("Messages", f"{row['message_count']:,}"),
            ("Tokens", f"{spent.input_tokens:,} in, {spent.output_tokens:,} out"),
            ("Last used", str(row["updated_at"])[:16].replace("T", " ") + " UTC"),
        ],
    )


def file_card(found: FileFacts) -> Card:
    changed = _moment(found.modified_s)
    if found.kind == "folder":
        count = f"{found.entries:,}" if found.is_whole else f"more than {found.entries:,}"
        return Card(kind="folder", name=found.path, facts=[("Entries", count), ("Changed", changed)])
    facts = [("Size", f"{found.size:,} bytes"), ("Kind", _kind(found)), ("Changed", changed)]
    head = "\n".join(found.head).rstrip("\n")
    return Card(kind="file", name=found.path, facts=facts, sample=head if found.is_whole or not head else f"{head}\n…")


def _kind(found: FileFacts) -> str:
    if picture_name(found.path) == found.path:
        if not found.picture:
            return "not a PNG, JPEG or WebP picture, so it can't be shown to a model"
        shown = "a message that names it shows it" if found.size <= MAX_PICTURE_BYTES else "too large to be shown"
        return f"{_PICTURES[found.picture]} picture; {shown}"
    return "text" if found.is_text else "not text"


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (ValueError, OverflowError, OSError):  # a file system may hold any number
        return "unknown"


def _word(line: str, at: int) -> str:
    """Return the word at a position of a line, unless it is the name of a magic as in `%%python`."""
    for match in _WORD.finditer(line[:4096]):
        if match.start() <= at <= match.end() and line[: match.start()][-1:] != "%":
            return match[0].rstrip(".")
    return ""


def _properties(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    yield from properties if isinstance(properties, dict) else ()


def _parameter(name: str, schema: Any) -> str:
    """Return "text, needed. Relative to the project folder." """
    found = schema["properties"][name]
    kind = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(
        found.get("type", ""), found.get("type", "any")
    )
    needed = "needed" if name in schema.get("required", ()) else f"otherwise {found.get('default')!r}"
    description = str(found.get("description", ""))
    return f"{kind}, {needed}. {description}".strip() if description else f"{kind}, {needed}"
