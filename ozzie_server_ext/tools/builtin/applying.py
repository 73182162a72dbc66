"""`fs.apply`: applying to the project what a command changed in its copy of a folder, after a person saw it (ADR 33).

Each file must still be the one that the command began with. Changes that are in the project already are skipped, so an
interrupted call can be repeated for the rest.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import msgspec
from pydantic import Field

from ozzie_server_ext.domain.artifacts import REPLACED_BY, Artifact
from ozzie_server_ext.domain.content import Content
from ozzie_server_ext.domain.ids import ArtifactId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Category, Target, TargetKind, ToolResult
from ozzie_server_ext.execution.sandbox_files import MAX_CHANGED_FILES
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.render.text import byte_count, file_count, line_count, quoted
from ozzie_server_ext.tools.base import (
    ArtifactReader,
    Before,
    EffectTool,
    Plan,
    Preview,
    ToolContext,
    ToolFailed,
    Unsettled,
    file_change,
)
from ozzie_server_ext.tools.builtin.proposing import MAX_REPLACED, first_problems
from ozzie_server_ext.tools.builtin.writing import changed, root_of
from ozzie_server_ext.tools.changes.changeset import (
    FOLDER,
    MAX_PATH,
    REVERSE,
    ChangeSet,
    FileChange,
    read_changes,
    text_of,
)
from ozzie_server_ext.tools.changes.diff import MOST_STEPS, unified
from ozzie_server_ext.tools.changes.held import remove_folders
from ozzie_server_ext.tools.changes.seen import FileChanged, Looked, look
from ozzie_server_ext.tools.changes.several import PreparedSteps, Step, carry_out, make_missing_folders, was_done
from ozzie_server_ext.tools.notebook.files import expect_inert
from ozzie_server_ext.tools.timeout import to_its_end

_LEAST_STEPS = MOST_STEPS // 20
"""Steps for the diff of one file among many."""
_UNDO = (
    "What it replaces is kept among the artifacts, as changes that apply_changes takes back; what it removes is in "
    "the trash, too."
)


class Pending(msgspec.Struct, frozen=True):
    """A change that is not in the project yet, and the present state of its file."""

    change: FileChange
    looked: Looked

    @property
    def verb(self) -> str:
        if self.change.content is None:
            return "remove"
        return "change" if self.looked.seen.file else "add"

    @property
    def texts(self) -> tuple[str, str] | None:
        """The old and the new text; None if either is not text."""
        old, new = text_of(self.looked.content), text_of(self.change.content or b"")
        return None if old is None or new is None else (old, new)


def preview(pending: Sequence[Pending]) -> Preview:
    """The card of changes, which are sorted by path."""
    steps = max(_LEAST_STEPS, MOST_STEPS // len(pending))
    proof = "\n".join(part for each in pending for part in _shown(each, steps))
    return Preview(sentence=f"{_summary(pending)}: {line_counts(pending)}?", proof=proof, shown="diff", undo=_UNDO)


def line_counts(pending: Sequence[Pending]) -> str:
    """Return "+12 −4 lines", the number of files without text, and how many become or stop being executable."""
    texts = [each.texts for each in pending]
    counted = [changed(*each) for each in texts if each is not None]
    come, go = sum(come for come, _ in counted), sum(go for _, go in counted)
    parts = [f"+{come:,} −{go:,} lines"] if come or go else []
    for count, what in (
        (len(texts) - len(counted), "without text"),
        (sum(each.change.executable is True for each in pending), "made executable"),
        (sum(each.change.executable is False for each in pending), "no longer executable"),
    ):
        parts += [f"{count:,} {what}"] if count else []
    return ", ".join(parts) or "+0 −0 lines"


def _summary(pending: Sequence[Pending]) -> str:
    if len(pending) == 1:
        return f"{pending[0].verb.capitalize()} {quoted(pending[0].change.path)}"
    counts = {verb: sum(each.verb == verb for each in pending) for verb in ("change", "add", "remove")}
    (first, count), *others = [(verb, count) for verb, count in counts.items() if count]
    parts = [f"{first.capitalize()} {file_count(count)}", *(f"{verb} {count:,}" for verb, count in others)]
    *rest, last = parts
    text = f"{', '.join(rest)} and {last}" if rest else last
    folder = _common([each.change.path for each in pending])
    return f"{text} in {quoted(folder + '/')}" if folder else f"{text} of the project"


def _common(paths: Sequence[str]) -> str:
    """Return the deepest common folder; "" for the project itself."""
    first, *others = [path.split("/")[:-1] for path in paths]
    for other in others:
        same = next((at for at, (one, two) in enumerate(zip(first, other, strict=False)) if one != two), None)
        first = first[: min(len(first), len(other)) if same is None else same]
    return "/".join(first)


def _shown(pending: Pending, steps: int) -> list[str]:
    """Return a heading, which no diff line can imitate, and the diff."""
    change, looked = pending.change, pending.looked
    notes = [{"change": "changed", "add": "new", "remove": "to the trash"}[pending.verb]]
    if change.executable is not None:
        notes.append("becomes executable" if change.executable else "no longer executable")
    texts = pending.texts
    if texts is None:
        old = byte_count(len(looked.content)) if looked.seen.file else ""
        new = byte_count(len(change.content)) if change.content is not None else ""
        notes.append(f"no text, {' → '.join(filter(None, [old, new]))}")
        if change.after is not None:
            notes.append(f"SHA-256 {change.after[:16]}…")
    else:
        come, go = changed(*texts)
        notes.append(line_count(come) if pending.verb == "add" else f"+{come:,} −{go:,} lines")
    heading = f"=== {change.path} ({', '.join(notes)})"
    return list(filter(None, [heading, unified(*texts, steps) if texts else ""]))


log = logger(__name__)

_MADE_BY = ("shell.run", "code.python")
_MOST_LISTED = 8000
"""Characters of paths in a refusal."""
_RUN, _WRITE = 0o100, 0o222
_ID = "fs.apply"


class _Work(msgspec.Struct, frozen=True):
    steps: tuple[Step, ...]
    summary: str
    undo: JsonObject
    content: Content


async def plan_apply(
    context: ToolContext,
    *,
    artifact: Annotated[str, Field(description="Name or id of the changes.", min_length=1, max_length=200)],
    paths: Annotated[
        list[Annotated[str, Field(max_length=MAX_PATH)]],
        Field(description="All files that they change, and no other.", min_length=1, max_length=MAX_CHANGED_FILES),
    ],
) -> Plan:
    """Apply to the project what shell or python changed in its copy of a folder. Where a file of it was changed in the
    project since then, nothing is applied, and the command has to be run again."""
    found, content = await _opened(context.artifacts, artifact)
    changes = await asyncio.to_thread(read_changes, content, found.name)
    if sorted(paths) != changes.paths:
        listed = dumps(changes.paths)
        if len(listed) > _MOST_LISTED:
            listed = "read the artifact for them"
        raise ToolFailed(f"{found.name} changes exactly these paths; name them all, and no other: {listed}")
    args: JsonObject = {"artifact": artifact, "paths": [*paths]}
    return await asyncio.to_thread(_planned, context, args, changes, found.content)


async def _opened(artifacts: ArtifactReader, name: str) -> tuple[Artifact, bytes]:
    """Raises ToolFailed, or as `ArtifactReader.open`."""
    artifact_id = ArtifactId(name)
    if name.startswith(FOLDER):
        there = [*await artifacts.under(name, "json"), *await artifacts.under(name, "file")]
        newest = next((each for each in there if each.name == name), None)
        if newest is None:
            raise ToolFailed(f"There are no changes {name} in this session; run the command again.")
        artifact_id = newest.artifact_id
    found, content = await artifacts.open(artifact_id)
    ours = found.meta.get("tool_id") in _MADE_BY or found.meta.get(REPLACED_BY) == _ID
    if not (ours and found.name.startswith(FOLDER)):
        raise ToolFailed(f"{found.name} holds no changes that a command made.")
    return found, content


def _planned(context: ToolContext, args: JsonObject, changes: ChangeSet, content: Content) -> Plan:
    pending = _pending(context, changes)
    if not pending:
        data: JsonObject = {"applied": [], "note": "All of it is in the project already."}
        return Plan(args=args, nothing=ToolResult(ok=True, data=data, summary="nothing to change"))
    if sum(len(each.looked.content) for each in pending) > MAX_REPLACED:
        raise ToolFailed(f"It would replace more than {byte_count(MAX_REPLACED)}; nothing was applied.")
    reverse = ChangeSet(tuple(map(_reversed, pending)))
    before = Before(name=reverse.name(REVERSE), mime="application/json", content=reverse.text().encode())
    # Removals last, so that a renamed file exists at any time.
    steps = tuple(sorted(map(_step, pending), key=lambda step: step.content is None))
    undo: JsonObject = {"artifact": before.name, "paths": [*reverse.paths]}
    return Plan(
        args=args,
        categories=frozenset(category for each in pending for category in _categories(each)),
        content=content,
        effect={"root": root_of(context), "key": context.key, "steps": [step.effect for step in steps]},
        writes=tuple(f"{root_of(context)}/{each.change.path}" for each in pending),
        before=before,
        preview=partial(preview, pending),
        work=_Work(steps, f"{file_count(len(steps))} · {line_counts(pending)}", undo, content),
    )


def _categories(pending: Pending) -> frozenset[Category]:
    """See `Plan.categories`. Raises ToolFailed for a notebook with active content."""
    looked = pending.looked
    return expect_inert(pending.change.path, looked.content if looked.seen.file else None, pending.change.content)


def _pending(context: ToolContext, changes: ChangeSet) -> list[Pending]:
    """Return what is left to do. Raises FileChanged if a file has changed since the command began."""
    pending: list[Pending] = []
    problems: list[str] = []
    for change in changes.files:
        try:
            looked = look(context.project, change.path)
        except ToolFailed as error:
            problems.append(str(error))
            continue
        if _is_done(change, looked):
            continue
        now = looked.seen.file.sha256 if looked.seen.file else None
        if looked.seen.file and change.content is not None and not looked.seen.file.mode & _WRITE:
            problems.append(f"{change.path} is read-only.")
        elif now == change.before:
            pending.append(Pending(change, looked))
        else:
            how = "is gone" if now is None else "was changed" if change.before else "appeared"
            problems.append(f"{change.path} {how} since the command began.")
    if problems:
        raise FileChanged(
            f"Nothing was applied. {first_problems(problems)} Run the command again, on the files as they are now."
        )
    return pending


def _is_done(change: FileChange, looked: Looked) -> bool:
    file = looked.seen.file
    if file is None or change.content is None:
        return file is None and change.content is None
    is_set = change.executable is None or change.executable == bool(file.mode & _RUN)
    return file.sha256 == change.after and is_set


def _step(pending: Pending) -> Step:
    change = pending.change
    return Step(seen=pending.looked.seen, content=change.content, executable=change.executable)


def _reversed(pending: Pending) -> FileChange:
    change, file = pending.change, pending.looked.seen.file
    content = None if file is None else pending.looked.content
    executable = None if file is None else bool(file.mode & _RUN)
    if change.content is not None and change.executable is None:
        executable = None
    return FileChange(path=change.path, before=change.after, content=content, executable=executable)


async def apply(context: ToolContext, plan: Plan) -> ToolResult:
    """Apply file by file. One that changed meanwhile ends it; the result says what was done until then."""
    work: _Work = plan.work
    prepared = await to_its_end(partial(make_missing_folders, context.project, work.steps))
    when = context.clock.now()
    done: list[str] = []
    notes: list[str] = []
    for step in prepared.steps:
        try:
            _expect_wanted()
            notes += await to_its_end(partial(carry_out, context.project, step, context.key, when))
        except Unsettled as error:
            raise Unsettled(f"{error} {_state(done, prepared)}", hint=error.hint) from error
        except ToolFailed as error:
            await to_its_end(partial(remove_folders, context.project, prepared.made))
            if not done:
                raise
            partly = _partly(work, prepared, done, notes, str(error))
            return replace(partly, content=work.content, wrote=_written(context, done))
        done.append(step.seen.path)
    data: JsonObject = {"applied": [*sorted(done)], "undo": work.undo, "notes": [*notes]}
    return ToolResult(ok=True, data=data, summary=work.summary, content=work.content, wrote=_written(context, done))


def _written(context: ToolContext, done: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{root_of(context)}/{path}" for path in done)


def _expect_wanted() -> None:
    """Raises ToolFailed if the turn was stopped or timed out between two files."""
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise ToolFailed("It was stopped.", code="tool.stopped")


def _partly(work: _Work, prepared: PreparedSteps, done: Sequence[str], notes: Sequence[str], why: str) -> ToolResult:
    """The result of a partial application: a failure would say that nothing was done."""
    data: JsonObject = {
        "applied": [*sorted(done)],
        "not_applied": [*sorted(_left(done, prepared))],
        "why": why,
        "note": "Called again with the same arguments, apply_changes does the rest.",
        "undo": work.undo,
        "notes": [*notes],
    }
    return ToolResult(ok=False, data=data, summary=f"{len(done)} of {file_count(len(prepared.steps))}")


def _state(done: Sequence[str], prepared: PreparedSteps) -> str:
    """Describe a call in which one file is in doubt."""
    _, *rest = _left(done, prepared)
    return f"Applied before it: {', '.join(done) or 'nothing'}. Not applied: {', '.join(rest) or 'nothing else'}."


def _left(done: Sequence[str], prepared: PreparedSteps) -> list[str]:
    return [step.seen.path for step in prepared.steps if step.seen.path not in done]


async def applied(context: ToolContext, effect: JsonObject) -> bool | None:
    """Whether everything was applied; None for a part. The log names the parts, and the same call does the rest."""
    steps = effect["steps"]
    assert isinstance(steps, list)
    if effect["root"] != root_of(context):
        return None
    key = str(effect["key"])
    outcomes = await asyncio.to_thread(
        lambda: {_path(step): was_done(context.project, step, key) for step in steps if isinstance(step, dict)}
    )
    if len(set(outcomes.values())) == 1:
        return next(iter(outcomes.values()))
    for outcome, description in ((True, "applied"), (False, "not applied"), (None, "in doubt")):
        paths = [path for path, found in outcomes.items() if found is outcome]
        log.warning("interrupted changes, %s: %s", description, ", ".join(paths) or "none")
    return None


def _path(step: JsonObject) -> str:
    seen = step["seen"]
    assert isinstance(seen, dict)
    return str(seen["path"])


TOOLS = (
    EffectTool(
        plan_apply,
        apply,
        file_change(tool_id=_ID, name="apply_changes", timeout_s=60.0, targets=(Target("paths", TargetKind.PATH),)),
        happened=applied,
    ),
)
