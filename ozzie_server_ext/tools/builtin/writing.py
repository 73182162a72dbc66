"""`fs.write`, `fs.edit` and `fs.trash`: changing text files of the project, exactly as they were read or not at all.

An existing file must have been read: the call names the version from `read_file` and is refused if the file has changed
since. The old content is kept.
"""

import asyncio
import hashlib
from collections import Counter
from dataclasses import replace as with_changes
from functools import partial
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.artifacts import MAX_NAME
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.redaction import REDACTED
from ozzie_server_ext.domain.toolmeta import Target, TargetKind, ToolResult
from ozzie_server_ext.protocol.codec import decode, encode
from ozzie_server_ext.render.text import byte_count, cut_middle, line_count, quoted
from ozzie_server_ext.tools.base import Before, EffectTool, Plan, Preview, ToolContext, ToolFailed, file_change
from ozzie_server_ext.tools.builtin.files import TextFile, expect_version, version_of
from ozzie_server_ext.tools.changes.diff import lines_of, unified
from ozzie_server_ext.tools.changes.replace import replace
from ozzie_server_ext.tools.changes.seen import FileChanged, Looked, Seen, look
from ozzie_server_ext.tools.changes.several import was_moved_to_trash, was_replaced
from ozzie_server_ext.tools.changes.trash import move_to_trash
from ozzie_server_ext.tools.notebook.files import expect_inert
from ozzie_server_ext.tools.timeout import to_its_end

MAX_TEXT = 200_000

Path = Annotated[str, Field(description="Relative to the project folder.", max_length=1024)]
_AS_READ = "The file's version, as read_file told it"
Version = Annotated[str, Field(description=f"{_AS_READ}.", max_length=64)]
VersionOrNew = Annotated[str, Field(description=f"{_AS_READ}; empty for a new file.", max_length=64)]


async def plan_write(
    context: ToolContext,
    *,
    path: Path,
    text: Annotated[str, Field(description="The whole new content.", max_length=MAX_TEXT)],
    version: VersionOrNew = "",
) -> Plan:
    """Write a whole text file of the project: a new one, or one that was read before, whose version is then named."""
    args: JsonObject = {"path": path, "text": text, "version": version}
    return await asyncio.to_thread(_planned_write, context, args, path, text, version)


async def plan_edit(
    context: ToolContext,
    *,
    path: Path,
    old: Annotated[str, Field(description="The passage to replace, exactly, once in the file.", max_length=MAX_TEXT)],
    new: Annotated[str, Field(description="What takes its place.", max_length=MAX_TEXT)],
    version: Version,
) -> Plan:
    """Replace one passage in a text file of the project that was read before, whose version is named."""
    args: JsonObject = {"path": path, "old": old, "new": new, "version": version}
    return await asyncio.to_thread(_planned_edit, context, args, path, old, new, version)


async def plan_trash(context: ToolContext, *, path: Path, version: Version) -> Plan:
    """Move a file of the project that was read before to the trash of the project, `.ozzie/trash`, from which a person
    can take it back."""
    looked = await asyncio.to_thread(look, context.project, path)
    if looked.seen.file is None:
        raise ToolFailed(f"{looked.seen.path} does not exist.")
    expect_version(version, looked.content, looked.seen.path, whole=False)
    effect: JsonObject = {"root": root_of(context), "seen": encode(looked.seen), "key": context.key}
    return Plan(
        args={"path": path, "version": version},
        effect=effect,
        preview=partial(_trash_preview, looked),
        work=looked.seen,
    )


def _planned_write(context: ToolContext, args: JsonObject, path: str, text: str, version: str) -> Plan:
    looked = look(context.project, path)
    if looked.seen.file is None:
        if version:
            raise FileChanged(f"{looked.seen.path} is gone since it was read; look at the folder again.")
        return _plan(context, args, looked, TextFile(""), TextFile("").with_text(text))
    expect_version(version, looked.content, looked.seen.path, whole=True)
    old = TextFile.of(looked.content, looked.seen.path)
    return _plan(context, args, looked, old, old.with_text(text))


def _planned_edit(context: ToolContext, args: JsonObject, path: str, old: str, new: str, version: str) -> Plan:
    looked = look(context.project, path)
    if looked.seen.file is None:
        raise ToolFailed(f"{looked.seen.path} does not exist.")
    expect_version(version, looked.content, looked.seen.path, whole=False)
    before = TextFile.of(looked.content, looked.seen.path)
    count = before.text.count(old) if old else 0
    if count != 1:
        where = f"is in it {count:,} times; include more of its surroundings" if count else "is not in it"
        raise ToolFailed(f"{looked.seen.path} was not changed: the passage to replace {where}.")
    return _plan(context, args, looked, before, before.with_text(before.text.replace(old, new)))


