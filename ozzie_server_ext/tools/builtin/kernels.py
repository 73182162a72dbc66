"""`kernel.list`, `kernel.run` and `kernel.inspect`: the kernels of the Jupyter Server that the gateway runs in.

Code in a kernel runs as the user: no sandbox holds it, so each piece of it is shown and asked for.
"""

import posixpath
import re
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.content import Content, Label
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.domain.toolmeta import (
    Category,
    Idempotency,
    Made,
    RiskLevel,
    SideEffect,
    ToolMeta,
    ToolResult,
)
from ozzie_server_ext.jupyter.kernels import LONGEST_NAME, Ended, KernelInfo, Ran, is_plain_name
from ozzie_server_ext.jupyter.outputs import pictures_of, raised_in, text_of
from ozzie_server_ext.render.text import line_count, quoted
from ozzie_server_ext.tools.base import EffectTool, FunctionTool, Plan, Preview, ToolContext, ToolFailed, Unsettled
from ozzie_server_ext.tools.builtin.commands import MAX_COMMAND, MAX_S, OUT_FOLDER
from ozzie_server_ext.tools.outcome import count_lines

MAX_PICTURES = 20
NONE = "No kernel runs in this Jupyter server."
_NONE_HINT = "Kernels belong to the Jupyter Server that hosts Ozzie's gateway."
_ROOM_S = 30
"""For what is around the code itself: finding the kernel idle, and interrupting it."""
_SHOWN = 8000
"""In characters, of what code printed and the model reads at once: its beginning and its end."""
_SHORTEST = 4
"""Of the beginning of an id, in characters."""
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


@dataclass(frozen=True, slots=True)
class Bound:
    """What a yes is for: that process of that kernel."""

    kernel: KernelInfo
    process: str


async def list_kernels(context: ToolContext) -> ToolResult:
    """List the live kernels of this Jupyter server: id, language, state, and the notebook that each belongs to."""
    found = await context.jupyter.kernels.list()
    if not found:
        return ToolResult(ok=True, data={"kernels": [], "note": f"{NONE} {_NONE_HINT}"}, summary="no kernels")
    kernels: list[Json] = [_listed(each) for each in found]
    return ToolResult(ok=True, data={"kernels": kernels}, summary=_kernel_count(len(found)))


