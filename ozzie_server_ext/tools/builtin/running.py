"""`notebook.run`: running a cell of a notebook in its live kernel, and showing below it what it put out."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from pydantic import Field

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import Target, TargetKind, ToolResult
from ozzie_server_ext.jupyter.cells import CellKind, Show, index_of
from ozzie_server_ext.tools.base import EffectTool, Plan, ToolContext, ToolFailed
from ozzie_server_ext.tools.builtin.commands import MAX_S
from ozzie_server_ext.tools.builtin.kernels import RUN, Bound, code_preview, find_kernel, nobody_knows, result_of
from ozzie_server_ext.tools.builtin.notebooks import CellId, Path, Version, as_read, read_at
from ozzie_server_ext.tools.builtin.writing import root_of
from ozzie_server_ext.tools.notebook.files import opened
from ozzie_server_ext.tools.notebook.text import content_of


@dataclass(frozen=True, slots=True)
class _Work:
    path: str
    cell_id: str
    code: str
    bound: Bound


async def plan_run(
    context: ToolContext,
    *,
    path: Path,
    cell: CellId,
    version: Version,
    timeout_s: Annotated[int, Field(description="It is interrupted after so many seconds.", ge=1, le=MAX_S)] = 60,
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
        work=_Work(path, cell, found.source, bound),
    )


async def run(context: ToolContext, plan: Plan) -> ToolResult:
    """Run it in the process that it was planned for. What it put out is shown where the cell is still the one that
    was run; else only the model reads it."""
    work: _Work = plan.work
    timeout_s = int(str(plan.args["timeout_s"]))
    ran = await context.jupyter.kernels.run(
        work.bound.kernel.kernel_id,
        work.code,
        process=work.bound.process,
        timeout_s=float(timeout_s),
        show=context.live.output,
    )
    result = result_of(work.bound.kernel, ran, timeout_s)
    shown = Show(cell_id=work.cell_id, was=work.code, outputs=ran.outputs, execution_count=ran.execution_count)
    try:
        done = await (await opened(context, work.path)).edit(shown)
        notes = [*done.notes]
    except OzzieError as error:
        notes = [f"Its outputs do not stand below the cell: {error}"]
    assert isinstance(result.data, dict)
    # The file gets no mark of what came out: whoever reads outputs of a notebook is told so by the reading.
    return replace(result, data={**result.data, "cell": work.cell_id, "notes": [*notes]})


TOOLS = (
    EffectTool(
        plan_run,
        run,
        replace(RUN, tool_id="notebook.run", name="run_cell", targets=(Target("path", TargetKind.PATH),)),
        happened=nobody_knows,
    ),
)
