"""Which tools a turn is offered: all if they are few, otherwise those that fit the topic.

Pure: the same tools, settings and history give the same set, and within a turn it only grows. Providers cache the
prompt, and a model may have planned with a tool that it was shown.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

import msgspec

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.registry import ToolRegistry

FIND_ID, FIND_NAME = "tool.find", "find_tools"
"""The tool that finds the others. It is offered only if some were left out."""
OFFERED_AT_MOST = 40
BEST_FITTING = 5
"""A skill below this rank has little to do with the message."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")


class Offers(msgspec.Struct, frozen=True, kw_only=True):
    """What settings and rules say about a turn's tools: `at_most` at the start, the ids that are `always` among them,
    and the ids that are `denied` whatever their arguments. `pinned` replaces all of that with exactly these names: a
    skill's, or those of a graph that must run the same way each time. `skills=False` offers no skills."""

    at_most: int = OFFERED_AT_MOST
    always: tuple[str, ...] = ()
    denied: frozenset[str] = frozenset()
    pinned: tuple[str, ...] | None = None
    skills: bool = True


class SoFar(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a turn: the user's `message`; the ids `offered` to the model, in order; the names it `used` and
    `found`; and the names that the turn `before` used, since the user may continue that one in two words."""

    message: str = ""
    offered: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


def offered(index: ToolIndex, offers: Offers, so_far: SoFar) -> tuple[Tool, ...]:
    """Return the tools for a turn's next request. New ones come last, so that the provider's cache of the list stays
    valid.

    Raises InputError for an unknown pinned tool.
    """
    registry = index.registry
    if offers.pinned is not None:
        return tuple(tool for tool in pinned(registry, offers.pinned) if not tool.meta.is_unclassified)
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
    # Skills change from turn to turn: at the end, they leave the cached part before them unchanged.
    return tuple(sorted(chosen.values(), key=lambda tool: (bool(tool.meta.delegates_to), tool.meta.tool_id)))


def pinned(registry: ToolRegistry, names: Iterable[str]) -> tuple[Tool, ...]:
    """Return the tools of these names, in order, each once. Raises InputError for an unknown name."""
    found: dict[str, Tool] = {}
    for name in names:
        tool = registry.find(name)
        if tool is None:
            raise _unknown(registry, name)
        found[tool.meta.tool_id] = tool
    return tuple(found.values())


def allowed(tools: Iterable[Tool], offers: Offers) -> tuple[Tool, ...]:
    """Drop tools that the rules always deny, that only skill steps, messages or MCP clients call, or that nobody has
    classified."""
    return tuple(
        tool
        for tool in tools
        if tool.meta.tool_id not in offers.denied
        and tool.meta.is_for_models
        and not tool.meta.is_unclassified
        and (offers.skills or not tool.meta.delegates_to)
    )


def _fitting_skills(index: ToolIndex, offers: Offers, so_far: SoFar) -> tuple[Tool, ...]:
    """Return the skills that fit the turn: used, named, with a keyword in the message, or among its best matches."""
    registry = index.registry
    used = _resolved(registry, so_far.before + so_far.used + so_far.found)
    best = index.search(so_far.message)[:BEST_FITTING]
    mentioned = [tool for tool in registry.all() if tool.meta.delegates_to and _mentions(so_far.message, tool.meta)]
    wanted = (*used, *_mentioned_tools(registry, so_far.message), *mentioned, *best)
    return tuple(tool for tool in allowed(wanted, offers) if tool.meta.delegates_to)


def _mentions(message: str, meta: ToolMeta) -> bool:
    """Whether the message contains the skill's name or one of its keywords."""
    return _any_of((meta.delegates_to, *meta.tags)).search(message) is not None


@lru_cache(maxsize=1024)  # of words: those of skills, which every turn looks for
def _any_of(words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for any of the words, each whole."""
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)


def _chosen(index: ToolIndex, offers: Offers, so_far: SoFar, skills: dict[str, Tool]) -> dict[str, Tool]:
    """Choose among too many: always offered, used, then in the room left skills, named tools and best matches."""
    registry = index.registry
    wanted = offers.always + so_far.before + so_far.used + so_far.found
    chosen = _by_id(allowed(_resolved(registry, wanted), offers))
    chosen.pop(FIND_ID, None)
    others = (*_mentioned_tools(registry, so_far.message), *index.search(so_far.message))
    fitting = skills | _by_id(tool for tool in allowed(others, offers) if not tool.meta.delegates_to)
    fresh = [tool_id for tool_id in fitting if tool_id not in chosen and tool_id != FIND_ID]
    room = max(offers.at_most - 1 - len(chosen), 0)  # one is for the tool that finds the others
    return chosen | {tool_id: fitting[tool_id] for tool_id in fresh[:room]}


def _mentioned_tools(registry: ToolRegistry, message: str) -> tuple[Tool, ...]:
    """Return the tools whose exact names stand in the message."""
    return _resolved(registry, dict.fromkeys(name.rstrip(".-") for name in _NAME.findall(message)))


def _resolved(registry: ToolRegistry, names: Iterable[str]) -> tuple[Tool, ...]:
    """Return the tools of these names; unknown ones are skipped."""
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