async def plan_run(
    context: ToolContext,
    *,
    kernel: Kernel,
    code: Annotated[str, Field(description="A cell's code.", min_length=1, max_length=MAX_COMMAND)],
    timeout_s: Annotated[int, Field(description="It is interrupted after so many seconds.", ge=1, le=MAX_S)] = 60,
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
    """Run it in the process that it was planned for."""
    bound: Bound = plan.work
    ran = await context.jupyter.kernels.run(
        bound.kernel.kernel_id,
        str(plan.args["code"]),
        process=bound.process,
        timeout_s=float(str(plan.args["timeout_s"])),
        show=context.live.output,
    )
    return result_of(bound.kernel, ran, int(str(plan.args["timeout_s"])))


async def nobody_knows(context: ToolContext, effect: JsonObject) -> bool | None:
    """Whether code did what it was to do, nobody can see from outside."""
    return None


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
        raise ToolFailed(f"{quoted(name)} is no plain name of a variable. Attributes and parts can't be looked at so.")
    found = await find_kernel(context, kernel)
    told = await context.jupyter.kernels.inspect(found.kernel_id, name or "")
    variables = told.get("variables")
    summary = _variable_count(len(variables)) if isinstance(variables, list) else "1 variable"
    data: JsonObject = {"kernel": found.kernel_id, "notebook": found.notebook, **told}
    return ToolResult(ok=True, data=data, summary=summary, content=_content(found))


async def find_kernel(context: ToolContext, wanted: str) -> KernelInfo:
    """Raises ToolFailed."""
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
    """`what` it is, within a sentence; how many lines of code, where it is not told."""
    what = what or f"{line_count(count_lines(code))} of code"
    return Preview(
        sentence=f"Run {what} in {kernel.said}? It can do all that you can: change your variables and files, "
        "use the network, read your keys. No sandbox holds it.",
        proof=code,
        shown="text",
        undo="What it does can't be taken back.",
    )


def result_of(kernel: KernelInfo, ran: Ran, timeout_s: int) -> ToolResult:
    """What the model reads of it. Raises ToolFailed where it was not run, and Unsettled where nobody knows."""
    said = kernel.said[:1].upper() + kernel.said[1:]
    match ran.ended:
        case Ended.NOT_BEGUN:
            raise ToolFailed(f"{said} gave the code back, because a cell before it failed. It was not run.")
        case Ended.QUEUED:
            raise Unsettled(
                f"{said} became busy with something else before the code began. The code stands behind that, and may "
                "still run."
            )
        case Ended.RUNS_ON:
            raise Unsettled(f"{said} was interrupted, and the code in it goes on all the same.")
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
    data: JsonObject = {
        "kernel": kernel.kernel_id,
        "notebook": kernel.notebook,
        "execution_count": ran.execution_count,
        "output": printed,
    }
    if len(printed) > _SHOWN:
        data["output"] = {"cut": True, "lines": count_lines(printed), "note": "Its beginning and end stand in `kept`."}
        made.append(Made(name=f"{stem}.log", kind="log", mime="text/plain", content=printed, shown=_SHOWN))
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


def _ended(ended: Ended, timeout_s: int) -> str:
    so_far = "What it did until then is done."
    match ended:
        case Ended.TIMED_OUT:
            return f"It was interrupted after {timeout_s} s. {so_far}"
        case Ended.CUT:
            return f"It was interrupted because it showed too much. {so_far}"
        case Ended.STOPPED:
            return f"It was interrupted because the turn was stopped. {so_far}"
        case Ended.LOST:
            return f"The kernel ended, or was restarted, while it ran: its variables are gone. {so_far}"
        case _:
            return ""


def _summary(ran: Ran, printed: str, pictures: int) -> str:
    match ran.ended:
        case Ended.DONE | Ended.FAILED:
            failed = ["failed"] if ran.ended is Ended.FAILED else []
            shown = [f"{pictures} picture{'' if pictures == 1 else 's'}"] if pictures else []
            lines = [line_count(count_lines(printed))] if printed else [] if shown else ["no output"]
            return " · ".join([*failed, *lines, *shown])
        case Ended.TIMED_OUT:
            return "took too long"
        case Ended.CUT:
            return "showed too much"
        case Ended.LOST:
            return "the kernel ended"
        case _:
            return str(ran.ended)


def _listed(kernel: KernelInfo) -> JsonObject:
    told: JsonObject = {
        "kernel": kernel.kernel_id,
        "name": kernel.name,
        "language": kernel.language,
        "state": kernel.state,
        "notebook": kernel.notebook,
        "last_activity": kernel.last_activity,
    }
    if kernel.is_agent:
        told["note"] = "Ozzie's own: its cells are turns of an agent. It can't be run in or looked at."
    return told


def _stem(kernel: KernelInfo) -> str:
    name = posixpath.basename(kernel.notebook).removesuffix(".ipynb") if kernel.notebook else kernel.name
    return _UNSAFE.sub("-", name)[:80].strip(".-") or "kernel"


def _content(kernel: KernelInfo) -> Content:
    return Content.of(Label.OUTPUT, [kernel.place])


def _kernel_count(number: int) -> str:
    return f"{number:,} kernel{'' if number == 1 else 's'}"


def _variable_count(number: int) -> str:
    return f"{number:,} variable{'' if number == 1 else 's'}"


_LOOKS = ToolMeta(
    tool_id="kernel.list",
    name="list_kernels",
    side_effect=SideEffect.NONE,
    risk_level=RiskLevel.LOW,
    timeout_s=30.0,
    idempotency=Idempotency.NOT_SUPPORTED,
    max_inline_chars=2 * _SHOWN,
)

RUN = ToolMeta(
    tool_id="kernel.run",
    name="run_in_kernel",
    side_effect=SideEffect.IRREVERSIBLE,
    risk_level=RiskLevel.HIGH,
    categories=frozenset({Category.LIVE_KERNEL}),
    timeout_s=MAX_S + _ROOM_S,
    idempotency=Idempotency.NOT_SUPPORTED,
    max_inline_chars=2 * _SHOWN,
    brings=Label.OUTPUT,
)
"""What holds for all code in a live kernel."""

TOOLS = (
    FunctionTool(list_kernels, _LOOKS),
    FunctionTool(inspect_kernel, replace(_LOOKS, tool_id="kernel.inspect", name="inspect_kernel", brings=Label.OUTPUT)),
    EffectTool(plan_run, run, RUN, happened=nobody_knows),
)
