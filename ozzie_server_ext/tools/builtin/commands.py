"""`shell.run` and `code.python`: commands and programs in the sandbox, where they change nothing outside (TL-7)."""

import asyncio
import codecs
import mimetypes
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.artifacts import MAX_NAME, ArtifactKind
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Idempotency,
    Made,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.execution.runner import Collected, JobFile, JobLimits, JobRunner, JobSpec, JobState, JobStatus
from ozzie_server_ext.render.text import line_count
from ozzie_server_ext.tools.base import FunctionTool, Live, ToolContext, ToolFailed
from ozzie_server_ext.tools.pages import count_lines
from ozzie_server_ext.tools.rooted import open_below, parts_below

MAX_COMMAND = 50_000
"""In characters, of a command or a program."""
MAX_S = 600
_ROOM_S = 60
"""For what is around the command itself: waiting for its turn, and taking its files out."""
OUT_FOLDER = "out/"
"""Where the files that a command leaves stand among the artifacts."""
MAX_FILES = 20
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_KINDS: Mapping[str, ArtifactKind] = {"application/json": "json", "text/markdown": "markdown"}

_SHOWN = 8000
"""In characters, of what a command printed and the model reads at once: its beginning and its end."""

Folder = Annotated[str, Field(description="Where it starts, relative to the project folder.", max_length=1024)]
Seconds = Annotated[int, Field(description="It is ended after so many seconds.", ge=1, le=MAX_S)]


async def shell(
    context: ToolContext,
    *,
    command: Annotated[str, Field(description="For sh.", min_length=1, max_length=MAX_COMMAND)],
    folder: Folder = ".",
    timeout_s: Seconds = 60,
) -> ToolResult:
    """Run a shell command in a sandbox: it reads the project at /project, has no network, and can change nothing. Files
    that it writes to $OUT are kept as artifacts. Hidden files are not there."""
    return await _run(context, ["sh", "/job/main.sh"], {"main.sh": command.encode()}, folder, timeout_s)


async def python(
    context: ToolContext,
    *,
    code: Annotated[str, Field(description="A whole program.", min_length=1, max_length=MAX_COMMAND)],
    folder: Folder = ".",
    timeout_s: Seconds = 60,
) -> ToolResult:
    """Run a Python program in a sandbox, with the packages of the user's notebooks: it reads the project at /project,
    has no network, and can change nothing. Print what you want to know. Files that it writes to os.environ["OUT"] are
    kept as artifacts. Nothing of it is left for the next call."""
    return await _run(context, ["python3", "/job/main.py"], {"main.py": code.encode()}, folder, timeout_s)


async def _run(
    context: ToolContext, argv: Sequence[str], files: Mapping[str, bytes], folder: str, timeout_s: int
) -> ToolResult:
    where = "/".join(parts_below(folder))
    os.close(await asyncio.to_thread(open_below, context.project, folder, folder=True))  # or it says what is wrong
    spec = JobSpec(
        argv=argv, project=context.project, folder=where, files=files, limits=JobLimits(wall_s=float(timeout_s))
    )
    jobs = context.jobs
    try:
        job_id = await jobs.start(spec)
    except OzzieError as error:
        raise ToolFailed(" ".join(filter(None, [str(error), error.hint])), code=error.code) from None
    try:
        printed = await _printed(jobs, job_id, context.live)
    except asyncio.CancelledError:
        await jobs.cancel(job_id)
        raise
    status, left = await jobs.status(job_id), await jobs.collect_artifacts(job_id)
    if status.state is JobState.FAILED and status.exit_code is None and not printed:
        raise ToolFailed(status.reason, code="sandbox.failed")
    found = await asyncio.to_thread(_result, job_id, status, printed, left)
    return replace(found, content=await context.marks.below())  # it sees all of the project, whatever its folder is


async def _printed(jobs: JobRunner, job_id: str, live: Live) -> str:
    """All that it prints, shown as it comes."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    pieces: list[str] = []
    async for piece in jobs.stream_logs(job_id):
        text = decoder.decode(piece.data)
        pieces.append(text)
        live.output(text)
    return "".join(pieces) + decoder.decode(b"", final=True)


def _result(job_id: str, status: JobStatus, printed: str, left: Collected) -> ToolResult:
    made = [_made(file) for file in left.out[:MAX_FILES] if _is_named(file)]
    left_out: list[Json] = [*left.left_out, *(f"{file.path[:80]}…" for file in left.out if not _is_named(file))]
    left_out += [f"{file.path[:80]} (more than {MAX_FILES} files)" for file in left.out[MAX_FILES:][:MAX_FILES]]
    data: JsonObject = {"exit_code": status.exit_code, "output": printed}
    if len(printed) > _SHOWN:
        data["output"] = {"cut": True, "lines": count_lines(printed), "note": "Its beginning and end stand in `kept`."}
        log = Made(name=f"{OUT_FOLDER}{job_id}.log", kind="log", mime="text/plain", content=printed, shown=_SHOWN)
        made.append(log)
    if status.reason:
        data["ended"] = status.reason
    if left_out:
        data["left_out"] = left_out
    return ToolResult(
        ok=status.state is JobState.SUCCEEDED, data=data, summary=_summary(status, printed, left), made=tuple(made)
    )


def _summary(status: JobStatus, printed: str, left: Collected) -> str:
    match status.state:
        case JobState.SUCCEEDED | JobState.FAILED if status.exit_code is not None:
            files = len(left.out)
            said = [f"exit {status.exit_code}"] if status.exit_code else []
            said.append(line_count(count_lines(printed)) if printed else "no output")
            return " · ".join([*said, *([f"{files} file{'s' if files > 1 else ''}"] if files else [])])
        case JobState.TIMED_OUT:
            return "took too long"
        case JobState.CUT:
            return "took too much"
        case _:
            return str(status.state)


def _is_named(file: JobFile) -> bool:
    """Whether its name can be an artifact's."""
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
    return ToolMeta(
        tool_id=tool_id,
        name=name,
        side_effect=SideEffect.NONE,
        risk_level=RiskLevel.LOW,
        timeout_s=MAX_S + _ROOM_S,
        idempotency=Idempotency.NOT_SUPPORTED,
        further_names=further,
        max_inline_chars=2 * _SHOWN,
        targets=(Target("folder", TargetKind.PATH),),
    )


TOOLS = (
    FunctionTool(shell, _meta("shell.run", "shell", ("cmd",))),
    FunctionTool(python, _meta("code.python", "python", ())),
)
