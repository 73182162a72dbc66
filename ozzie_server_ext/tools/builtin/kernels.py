"""`kernel.list`, `kernel.run`, `kernel.inspect` and `notebook.run`: the kernels of the surrounding Jupyter Server.

Code in a kernel runs as the user, outside any sandbox, so a person is shown and asked about each piece of it.
"""

import posixpath
import re
from dataclasses import replace
from functools import partial
from typing import Annotated

import msgspec
from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Capability,
    Category,
    Idempotency,
    Made,
    RiskLevel,
    SideEffect,
    Target,
    TargetKind,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.jupyter.cells import CellKind, Show, index_of
from ozzie_server_ext.jupyter.kernels import LONGEST_NAME, Ended, KernelInfo, Ran, is_plain_name
from ozzie_server_ext.jupyter.outputs import pictures_of, raised_in, text_of
from ozzie_server_ext.render.text import line_count, quoted
from ozzie_server_ext.tools.base import (
    EffectTool,
    FunctionTool,
    Plan,
    Preview,
    ToolContext,
    ToolFailed,
    Unsettled,
    read_only,
)
from ozzie_server_ext.tools.builtin.commands import MAX_COMMAND, MAX_S, OUT_FOLDER, SHOWN, short_output
from ozzie_server_ext.tools.builtin.notebooks import CellId, Path, Version, as_read, read_at
from ozzie_server_ext.tools.builtin.writing import root_of
from ozzie_server_ext.tools.notebook.files import opened
from ozzie_server_ext.tools.notebook.text import content_of
from ozzie_server_ext.tools.outcome import count_lines

MAX_PICTURES = 20
NONE = "No kernel runs in this Jupyter server."
_NONE_HINT = "Kernels belong to the Jupyter Server that hosts Ozzie's gateway."
_ROOM_S = 30
"""Seconds beside the code itself: waiting for an idle kernel, and interrupting it."""
_SHORTEST = 4
"""Characters of the beginning of an id."""
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg"}
_UNSAFE = re.compile(r"[^\w.-]+")

Kernel = Annotated[
    str,
    Field(
        description="The kernel's id, or the beginning of it that no other has, or the path of its notebook.",
        min_length=1,
        max_length=1024,
    ),
]
Seconds = Annotated[int, Field(description="It is interrupted after so many seconds.", ge=1, le=MAX_S)]


class Bound(msgspec.Struct, frozen=True):
    """The target of an approval: this process of this kernel."""

    kernel: KernelInfo
    process: str


async def list_kernels(context: ToolContext) -> ToolResult:
    """List the live kernels of this Jupyter server: id, language, state, and the notebook that each belongs to."""
    found = await context.jupyter.kernels.list()
    if not found:
        return ToolResult(ok=True, data={"kernels": [], "note": f"{NONE} {_NONE_HINT}"}, summary="no kernels")
    kernels: list[Json] = [_listed(each) for each in found]
    summary = f"{len(found):,} kernel{'' if len(found) == 1 else 's'}"
    return ToolResult(ok=True, data={"kernels": kernels}, summary=summary)


async def plan_run(
    context: ToolContext,
    *,
    kernel: Kernel,
    code: Annotated[str, Field(description="A cell's code.", min_length=1, max_length=MAX_COMMAND)],
    timeout_s: Seconds = 60,
) -> Plan:
    """Run code in a live kernel of the user's, as a cell that stands in no notebook. It sees and changes the user's
    variables, and runs with all their rights, so the user is asked each time. To look at variables, use inspect_kernel;
    for code that needs none of them, python."""
    found = await find_kernel(context, kernel)
    bound = Bound(found, await context.jupyter.kernels.process(found.kernel_id))
    return Plan(
        args={"kernel": kernel, "code": code, "timeout_s": timeout_s},
        effect={"kernel": found.kernel_id, "process": bound.process, "name": found.name, "notebook": found.notebook},
        preview=partial(code_preview, found, code),
        work=bound,
    )


async def run(context: ToolContext, plan: Plan) -> ToolResult:
    """Run the code in the process that it was planned for."""
    bound: Bound = plan.work
    return result_of(bound.kernel, *await _run(context, plan, bound, str(plan.args["code"])))


async def _run(context: ToolContext, plan: Plan, bound: Bound, code: str) -> tuple[Ran, int]:
    timeout_s = int(str(plan.args["timeout_s"]))
    kernels, kernel_id = context.jupyter.kernels, bound.kernel.kernel_id
    show = context.live.output
    return await kernels.run(kernel_id, code, process=bound.process, timeout_s=float(timeout_s), show=show), timeout_s


class _CellWork(msgspec.Struct, frozen=True):
    path: str
    cell_id: str
    code: str
    bound: Bound


