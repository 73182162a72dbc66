"""What a word of a message or a command stands for: a tool's contract, a model, a session, a file (NB-7)."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import JsonObject, objects
from ozzie_server_ext.domain.mentions import Mention, mention_at
from ozzie_server_ext.domain.pictures import MAX_PICTURE_BYTES, picture_name
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.contract_words import EFFECTS_AT_LENGTH, REPEATS
from ozzie_server_ext.render.models import LABELS, fact_words, tag_words
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.completion import WAIT_S
from ozzie_server_ext.tasks.costs import Spent
from ozzie_server_ext.tasks.model_details import ModelDetails, ModelGlance
from ozzie_server_ext.tasks.model_service import ModelService
from ozzie_server_ext.tasks.project_files import FileFacts, ProjectFiles
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.registry import ToolRegistry

_WORD = re.compile(r"[A-Za-z_][\w.]*")
_MODEL = re.compile(r"[ \t]*%model[ \t]+(\S+)")
_SESSION = re.compile(r"[ \t]*%session[ \t]+(?:resume|archive|close)[ \t]+(\S.*)")
_PICTURES = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WebP"}
_WHO = {"configuration": "the configuration", "Ollama": "Ollama", "litellm": "litellm"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a thing is: its kind and name, a sentence, facts as label and value, and a sample of what is in it. All of
    it is text as it was found; who shows it escapes it."""

    kind: str
    name: str
    about: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    sample: str = ""


class Inspection:
    """Finds out what stands at a cursor."""

    def __init__(
        self,
        sessions: Sessions,
        models: ModelService,
        details: ModelDetails,
        tools: ToolRegistry,
        files: ProjectFiles,
    ) -> None:
        self._sessions = sessions
        self._models = models
        self._details = details
        self._tools = tools
        self._files = files

    async def inspect(self, text: str, cursor: int, *, sees_all: bool) -> Card | None:
        """The thing at the cursor; None where there is none, or where it could not be looked up in time. Sessions are
        looked up only for who `sees_all`."""
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
            return model_card(await self._details.glance(found[1]), await self._models.listing())
        if found := _SESSION.fullmatch(line):
            return await self._session(found[1].rstrip()) if sees_all else None
        if mention := mention_at(text, cursor):
            return await self._file(mention)
        tool = self._tools.find(_word(line, cursor - start))
        return tool_card(tool) if tool is not None else None

    async def _session(self, named: str) -> Card:
        return session_card(await self._sessions.row(await self._sessions.find(named)))

    async def _file(self, mention: Mention) -> Card:
        try:
            return file_card(await self._files.facts(mention.path))
        except InputError as error:
            return Card(kind="file", name=mention.path, about=str(error))


def tool_card(tool: Tool) -> Card:
    """The tool's contract: what the model is told, and what Ozzie holds it to."""
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
    """What a name stands for, how that model is, and what is known of it; `listing` tells what is only offered."""
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
    """The word at a place of a line; nothing of a command's own name, as in `%%python`."""
    for match in _WORD.finditer(line[:4096]):
        if match.start() <= at <= match.end() and line[: match.start()][-1:] != "%":
            return match[0].rstrip(".")
    return ""


def _properties(schema: JsonObject) -> Iterator[str]:
    properties = schema.get("properties")
    yield from properties if isinstance(properties, dict) else ()


def _parameter(name: str, schema: Any) -> str:
    """ "text, needed. Relative to the project folder." """
    found = schema["properties"][name]
    kind = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}.get(
        found.get("type", ""), found.get("type", "any")
    )
    needed = "needed" if name in schema.get("required", ()) else f"otherwise {found.get('default')!r}"
    said = str(found.get("description", ""))
    return f"{kind}, {needed}. {said}".strip() if said else f"{kind}, {needed}"
