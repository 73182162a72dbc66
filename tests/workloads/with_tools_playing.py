"""Plays the tasks of `with_tools`: real servers in their sandbox and a real plugin, which a person has settled once."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace as changed

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.models.scripted import Use
from ozzie_server_ext.plugins.connections import Values
from ozzie_server_ext.plugins.effects import Effect
from ozzie_server_ext.plugins.manifest import McpText
from ozzie_server_ext.plugins.plugin_list import SettledPlugin, plugins_of, resettle
from ozzie_server_ext.plugins.servers import settle, write_own
from ozzie_server_ext.plugins.settling import proposed
from ozzie_server_ext.protocol.tool_host import ServerAccess
from tests.mcp_rig import tool_host
from tests.wasm_rig import Wat, plugin_folder
from tests.workloads.playing import Played, play_all
from tests.workloads.with_tools import WEATHER
from tests.workloads.workload import Asks, Workload

_CHANGES = ("add", "commit", "reset", "create_branch", "checkout")
_GIT = ("-c", "user.name=Ana", "-c", "user.email=ana@firm.example", "-c", "commit.gpgsign=false")


def play_with_tools(workloads: Iterable[Workload], folder: Path) -> list[Played]:
    """Each in a home and a project of its own, below `folder`, with a repository of its own."""
    settled = Home(folder / "settled")
    repo = (folder / "repo").resolve()
    _repository(repo)
    asyncio.run(_settle(settled, folder, repo))
    played: list[Played] = []
    for number, workload in enumerate(workloads):
        where = folder / str(number)
        shutil.copytree(settled.root, where / "0" / "home")
        shutil.rmtree(repo)
        _repository(repo)
        played += play_all([_placed(workload, str(repo))], where)
    return played


def _placed(workload: Workload, repo: str) -> Workload:
    """With the repository's path, in the message and in the calls."""

    def placed(use: Use) -> Use:
        return changed(use, arguments=json.loads(json.dumps(use.arguments).replace("{repo}", repo)))

    def at(asks: Asks) -> Asks:
        if callable(asks):
            return lambda seen: _all(asks(seen))
        return _all(asks)

    def _all(uses: Use | tuple[Use, ...]) -> Use | tuple[Use, ...]:
        return placed(uses) if isinstance(uses, Use) else tuple(map(placed, uses))

    return replace(
        workload, message=workload.message.replace("{repo}", repo), rounds=[at(each) for each in workload.rounds]
    )


def _repository(repo: Path) -> None:
    """Two commits, a change and a new file."""
    repo.mkdir()

    def git(*words: str) -> None:
        env = {"PATH": os.environ["PATH"], "HOME": str(repo), "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *_GIT, *words], cwd=repo, env=env, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    for days, words in ((365, "Count days"), (366, "Fix the leap day")):
        (repo / "days.py").write_text(f"DAYS = {days}\n")
        git("add", ".")
        git("commit", "-q", "-m", words)
    (repo / "days.py").write_text("DAYS = 400\n")
    (repo / "notes.txt").write_text("Ask Ben.\n")


async def _settle(home: Home, folder: Path, repo: Path) -> None:
    """What a person does once: add two servers and a plugin, and say what tools do."""
    home.create()
    async with tool_host(folder) as host:
        for name, module, access in (
            ("clock", "mcp_server_time", ServerAccess()),
            ("git", "mcp_server_git", ServerAccess(writes=(str(repo),))),
        ):
            how = McpText(command=sys.executable, args=("-m", module))
            values = Values(os.environ.get, folder)
            found = await proposed(
                home, host, name, how, how, access, None, lambda _, values=values: values, now=datetime.now(UTC)
            )
            tools = {
                tool: changed(each, effect=Effect.CHANGES if tool.removeprefix("git_") in _CHANGES else Effect.READS)
                for tool, each in found.settled.tools.items()
            }
            write_own(home, name, how)
            settle(home, name, changed(found.settled, tools=tools))
    parameters: dict[str, Any] = {"towns": {"type": "array", "items": {"type": "string"}, "required": True}}
    tool = {"name": "weather", "description": "Degrees of towns", "parameters": parameters}
    code = Wat().returns("weather", json.dumps(WEATHER)).code
    plugin_folder(home.plugins / "weather", code, name="weather", tools=[tool])
    plugin = plugins_of(home, folder).find("weather").found
    assert plugin is not None
    granted = SettledPlugin(digest=plugin.digest, granted_at=datetime.now(UTC))
    resettle(home, "weather", lambda _: granted)
