"""`shell.run` and `code.python`: commands and programs in the sandbox, which change nothing outside. Of a folder that
they may edit they get a copy; the changes are kept for `apply_changes` (ADR 33)."""

import asyncio
import codecs
import mimetypes
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.artifacts import MAX_NAME, ArtifactKind
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import Capability, Idempotency, Made, Target, TargetKind, ToolMeta, ToolResult
from ozzie_server_ext.execution.runner import Collected, JobFile, JobLimits, JobRunner, JobSpec, JobState, JobStatus
from ozzie_server_ext.render.text import file_count, line_count
from ozzie_server_ext.tools.base import FunctionTool, Live, ToolContext, ToolFailed, failure_of, read_only
from ozzie_server_ext.tools.builtin.job_sources import JobSources
from ozzie_server_ext.tools.builtin.proposing import Proposal, not_kept, proposal
from ozzie_server_ext.tools.outcome import count_lines
from ozzie_server_ext.tools.safe_open import open_below, parts_below

SHOWN = 8000
"""Characters of output that the model reads at once: its beginning and its end."""


class Printed:
    """Decodes output whose pieces may end within a character."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._pieces: list[str] = []

    def add(self, data: bytes) -> None:
        text = self._decoder.decode(data)
        self._pieces.append(text)
        self._live.output(text)

    def whole(self) -> str:
        return "".join(self._pieces) + self._decoder.decode(b"", final=True)


def output_of(status: JobStatus, printed: str, log: str) -> tuple[JsonObject, list[Made]]:
    """Return how a command ended and what it printed, and the artifact `log` if that is too long."""
    output, made = short_output(printed, log)
    data: JsonObject = {"exit_code": status.exit_code, "output": output}
    if status.reason:
        data["ended"] = status.reason
    return data, made


def short_output(printed: str, log: str) -> tuple[Json, list[Made]]:
    """Return output for the model; if it is too long, a note and the artifact `log` with all of it."""
    if len(printed) <= SHOWN:
        return printed, []
    note: JsonObject = {"cut": True, "lines": count_lines(printed), "note": "Its beginning and end are in `kept`."}
    return note, [Made(name=log, kind="log", mime="text/plain", content=printed, shown=SHOWN)]


def how_it_ended(status: JobStatus, printed: str, files: int = 0) -> str:
    """Summarize in a few words, with the number of files."""
    if status.exit_code is None or status.state not in (JobState.SUCCEEDED, JobState.FAILED):
        return {JobState.TIMED_OUT: "took too long", JobState.CUT: "took too much"}.get(status.state, str(status.state))
    parts = [f"exit {status.exit_code}"] if status.exit_code else []
    parts.append(line_count(count_lines(printed)) if printed else "no output")
    return " · ".join([*parts, *([file_count(files)] if files else [])])


MAX_COMMAND = 50_000
"""Characters of a command or program."""
MAX_S = 600
_ROOM_S = 60
"""Seconds beside the command itself: waiting for a slot and collecting files."""
OUT_FOLDER = "out/"
"""Where the files of commands are among the artifacts."""
MAX_FILES = 20
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_KINDS: Mapping[str, ArtifactKind] = {"application/json": "json", "text/markdown": "markdown"}

Folder = Annotated[str, Field(description="Where it starts, relative to the project folder.", max_length=1024)]
Editable = Annotated[
    str | None,
    Field(
        description="A folder of the project that it may change, in a copy. The changes are kept, and are not in the "
        "project before apply_changes.",
        max_length=1024,
    ),
]
Seconds = Annotated[int, Field(description="It is ended after so many seconds.", ge=1, le=MAX_S)]


async def shell(
    context: ToolContext,
    *,
    command: Annotated[str, Field(description="For sh.", min_length=1, max_length=MAX_COMMAND)],
    folder: Folder = ".",
    editable_folder: Editable = None,
    timeout_s: Seconds = 60,
) -> ToolResult:
    """Run a shell command in a sandbox: it reads the project at /project, has no network, and can change nothing but a
    copy of `editable_folder`. Files that it writes to $OUT are kept as artifacts. Hidden files are not there."""
    files = {"main.sh": command.encode()}
    return await _run(context, ["sh", "/job/main.sh"], files, folder, editable_folder, timeout_s)


async def python(
    context: ToolContext,
    *,
    code: Annotated[str, Field(description="A whole program.", min_length=1, max_length=MAX_COMMAND)],
    folder: Folder = ".",
    editable_folder: Editable = None,
    timeout_s: Seconds = 60,
) -> ToolResult:
    """Run a Python program in a sandbox, with the packages of the user's notebooks: it reads the project at /project,
    has no network, and can change nothing but a copy of `editable_folder`. Print what you want to know. Files that it
    writes to os.environ["OUT"] are kept as artifacts. Nothing else of it is left for the next call."""
    files = {"main.py": code.encode()}
    return await _run(context, ["python3", "/job/main.py"], files, folder, editable_folder, timeout_s)


async def _run(
    context: ToolContext,
    argv: Sequence[str],
    files: Mapping[str, bytes],
    folder: str,
    editable_folder: str | None,
    timeout_s: int,
) -> ToolResult:
    # Models write "" to omit it; the project itself is ".".
    editable = await asyncio.to_thread(_folder, context.project, editable_folder) if editable_folder else None
    spec = JobSpec(
        argv=argv,
        project=context.project,
        folder=await asyncio.to_thread(_folder, context.project, folder),
        copied=editable,
        files=files,
        limits=JobLimits(wall_s=float(timeout_s)),
    )
    jobs = context.jobs
    sources = await JobSources.of(context, editable)
    try:
        job_id = await jobs.start(spec)
    except OzzieError as error:
        raise failure_of(error) from None
    try:
        printed = await _printed(jobs, job_id, context.live)
    except asyncio.CancelledError:
        await jobs.cancel(job_id)
        raise
    finally:
        await sources.note(job_id)
    status, left = await jobs.status(job_id), await jobs.collect_artifacts(job_id)
    if status.state is JobState.FAILED and status.exit_code is None and not printed:
        raise ToolFailed(status.reason, code="sandbox.failed")
    changes = None if spec.copied is None else await asyncio.to_thread(_changes, spec, status, left)
    files_left = (file.content for file in (*left.out, *left.changed))
    await sources.note_output([printed.encode(errors="replace"), *files_left])
    return await asyncio.to_thread(_result, job_id, status, printed, left, changes)


def _folder(project: Path, folder: str) -> str:
    """Return the folder's path in the project. Raises ToolFailed if it can't be opened."""
    os.close(open_below(project, folder, folder=True))
    return "/".join(parts_below(folder))


def _changes(spec: JobSpec, status: JobStatus, left: Collected) -> Proposal:
    if status.exit_code is None:
        return not_kept("The command did not finish.")
    return proposal(spec.project, spec.copied or "", left)


async def _printed(jobs: JobRunner, job_id: str, live: Live) -> str:
    """Return all output, shown live as it comes."""
    printed = Printed(live)
    async for piece in jobs.stream_logs(job_id):
        printed.add(piece.data)
    return printed.whole()


def _result(job_id: str, status: JobStatus, printed: str, left: Collected, changes: Proposal | None) -> ToolResult:
    made = [_made(file) for file in left.out[:MAX_FILES] if _is_named(file)]
    left_out: list[Json] = [*left.left_out, *(f"{file.path[:80]}…" for file in left.out if not _is_named(file))]
    left_out += [f"{file.path[:80]} (more than {MAX_FILES} files)" for file in left.out[MAX_FILES:][:MAX_FILES]]
    data, logs = output_of(status, printed, f"{OUT_FOLDER}{job_id}.log")
    made += logs
    ok, summary = status.state is JobState.SUCCEEDED, how_it_ended(status, printed, len(left.out))
    if changes is not None:
        data["changes"] = changes.data
        made += [changes.made] if changes.made else []
        left_out += changes.left_out
        ok = ok and not changes.is_refused
        summary += " · changes not kept" if changes.is_refused else f" · {file_count(changes.count)} to apply"
    if left_out:
        data["left_out"] = left_out
    return ToolResult(ok=ok, data=data, summary=summary, made=tuple(made))


def _is_named(file: JobFile) -> bool:
    """Whether an artifact can have its name."""
    return len(OUT_FOLDER + file.path) <= MAX_NAME


def _made(file: JobFile) -> Made:
    mime, encoding = mimetypes.guess_type(file.path)
    if mime is None or encoding is not None:
        mime = "text/plain" if _is_text(file.content) else "application/octet-stream"
    kind: ArtifactKind = "image" if mime in _IMAGES else _KINDS.get(mime, "file")
    return Made(name=OUT_FOLDER + file.path, kind=kind, mime=mime, content=file.content, told=True)


def _is_text(content: bytes) -> bool:
    try:
        return "\0" not in content.decode()
    except UnicodeDecodeError:
        return False


def _meta(tool_id: str, name: str, further: tuple[str, ...]) -> ToolMeta:
    return read_only(
        tool_id=tool_id,
        name=name,
        timeout_s=MAX_S + _ROOM_S,
        idempotency=Idempotency.NOT_SUPPORTED,
        further_names=further,
        max_inline_chars=2 * SHOWN,
        targets=(Target("folder", TargetKind.PATH, is_read=False), Target("editable_folder", TargetKind.PATH)),
        requires=frozenset({Capability.SANDBOX}),
    )


TOOLS = (
    FunctionTool(shell, _meta("shell.run", "shell", ("cmd",))),
    FunctionTool(python, _meta("code.python", "python", ())),
)