async def plan_run_cell(
    context: ToolContext, *, path: Path, cell: CellId, version: Version, timeout_s: Seconds = 60
) -> Plan:
    """Run a code cell of a notebook, which was read before, in the notebook's live kernel, and show its outputs below
    it as text and pictures. It runs with all the user's rights, so the user is asked each time."""
    args: JsonObject = {"path": path, "cell": cell, "version": version, "timeout_s": timeout_s}
    path, notebook = await read_at(context, path)
    found = as_read(notebook, cell, version)
    if found.kind is not CellKind.CODE or not found.source.strip():
        raise ToolFailed(f"The cell {cell} has no code.")
    kernel = await find_kernel(context, path)
    bound = Bound(kernel, await context.jupyter.kernels.process(kernel.kernel_id))
    number = index_of(cell, notebook) + 1
    return Plan(
        args=args,
        content=content_of(found),
        effect={
            "root": root_of(context),
            "path": path,
            "cell": cell,
            "version": found.version,
            "kernel": kernel.kernel_id,
            "process": bound.process,
        },
        writes=(f"{root_of(context)}/{path}",),
        preview=partial(code_preview, kernel, found.source, f"cell {number}"),
        work=_CellWork(path, cell, found.source, bound),
    )


async def run_cell(context: ToolContext, plan: Plan) -> ToolResult:
    """Run the cell in the process that it was planned for. Its outputs are shown below it if it has not changed;
    otherwise only the model reads them."""
    work: _CellWork = plan.work
    ran, timeout_s = await _run(context, plan, work.bound, work.code)
    result = result_of(work.bound.kernel, ran, timeout_s)
    shown = Show(cell_id=work.cell_id, was=work.code, outputs=ran.outputs, execution_count=ran.execution_count)
    try:
        done = await (await opened(context, work.path)).edit(shown)
        notes = [*done.notes]
    except OzzieError as error:
        notes = [f"Its outputs are not shown below the cell: {error}"]
    assert isinstance(result.data, dict)
    # The file gets no mark of its outputs: whoever reads outputs of a notebook gets the label from reading.
    return replace(result, data={**result.data, "cell": work.cell_id, "notes": [*notes]})


async def inspect_kernel(
    context: ToolContext,
    *,
    kernel: Kernel,
    name: Annotated[
        str | None,
        Field(description="One variable, to see more of it; without it, all are listed.", max_length=LONGEST_NAME),
    ] = None,
) -> ToolResult:
    """Look at the user's variables in a live Python kernel: name, type, size, a short value; of one variable more, such
    as a data frame's columns and first rows. Nothing of the user's is run or changed."""
    if name and not is_plain_name(name):
        raise ToolFailed(f"{quoted(name)} is no plain name of a variable; attributes and items can't be inspected.")
    found = await find_kernel(context, kernel)
    inspected = await context.jupyter.kernels.inspect(found.kernel_id, name or "")
    variables = inspected.get("variables")
    count = len(variables) if isinstance(variables, list) else 1
    summary = f"{count:,} variable{'' if count == 1 else 's'}"
    data: JsonObject = {"kernel": found.kernel_id, "notebook": found.notebook, **inspected}
    return ToolResult(ok=True, data=data, summary=summary, content=_content(found))


async def find_kernel(context: ToolContext, wanted: str) -> KernelInfo:
    """Find a kernel by id or notebook. Raises ToolFailed."""
    found = await context.jupyter.kernels.list()
    if not found:
        raise ToolFailed(f"{NONE} {_NONE_HINT}", code="kernel.none")
    path = posixpath.normpath(wanted).removeprefix("./")
    fitting = [each for each in found if each.kernel_id == wanted or (each.notebook and each.notebook == path)]
    if not fitting and len(wanted) >= _SHORTEST:
        fitting = [each for each in found if each.kernel_id.startswith(wanted)]
    if len(fitting) == 1:
        return fitting[0]
    there = ", ".join(f"{each.kernel_id[:8]} ({each.place})" for each in (fitting or found)[:10])
    if fitting:
        raise ToolFailed(f"Several kernels fit {quoted(wanted)}: {there}. Give the id.", code="kernel.several")
    raise ToolFailed(f"No kernel fits {quoted(wanted)}. There are: {there}.", code="kernel.unknown")


def code_preview(kernel: KernelInfo, code: str, what: str = "") -> Preview:
    """The card for running code; `what` it is within the sentence, by default its number of lines."""
    what = what or f"{line_count(count_lines(code))} of code"
    return Preview(
        sentence=f"Run {what} in {kernel.phrase}? It can do all that you can: change your variables and files, "
        "use the network, read your keys. No sandbox holds it.",
        proof=code,
        shown="text",
        undo="What it does can't be taken back.",
    )