def _plan(context: ToolContext, args: JsonObject, looked: Looked, old: TextFile, new: TextFile) -> Plan:
    path, content = looked.seen.path, new.content
    if new.text.count(REDACTED) > old.text.count(REDACTED):
        raise ToolFailed(
            f"{path} was not written: the new text has [redacted: …], which stands where a secret was taken out, and "
            "the secret would be lost. Change what is around it with edit_file."
        )
    if looked.seen.file is not None and content == looked.content:
        data: JsonObject = {"path": path, "version": version_of(content), "changed": False}
        return Plan(args=args, nothing=ToolResult(ok=True, data=data, summary="nothing to change"))
    digest = hashlib.sha256(content).hexdigest()
    return Plan(
        args=args,
        categories=expect_inert(path, looked.content if looked.seen.file else None, content),
        effect={"root": root_of(context), "seen": encode(looked.seen), "sha256": digest},
        writes=(f"{root_of(context)}/{path}",),
        before=_before(looked) if looked.seen.file else None,
        preview=partial(_preview, looked, old, new),
        work=(looked.seen, content, counts(old.text, new.text)),
    )


def _before(looked: Looked) -> Before:
    name = cut_middle(f"{looked.seen.path} (replaced)", MAX_NAME)
    shown = "".join(character if character.isprintable() else "\ufffd" for character in name)
    return Before(name=shown, mime="text/plain", content=looked.content)


def root_of(context: ToolContext) -> str:
    """Return the project as effects name it: after a restart, another one may be open."""
    return str(context.project.resolve())


async def write(context: ToolContext, plan: Plan) -> ToolResult:
    """Give the file that was seen its new content, for both writing tools."""
    seen, content, summary = plan.work
    done = await to_its_end(partial(replace, context.project, seen, content))
    data: JsonObject = {"path": seen.path, "version": version_of(content), "changed": True, "notes": list(done.notes)}
    return ToolResult(ok=True, data=data, summary=summary, wrote=(f"{root_of(context)}/{seen.path}",))


async def written(context: ToolContext, effect: JsonObject) -> bool | None:
    if effect["root"] != root_of(context):
        return None
    seen = decode(Seen, effect["seen"])
    return await asyncio.to_thread(was_replaced, context.project, seen, str(effect["sha256"]))


async def trash(context: ToolContext, plan: Plan) -> ToolResult:
    """Move the file that was seen to the trash, under the call's key."""
    seen: Seen = plan.work
    when = context.clock.now()
    done = await to_its_end(partial(move_to_trash, context.project, seen, context.key, when=when))
    data: JsonObject = {"path": seen.path, "trash": done.place, "notes": list(done.notes)}
    return ToolResult(ok=True, data=data, summary="in the trash")


async def trashed(context: ToolContext, effect: JsonObject) -> bool | None:
    """Whether the file went to the trash; None if it is neither there nor in its place."""
    if effect["root"] != root_of(context):
        return None
    seen = decode(Seen, effect["seen"])
    return await asyncio.to_thread(was_moved_to_trash, context.project, seen, str(effect["key"]))


def counts(old: str, new: str) -> str:
    """Return the number of added and removed lines: "+2 −1 lines"."""
    come, go = changed(old, new)
    return f"+{come:,} −{go:,} lines" if old else line_count(come)


def changed(old: str, new: str) -> tuple[int, int]:
    """Return how many lines are added and removed, wherever they are. Moved lines count as neither."""
    before, after = Counter(lines_of(old)), Counter(lines_of(new))
    return (after - before).total(), (before - after).total()


def change_question(path: str, old: str, new: str) -> str:
    """Ask by the numbers of lines. If only additions or only removals are named, a reader takes the other lines to stay
    in place, so moves are mentioned."""
    come, go = changed(old, new)
    if come == go:
        return f"Change {line_count(come)} of {path}?" if come else f"Move lines of {path}?"
    if come and go:
        return f"Replace {line_count(go)} of {path} with {come:,}?"
    shorter, longer = (old, new) if come else (new, old)
    moved = "" if _in_order(lines_of(shorter), lines_of(longer)) else ", and move others"
    return f"Add {line_count(come)} to {path}{moved}?" if come else f"Remove {line_count(go)} from {path}{moved}?"


def _in_order(some: list[str], of: list[str]) -> bool:
    left = iter(of)
    return all(line in left for line in some)


def _preview(looked: Looked, old: TextFile, new: TextFile) -> Preview:
    path = quoted(looked.seen.path)
    proof = unified(old.text, new.text)
    if looked.seen.file is None:
        sentence = f"Write a new file, {path}, of {line_count(len(lines_of(new.text)))}?"
        undo = "This is a new file; you can simply delete it."
        return Preview(sentence=sentence, proof=proof, shown="diff", undo=undo)
    return Preview(
        sentence=change_question(path, old.text, new.text),
        proof=proof,
        shown="diff",
        undo="The old version is kept among the artifacts.",
    )


def _trash_preview(looked: Looked) -> Preview:
    size = byte_count(len(looked.content))
    try:
        proof = looked.content.decode()
    except UnicodeDecodeError:
        proof = f"{size} that are not text"
    return Preview(
        sentence=f"Move {quoted(looked.seen.path)} ({size}) to the trash?",
        proof=proof,
        shown="text",
        undo="ozzie trash restore puts it back.",
    )


_META = file_change(tool_id="fs.write", name="write_file", timeout_s=30.0, targets=(Target("path", TargetKind.PATH),))

TOOLS = (
    EffectTool(plan_write, write, _META, happened=written),
    EffectTool(plan_edit, write, with_changes(_META, tool_id="fs.edit", name="edit_file"), happened=written),
    EffectTool(plan_trash, trash, with_changes(_META, tool_id="fs.trash", name="trash_file"), happened=trashed),
)
