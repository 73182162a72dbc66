"""`host.run`: a program on the user's own machine, run as the user, for what the sandbox can't do. A person looks at
each one first (ADR 35)."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Annotated

import msgspec
from msgspec.structs import replace
from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Capability,
    Category,
    Idempotency,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.execution.host_commands import (
    HostCommand,
    HostSpec,
    NamedFile,
    Program,
    files_named,
    open_program,
)
from ozzie_server_ext.execution.runner import JobState
from ozzie_server_ext.planes.child import host_environment
from ozzie_server_ext.policy.decision import MAX_WORD_CHARACTERS, MAX_WORDS
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.protocol.made_from import content_in, with_sources
from ozzie_server_ext.render.text import elapsed, quoted, spelled
from ozzie_server_ext.tools.base import EffectTool, Plan, Preview, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin.commands import SHOWN, Printed, how_it_ended, output_of
from ozzie_server_ext.tools.changes.seen import identity
from ozzie_server_ext.tools.safe_open import closing, open_below, parts_below
from ozzie_server_ext.tools.timeout import to_its_end

MAX_S = 3600
MAX_COMMAND = 50_000
"""Characters of all words together: a person has to read them."""
_ROOM_S = 30
"""Seconds beside the command itself."""
_LOG = "out/host-{key}.log"

Words = Annotated[
    list[Annotated[str, Field(max_length=MAX_WORD_CHARACTERS)]],
    Field(
        description='The program and its words, one by one; no shell reads them. For a line of shell: ["sh", "-c", …].',
        min_length=1,
        max_length=MAX_WORDS,
    ),
]
Folder = Annotated[str, Field(description="Where it starts, relative to the project folder.", max_length=1024)]
Seconds = Annotated[int, Field(description="It is ended after so many seconds.", ge=1, le=MAX_S)]


class _Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """A resolved command. `root` is the project, `folder` below it; `place` is that folder's device and inode."""

    argv: tuple[str, ...]
    root: str
    folder: str
    place: tuple[int, int]
    program: Program
    files: tuple[NamedFile, ...]
    wall_s: int


async def plan_command(context: ToolContext, *, argv: Words, folder: Folder = ".", timeout_s: Seconds = 120) -> Plan:
    """Run a program on the user's own machine, as the user, outside of the sandbox. Only for what the sandbox can't do:
    git, installing packages, building, what needs the network. The person is asked each time and sees all words, so
    keep it plain. Nobody can type anything into it."""
    if sum(map(len, argv)) > MAX_COMMAND:
        raise ToolFailed(f"The words of a command may be {MAX_COMMAND:,} characters long, all together.")
    if any("\0" in word for word in argv):
        raise ToolFailed("No program can be given a word with a zero byte in it.")
    args: JsonObject = {"argv": [*argv], "folder": folder, "timeout_s": timeout_s}
    resolved = await asyncio.to_thread(_resolve, context, tuple(argv), folder, timeout_s)
    effect: JsonObject = {
        "root": resolved.root,
        "folder": [*resolved.place],
        "program": encode(resolved.program),
        "files": [encode(file) for file in resolved.files],
    }
    return Plan(args=args, effect=effect, preview=partial(_preview, resolved), work=resolved)


def _resolve(context: ToolContext, argv: tuple[str, ...], folder: str, timeout_s: int) -> _Resolved:
    with _opened(context, argv, folder, timeout_s) as (resolved, _, _):
        return resolved


@contextmanager
def _opened(
    context: ToolContext, argv: tuple[str, ...], folder: str, timeout_s: int
) -> Iterator[tuple[_Resolved, int, int]]:
    """Resolve a command; yield it with its open folder and program. Raises OzzieError."""
    with closing(open_below(context.project, folder, folder=True)) as place:
        descriptor, program = open_program(argv[0], place, os.environ.get("PATH", os.defpath))
        with closing(descriptor):
            resolved = _Resolved(
                argv=argv,
                root=str(context.project.resolve()),
                folder="/".join(parts_below(folder)),
                place=identity(place),
                program=program,
                files=files_named(argv[1:], place),
                wall_s=timeout_s,
            )
            yield resolved, place, descriptor