def result_of(kernel: KernelInfo, ran: Ran, timeout_s: int) -> ToolResult:
    """Return what the model reads of a run. Raises ToolFailed if it did not run, and Unsettled if that is unknown."""
    place = kernel.phrase[:1].upper() + kernel.phrase[1:]
    match ran.ended:
        case Ended.NOT_BEGUN:
            raise ToolFailed(f"{place} returned the code because a cell before it failed. It was not run.")
        case Ended.QUEUED:
            raise Unsettled(
                f"{place} became busy with something else before the code began. The code is queued behind that and "
                "may still run."
            )
        case Ended.RUNS_ON:
            raise Unsettled(f"{place} was interrupted, and the code in it goes on all the same.")
        case _:
            pass
    printed = text_of(ran.outputs)
    pictures = pictures_of(ran.outputs)
    stem = f"{OUT_FOLDER}{_stem(kernel)}-{ran.execution_count or 'cell'}"
    made = [
        Made(
            name=f"{stem}{f'-{number}' if number > 1 else ''}.{_ENDINGS[mime]}",
            kind="image",
            mime=mime,
            content=content,
            told=True,
        )
        for number, (mime, content) in enumerate(pictures[:MAX_PICTURES], start=1)
    ]
    output, logs = short_output(printed, f"{stem}.log")
    made += logs
    data: JsonObject = {
        "kernel": kernel.kernel_id,
        "notebook": kernel.notebook,
        "execution_count": ran.execution_count,
        "output": output,
    }
    if raised := raised_in(ran.outputs):
        data["raised"] = raised[:1000]
    if ended := _ended(ran.ended, timeout_s):
        data["ended"] = ended
    if ran.is_cut:
        data["cut"] = "It showed more than is kept: some of its output is missing here."
    left_out: list[Json] = [*ran.left_out, *(["further pictures"] if len(pictures) > MAX_PICTURES else [])]
    if left_out:
        data["left_out"] = left_out
    return ToolResult(
        ok=ran.ended is Ended.DONE,
        data=data,
        summary=_summary(ran, printed, len(pictures)),
        made=tuple(made),
        content=_content(kernel),
    )


_ENDED = {
    Ended.TIMED_OUT: "It was interrupted after {timeout_s} s.",
    Ended.CUT: "It was interrupted because it showed too much.",
    Ended.STOPPED: "It was interrupted because the turn was stopped.",
    Ended.LOST: "The kernel ended, or was restarted, while it ran: its variables are gone.",
}


def _ended(ended: Ended, timeout_s: int) -> str:
    reason = _ENDED.get(ended, "").format(timeout_s=timeout_s)
    return f"{reason} What it did until then is done." if reason else ""


def _summary(ran: Ran, printed: str, pictures: int) -> str:
    if ran.ended not in (Ended.DONE, Ended.FAILED):
        early = {Ended.TIMED_OUT: "took too long", Ended.CUT: "showed too much", Ended.LOST: "the kernel ended"}
        return early.get(ran.ended, str(ran.ended))
    failed = ["failed"] if ran.ended is Ended.FAILED else []
    shown = [f"{pictures} picture{'' if pictures == 1 else 's'}"] if pictures else []
    lines = [line_count(count_lines(printed))] if printed else [] if shown else ["no output"]
    return " · ".join([*failed, *lines, *shown])


def _listed(kernel: KernelInfo) -> JsonObject:
    listed: JsonObject = {
        "kernel": kernel.kernel_id,
        "name": kernel.name,
        "language": kernel.language,
        "state": kernel.state,
        "notebook": kernel.notebook,
        "last_activity": kernel.last_activity,
    }
    if kernel.is_agent:
        listed["note"] = (
            "Ozzie's own: its cells are turns of an agent. inspect_kernel shows its variables; "
            "no code can be run in it."
        )
    return listed


def _stem(kernel: KernelInfo) -> str:
    name = posixpath.basename(kernel.notebook).removesuffix(".ipynb") if kernel.notebook else kernel.name
    return _UNSAFE.sub("-", name)[:80].strip(".-") or "kernel"


def _content(kernel: KernelInfo) -> Content:
    return Content.of(Label.OUTPUT, [kernel.place])


_LOOKS = read_only(
    tool_id="kernel.list",
    name="list_kernels",
    timeout_s=30.0,
    idempotency=Idempotency.NOT_SUPPORTED,
    max_inline_chars=2 * SHOWN,
    requires=frozenset({Capability.KERNELS}),
)

RUN = ToolMeta(
    tool_id="kernel.run",
    name="run_in_kernel",
    side_effect=SideEffect.IRREVERSIBLE,
    risk_level=RiskLevel.HIGH,
    categories=frozenset({Category.LIVE_KERNEL}),
    timeout_s=MAX_S + _ROOM_S,
    idempotency=Idempotency.NOT_SUPPORTED,
    max_inline_chars=2 * SHOWN,
    brings=Label.OUTPUT,
    requires=frozenset({Capability.KERNELS}),
)
"""The contract for all code in a live kernel."""
_RUN_CELL = replace(RUN, tool_id="notebook.run", name="run_cell", targets=(Target("path", TargetKind.PATH),))

TOOLS = (
    FunctionTool(list_kernels, _LOOKS),
    FunctionTool(inspect_kernel, replace(_LOOKS, tool_id="kernel.inspect", name="inspect_kernel", brings=Label.OUTPUT)),
    EffectTool(plan_run, run, RUN),
    EffectTool(plan_run_cell, run_cell, _RUN_CELL),
)
