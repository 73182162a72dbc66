"""When a rule applies: each condition that it states has to hold, and each says in words why it does not.

An ALLOW has to be sure: all that a call names must match, exactly as it is written. A rule that asks or denies has to
miss nothing: one match is enough, whatever the case of its letters, and what can't be read matches too. One that checks
is compiled both ways.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

from ozzie_server_ext.domain.toolmeta import Category, RiskLevel, SideEffect, ToolMeta
from ozzie_server_ext.policy.action import Action
from ozzie_server_ext.policy.globs import MANY, Glob, SequenceGlob, folded
from ozzie_server_ext.policy.hosts import Host, HostPattern
from ozzie_server_ext.policy.sources import SourcePattern, sources_of

T = TypeVar("T")

MAX_COMPONENTS = 32
"""Of a pattern for paths."""

Condition = Callable[[Action], str]
"""Why a rule does not apply to a call, in a few words; "" where the condition holds."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Names of tools, each an id, a name for the model, or a pattern over ids and names."""

    patterns: tuple[str, ...]

    def __call__(self, action: Action) -> str:
        if any(_names(pattern, action.meta) for pattern in self.patterns):
            return ""
        return f"{action.meta.tool_id} is not {_listed(self.patterns)}"

    def name(self, meta: ToolMeta) -> bool:
        """Whether the tool itself is named, and not only covered by a pattern."""
        return any(pattern in _all_names(meta) for pattern in self.patterns)


def side_effects(wanted: Iterable[SideEffect]) -> Condition:
    return _one_of("its side effect", tuple(wanted), lambda action: action.meta.side_effect)


def risks(wanted: Iterable[RiskLevel]) -> Condition:
    return _one_of("its risk", tuple(wanted), lambda action: action.meta.risk_level)


def channels(wanted: Iterable[str]) -> Condition:
    return _one_of("the channel", tuple(wanted), lambda action: action.caller.channel)


def users(wanted: Iterable[str]) -> Condition:
    return _one_of("the user", tuple(wanted), lambda action: action.caller.user)


def attended(wanted: bool) -> Condition:
    def condition(action: Action) -> str:
        if action.caller.attended is wanted:
            return ""
        return "somebody is there to be asked" if action.caller.attended else "nobody is there to be asked"

    return condition


def categories(wanted: Iterable[Category], *, sure: bool) -> Condition:
    """An ALLOW has to state all of them: a tool that sends and deletes is not allowed by a word on sending."""
    named = frozenset(wanted)

    def condition(action: Action) -> str:
        has = action.meta.categories
        if has and (has <= named if sure else has & named):
            return ""
        return f"its categories are {_listed(sorted(has)) or 'none'}"

    return condition


def projects(folders: Iterable[Path]) -> Condition:
    named = tuple(folders)

    def condition(action: Action) -> str:
        here = PurePosixPath(action.caller.project)
        if any(here.is_relative_to(folder) for folder in named):
            return ""
        return f"the project is {here}"

    return condition


def paths(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that no path can match."""
    globs = [_glob(_path_pattern(pattern), sure) for pattern in patterns]

    def matches(parts: tuple[str, ...]) -> bool:
        return any(glob.matches(parts) for glob in globs)

    return _targets("path", lambda action: action.paths if sure else action.folded_paths, matches, sure)


def hosts(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that is no host."""
    known = [HostPattern.of(pattern) for pattern in patterns]

    def matches(host: Host) -> bool:
        return any(pattern.matches(host) for pattern in known)

    return _targets("host", lambda action: action.hosts, matches, sure)


def commands(patterns: Iterable[Sequence[str]], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that names no program."""
    globs = [_glob(_command_pattern(words), sure) for words in patterns]

    def matches(words: tuple[str, ...]) -> bool:
        program, *rest = words
        # /usr/bin/git is git to who denies it; who allows git has said nothing of a program in another place.
        names = [program] if sure else [program, program.rsplit("/", 1)[-1]]
        return any(glob.matches((name, *rest)) for glob in globs for name in names)

    return _targets("command", lambda action: action.commands if sure else action.folded_commands, matches, sure)


def sources(patterns: Iterable[str], *, sure: bool) -> Condition:
    """What a call is made from. An ALLOW has to know all of it; of what nobody outside said, there is nothing to know.

    Raises ValueError for a pattern that is no source.
    """
    known = [SourcePattern.of(pattern) for pattern in patterns]

    def condition(action: Action) -> str:
        found = sources_of(action.reading.content)
        fits = [any(pattern.matches(source, sure=sure) for pattern in known) for source in found]
        if all(fits) if sure else any(fits):
            return ""
        strange = next((source for source, fit in zip(found, fits, strict=True) if not fit), "")
        return f"it is made from {strange}" if strange else "nothing that it is made from came from outside"

    return condition


def _targets(
    noun: str, named: Callable[[Action], tuple[T | None, ...]], matches: Callable[[T], bool], sure: bool
) -> Condition:
    def condition(action: Action) -> str:
        found = named(action)
        if not found:
            return f"the call names no {noun}"
        fits = [not sure if each is None else matches(each) for each in found]
        return "" if (all(fits) if sure else any(fits)) else f"its {noun} is another one"

    return condition


def _one_of(what: str, wanted: Sequence[T], found: Callable[[Action], T]) -> Condition:
    def condition(action: Action) -> str:
        here = found(action)
        return "" if here in wanted else f"{what} is {str(here) or 'not known'}"

    return condition


def _names(pattern: str, meta: ToolMeta) -> bool:
    names = _all_names(meta)
    return pattern in names or ("*" in pattern and any(map(Glob.of(pattern).matches, names)))


def _all_names(meta: ToolMeta) -> tuple[str, ...]:
    return (meta.tool_id, meta.name, *meta.further_names)


def _path_pattern(pattern: str) -> tuple[str, ...]:
    parts = PurePosixPath(pattern).parts
    if not parts or parts[0] in ("/", "//") or parts[0].startswith("~") or ".." in parts:
        raise ValueError(f'"{pattern}" matches no path: paths are relative to the project folder, as in "notes/**"')
    if len(parts) > MAX_COMPONENTS:
        raise ValueError(f"a pattern has at most {MAX_COMPONENTS} folders, and one has {len(parts)}")
    for part in parts:
        if MANY in part and part != MANY:
            raise ValueError(f'in "{pattern}", ** stands for whole folders: write it between slashes')
    return parts


def _command_pattern(words: Sequence[str]) -> tuple[str, ...]:
    if not words or words[0] == MANY:
        raise ValueError('a command begins with a program, as in ["git", "status"]')
    if any(MANY in word and word != MANY for word in words) or MANY in words[:-1]:
        raise ValueError("** stands at the end of a command, for all words that are left")
    return tuple(words)


def _glob(patterns: tuple[str, ...], sure: bool) -> SequenceGlob:
    return SequenceGlob.of(patterns if sure else tuple(map(folded, patterns)))


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