async def run_command(context: ToolContext, plan: Plan) -> ToolResult:
    """Run the program that was approved, and nothing that has replaced it."""
    resolved: _Resolved = plan.work
    printed = Printed(context.live)
    # It sees the project and may print anything, also what it fetched.
    content = Content.of(Label.OUTPUT, [resolved.program.file.real]) | await context.marks.below()
    context.provenance.add(content)
    with ExitStack() as held:
        opened = _opened(context, resolved.argv, resolved.folder or ".", resolved.wall_s)
        now, place, descriptor = await to_its_end(partial(held.enter_context, opened))
        if now != resolved:
            raise ToolFailed(_changed(resolved, now), code="tool.changed")
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise ToolFailed("The turn was stopped before it was begun.", code="host.not_started")
        spec = HostSpec(
            argv=resolved.argv,
            program=resolved.program,
            descriptor=descriptor,
            folder=place,
            env=_environment(os.environ, resolved, context.reading.content),
            wall_s=float(resolved.wall_s),
        )
        status = await HostCommand(spec, context.children, printed.add).run()
    output = printed.whole()
    data, made = await asyncio.to_thread(output_of, status, output, _LOG.format(key=context.key))
    ok = status.state is JobState.SUCCEEDED
    return ToolResult(ok=ok, data=data, summary=how_it_ended(status, output), made=tuple(made), content=content)


def _environment(ours: Mapping[str, str], resolved: _Resolved, read: Content) -> dict[str, str]:
    """The command's environment. It labels messages sent by `ozzie ask` or a kernel: they are not a person's."""
    seen = {**host_environment(ours), "PWD": "/".join(filter(None, [resolved.root, resolved.folder]))}
    own = content_in(ours) | Content.of(Label.OUTPUT, [resolved.program.file.real])
    return with_sources(seen, read | own)


def _changed(resolved: _Resolved, now: _Resolved) -> str:
    if replace(now, files=resolved.files, place=resolved.place) != resolved:
        what = f"The program {spelled(resolved.argv[0])}"
    elif now.place != resolved.place:
        what = f"The folder {resolved.folder or 'of the project'}"
    else:
        what = "A file that the command names"
    return f"{what} has just changed, so nothing was run."


def _preview(resolved: _Resolved) -> Preview:
    program, place = resolved.program.file, "/".join(filter(None, [resolved.root, resolved.folder]))
    in_folder = quoted(f"{resolved.folder}/") if resolved.folder else "the project's folder"
    leads = f", which is {spelled(program.real)}" if program.real != program.path else ""
    lines = [
        *map(spelled, resolved.argv),
        "",
        f"Program: {spelled(program.path)}{leads}",
        f"Folder: {spelled(place)}",
        f"Ended after {elapsed(resolved.wall_s)} at the latest.",
        "It runs outside of the sandbox, as you: it can read, change, delete and send away whatever you can.",
    ]
    if any(not word.isascii() for word in resolved.argv):
        lines.append("Some letters are from other alphabets and may only look like the ones you expect.")
    return Preview(
        sentence=f"Run {quoted(program.path)} on this machine, in {in_folder}?",
        proof="\n".join(lines),
        shown="text",
        undo="Ozzie can't take back what it does.",
    )


TOOLS = (
    EffectTool(
        plan_command,
        run_command,
        ToolMeta(
            tool_id="host.run",
            name="host_command",
            side_effect=SideEffect.IRREVERSIBLE,
            risk_level=RiskLevel.HIGH,
            timeout_s=float(MAX_S + _ROOM_S),
            idempotency=Idempotency.NOT_SUPPORTED,
            categories=frozenset({Category.HOST_COMMAND}),
            targets=(Target("argv", TargetKind.COMMAND), Target("folder", TargetKind.PATH)),
            max_inline_chars=2 * SHOWN,
            brings=Label.OUTPUT,
            is_outbound=True,
            requires=frozenset({Capability.HOST}),
        ),
    ),
)
