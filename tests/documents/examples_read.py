"""The specification documents' own examples, as tests read them. README.md has the table."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import parse
from ozzie_server_ext.config.loader import Config, load
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.operation import Call, read
from ozzie_server_ext.gateway.routes import REST
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.skills.library import SkillFile
from ozzie_server_ext.skills.library import read as read_skill
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.integration.tasks.runs_rig import Runs
from tests.replay.histories import (
    SESSION,
)

HERE = Path(__file__).parent
EXAMPLES = HERE / "examples"
TOOLS = ToolRegistry(builtin_tools())
KERNEL = Principal(kind="kernel", name="ana", kernel_id="k", session_id=SESSION)
WAIT_S = 20


def text(name: str) -> str:
    return (EXAMPLES / name).read_text()


def jsonc(name: str) -> Any:
    return parse(text(name), name).value


def quoted(name: str) -> list[str]:
    """What stands between backticks, in order."""
    return re.findall(r"`([^`]+)`", text(name))


def template(name: str) -> dict[str, Any]:
    """The fields of a YAML template, below its one name."""
    (fields_,) = yaml.safe_load(text(name)).values()
    return fields_


def one_of(alternatives: str) -> list[str]:
    return alternatives.split("|")


def without_gaps(line: str) -> str:
    """A line in which `...` stands for fields that the document leaves open, without them."""
    return line.replace(", ... }", " }").replace("{ ... }", "{}")


def skill(name: str) -> SkillFile:
    return read_skill(Path(name), text(name).encode())


async def rest(runs: Runs, route: str, **path: str) -> Any:
    """The answer to a GET, as JSON."""
    operation = next(each for each in REST if each.rest == f"GET {route}")
    call = Call(GatewayState(), runs.ozzie, Principal(kind="user", name="ana"))
    return encode(await operation.perform(call, read(operation, path, {}, {})))


def put_skill(runs: Runs, name: str) -> None:
    """Put a skill among the user's own; the models that it may name are the script."""
    (runs.ozzie.home.root / "skills" / name).write_text(text(name))
    aliases = {"haiku": "offline", "sonnet": "offline"}
    runs.ozzie.home.config_file.write_text(json.dumps({"models": {"aliases": aliases}}))


def configured(folder: Path, config: str, **env: str) -> Config:
    home = Home(folder / "home")
    home.create()
    home.config_file.write_text(config)
    return load(home, env=env, system_file=folder / "no-system-file")
