"""Which tools a turn is offered: all where they are few, else what fits what the turn is about.

Pure: the same tools, offers and history always give the same set, and with what was offered before, it only grows. A
provider caches the prompt, and a model may have planned with a tool that it was shown.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.registry import ToolRegistry

FIND_ID, FIND_NAME = "tool.find", "find_tools"
"""The tool by which the others are found. It is offered where something was left out, and nowhere else."""
OFFERED_AT_MOST = 40
BEST_FITTING = 5
"""A skill that stands behind so many others has little to do with what was said."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """What settings and rules say of a turn's tools: with how many it begins `at_most`, which are `always` among them,
    and which are `denied` whatever their arguments, by their ids. `pinned` names exactly those that are offered, in the
    place of all of that: a skill's, or those of a graph that is to run the same way each time. Without
    `skills`, none of these is offered."""

    at_most: int = OFFERED_AT_MOST
    always: tuple[str, ...] = ()
    denied: frozenset[str] = frozenset()
    pinned: tuple[str, ...] | None = None
    skills: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SoFar:
    """What a turn has said and done: the user's `message`; the ids of the tools that it was `offered`, in that order;
    the names of those that its model asked for (`used`) and of those that it was told of (`found`); and the names of
    those that the turn `before` it used, which the user may go on with in two words."""

    message: str = ""
    offered: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def offered(index: ToolIndex, offers: Offers, so_far: SoFar) -> tuple[Tool, ...]:
    """The tools of a turn's next request. Those that came later stand behind the others: so what a provider has cached
    of the list stays good.

    Raises InputError where a pinned tool is not there.
    """
    registry = index.registry
    if offers.pinned is not None:
        return pinned(registry, offers.pinned)
    if so_far.offered:
        begun = _resolved(registry, so_far.offered)
        later = _by_id(allowed(_resolved(registry, so_far.used + so_far.found), offers))
        new = later.keys() - {FIND_ID, *(tool.meta.tool_id for tool in begun)}
        return (*begun, *(later[tool_id] for tool_id in sorted(new)))
    every = allowed((tool for tool in registry.all() if tool.meta.tool_id != FIND_ID), offers)
    tools = _by_id(tool for tool in every if not tool.meta.delegates_to)
    skills = _by_id(_fitting_skills(index, offers, so_far)) if len(tools) < len(every) else {}
    chosen = tools | skills if len(tools) + len(skills) <= offers.at_most else _chosen(index, offers, so_far, skills)
    if len(chosen) < len(every):
        chosen |= _by_id(allowed(_resolved(registry, (FIND_ID,)), offers))
    # Skills change from turn to turn: behind the others, they leave what a provider has cached of those as it is.
    return tuple(sorted(chosen.values(), key=lambda tool: (bool(tool.meta.delegates_to), tool.meta.tool_id)))


def pinned(registry: ToolRegistry, names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these names, in that order, each once. Raises InputError for one that is not there."""
    found: dict[str, Tool] = {}
    for name in names:
        tool = registry.find(name)
        if tool is None:
            raise _unknown(registry, name)
        found[tool.meta.tool_id] = tool
    return tuple(found.values())


def allowed(tools: Iterable[Tool], offers: Offers) -> tuple[Tool, ...]:
    """Without those that the rules deny whatever they are called with, and those that only steps of skills call."""
    return tuple(
        tool
        for tool in tools
        if tool.meta.tool_id not in offers.denied
        and not tool.meta.for_skills
        and (offers.skills or not tool.meta.delegates_to)
    )


def _fitting_skills(index: ToolIndex, offers: Offers, so_far: SoFar) -> tuple[Tool, ...]:
    """The skills that have to do with the turn: that were used, that the user named, one of
    whose words they said, or that stand among what fits best what they said."""
    registry = index.registry
    used = _resolved(registry, so_far.before + so_far.used + so_far.found)
    best = index.search(so_far.message)[:BEST_FITTING]
    said = [tool for tool in registry.all() if tool.meta.delegates_to and _says(so_far.message, tool.meta)]
    wanted = (*used, *_named(registry, so_far.message), *said, *best)
    return tuple(tool for tool in allowed(wanted, offers) if tool.meta.delegates_to)


def _says(message: str, meta: ToolMeta) -> bool:
    """Whether the message has the name of the skill in it, or one of the words that it is started by."""
    words = (meta.delegates_to, *meta.tags)
    return any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message, re.IGNORECASE) for word in words)


def _chosen(index: ToolIndex, offers: Offers, so_far: SoFar, skills: dict[str, Tool]) -> dict[str, Tool]:
    """Of more than are offered: what every turn has, what was used, and as far as there is room, what the user named,
    and what fits best what they said. Of the skills, those."""
    registry = index.registry
    wanted = offers.always + so_far.before + so_far.used + so_far.found
    chosen = _by_id(allowed(_resolved(registry, wanted), offers))
    chosen.pop(FIND_ID, None)
    others = (*_named(registry, so_far.message), *index.search(so_far.message))
    fitting = skills | _by_id(tool for tool in allowed(others, offers) if not tool.meta.delegates_to)
    fresh = [tool_id for tool_id in fitting if tool_id not in chosen and tool_id != FIND_ID]
    room = max(offers.at_most - 1 - len(chosen), 0)  # one is for the tool that finds the others
    return chosen | {tool_id: fitting[tool_id] for tool_id in fresh[:room]}


def _named(registry: ToolRegistry, message: str) -> tuple[Tool, ...]:
    """Those that the message names, to the letter."""
    return _resolved(registry, dict.fromkeys(name.rstrip(".-") for name in _NAME.findall(message)))


def _resolved(registry: ToolRegistry, names: Iterable[str]) -> tuple[Tool, ...]:
    """One that is not there any more, or not yet, is passed over."""
    return tuple(_by_id(tool for name in names if (tool := registry.find(name)) is not None).values())


def _by_id(tools: Iterable[Tool]) -> dict[str, Tool]:
    return {tool.meta.tool_id: tool for tool in tools}


def _unknown(registry: ToolRegistry, name: str) -> InputError:
    names = [each for tool in registry.all() for each in (tool.meta.tool_id, tool.meta.name, *tool.meta.further_names)]
    near = get_close_matches(name, names, n=1, cutoff=0.0)
    return InputError(
        f'There is no tool "{name[:64]}".',
        hint=f'The nearest is "{near[0]}".' if near else "There are no tools at all.",
        code="tool.unknown",
    )
