"""The tools that come with Ozzie, one family a file."""

from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import (
    applying,
    calc,
    commands,
    files,
    finding,
    gate,
    host,
    kernels,
    notebooks,
    notes,
    running,
    search,
    time,
    user,
    web,
    writing,
)


def builtin_tools() -> tuple[Tool, ...]:
    families = (
        *(calc, time, files, search, writing, applying),
        *(notebooks, commands, host, kernels, running, web, notes, user, finding, gate),
    )
    return tuple(tool for family in families for tool in family.TOOLS)
