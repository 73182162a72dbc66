"""The tools that come with Ozzie, one family per file."""

from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import (
    applying,
    calc,
    commands,
    files,
    finding,
    host,
    kernels,
    notebooks,
    notes,
    search,
    sessions,
    tasks,
    time,
    user,
    web,
    writing,
)


def builtin_tools() -> tuple[Tool, ...]:
    families = (
        *(calc, time, files, search, writing, applying),
        *(notebooks, commands, host, kernels, web, notes, tasks, sessions, user, finding),
    )
    return tuple(tool for family in families for tool in family.TOOLS)
