"""The tools that come with Ozzie, one family a file. All of them only read, until there is a policy."""

from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import artifacts, calc, files, time


def builtin_tools() -> tuple[Tool, ...]:
    return (*calc.TOOLS, *time.TOOLS, *files.TOOLS, *artifacts.TOOLS)
