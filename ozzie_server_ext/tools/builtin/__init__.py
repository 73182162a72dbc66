"""The tools that come with Ozzie, one family a file."""

from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import artifacts, calc, files, notes, time, user, writing


def builtin_tools() -> tuple[Tool, ...]:
    return (*calc.TOOLS, *time.TOOLS, *files.TOOLS, *writing.TOOLS, *artifacts.TOOLS, *notes.TOOLS, *user.TOOLS)
