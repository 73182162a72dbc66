"""The conditions of rules: functions that say why a rule does not apply to a call.

A rule that allows must be certain (`sure`): all that the call names must match, and what can't be read matches nothing.
A rule that asks or denies must miss nothing: one match is enough, case doesn't matter, and what can't be read matches.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from ozzie_server_ext.domain.toolmeta import Category, Said, TargetKind, ToolMeta
from ozzie_server_ext.policy.decision import Action, Paths, Words
from ozzie_server_ext.policy.leads import has_formula, has_new
from ozzie_server_ext.policy.patterns import MANY, Glob, HostPattern, SequenceGlob, folded
from ozzie_server_ext.policy.people import Texts
from ozzie_server_ext.policy.sources import ANY, SourcePattern
from ozzie_server_ext.policy.targets import Amount, Named, Values, normal_form, recipient

T = TypeVar("T")

MAX_COMPONENTS = 32
"""Components of a path pattern."""

Condition = Callable[[Action], str]
"""Returns why a rule does not apply to a call, in a few words; "" if the condition holds."""


class Tools(msgspec.Struct, frozen=True):
    """Names of tools: ids, names for the model, or patterns for both."""

    patterns: tuple[str, ...]

    def __call__(self, action: Action) -> str:
        names = _all_names(action.meta)
        for pattern in self.patterns:
            if pattern in names or (ANY in pattern and any(map(Glob.of(pattern).matches, names))):
                return ""
        return f"{action.meta.tool_id} is not {', '.join(self.patterns)}"

    def name(self, meta: ToolMeta) -> bool:
        """Whether the tool is named itself, not only matched by a pattern."""
        return any(pattern in _all_names(meta) for pattern in self.patterns)


class Recipients(msgspec.Struct, frozen=True):
    """`ana@firm.example`: that address; `*@firm.example`: all at that domain; `*@*.firm.example`: all below it."""

    addresses: frozenset[str]
    domains: frozenset[str]
    below: tuple[str, ...]

    @classmethod
    def of(cls, patterns: Iterable[str]) -> "Recipients":
        """Raises ValueError with a message for the author of a pattern."""
        addresses: list[str] = []
        domains: list[HostPattern] = []
        for pattern in patterns:
            if pattern.startswith(f"{ANY}@"):
                domains.append(HostPattern.of(pattern.removeprefix(f"{ANY}@")))
            elif ANY not in pattern and (address := recipient(pattern)) is not None:
                addresses.append(address)
            else:
                raise ValueError(f'"{pattern}" is no address: write ana@firm.example, or *@firm.example for all')
        if any(each.network for each in domains):
            raise ValueError("behind the @ of an address stands a name, not an IP network")
        return cls(
            frozenset(addresses),
            frozenset(each.host for each in domains if not each.below),
            tuple(f".{each.host}" for each in domains if each.below),
        )

    def all(self, values: Values) -> bool:
        """Whether every one is meant."""
        others = values.by_domain.keys() - self.domains
        return all(values.by_domain[domain] <= self.addresses or self._is_below(domain) for domain in others)

    def any(self, values: Values) -> bool:
        """Whether at least one is meant."""
        if not self.addresses.isdisjoint(values.read) or not self.domains.isdisjoint(values.by_domain):
            return True
        return bool(self.below) and any(map(self._is_below, values.by_domain))

    def _is_below(self, domain: str) -> bool:
        return bool(self.below) and domain.endswith(self.below)


class Names(msgspec.Struct, frozen=True):
    """Names of one kind, or patterns for them. Without `sure`, case does not matter."""

    whole: frozenset[str]
    globs: tuple[Glob, ...]

    @classmethod
    def of(cls, kind: TargetKind, patterns: Iterable[str], *, sure: bool) -> "Names":
        """Raises ValueError for a pattern that no name of that kind can match."""
        known: list[str] = []
        for pattern in patterns:
            read = normal_form(kind, pattern)
            if read is None:
                raise ValueError(f'"{pattern}" is no {kind.value}')
            known.append(read if sure else folded(read))
        return cls(
            frozenset(each for each in known if ANY not in each), tuple(Glob.of(each) for each in known if ANY in each)
        )

    def all(self, values: Values) -> bool:
        """Whether every one is meant, as it is written."""
        return all(map(self._fits, values.read - self.whole))

    def any(self, values: Values) -> bool:
        """Whether at least one is meant, in any case."""
        return not self.whole.isdisjoint(values.folded) or (bool(self.globs) and any(map(self._fits, values.folded)))

    def _fits(self, name: str) -> bool:
        return any(glob.matches(name) for glob in self.globs)


class Contacts(msgspec.Struct, frozen=True):
    """Whom the author of a file of rules vouches for, by the kind of target: as a rule that allows compares them, and
    as one that asks or denies does."""

    known: Mapping[TargetKind, tuple[Recipients | Names, Recipients | Names]]

    @classmethod
    def of(cls, patterns: Mapping[TargetKind, Iterable[str]]) -> "Contacts":
        """Raises ValueError with a message for the author of a pattern."""
        return cls(
            {kind: (_known(kind, each, sure=True), _known(kind, each, sure=False)) for kind, each in patterns.items()}
        )

    def has(self, named: Named) -> bool:
        """Whether something that a call names is surely one of them."""
        if named.value is None or named.kind not in self.known:
            return False
        return self.known[named.kind][0].all(Values.by_kind((named,))[named.kind])

    def hold_all(self, action: Action) -> bool:
        """Whether all that a call names are surely among them."""
        return all(
            not values.has_unread and kind in self.known and self.known[kind][0].all(values)
            for kind, values in _contacts_in(action)
        )

    def hold_none(self, action: Action) -> bool:
        """Whether surely none that a call names is among them."""
        return not any(
            values.has_unread or (kind in self.known and self.known[kind][1].any(values))
            for kind, values in _contacts_in(action)
        )


def _known(kind: TargetKind, patterns: Iterable[str], *, sure: bool) -> Recipients | Names:
    return Recipients.of(patterns) if kind is TargetKind.RECIPIENT else Names.of(kind, patterns, sure=sure)


_CONTACTS = (TargetKind.RECIPIENT, TargetKind.ACCOUNT, TargetKind.PERSON)
"""What can be a contact."""


def _contacts_in(action: Action) -> list[tuple[TargetKind, Values]]:
    return [(kind, action.values[kind]) for kind in _CONTACTS if kind in action.values]


def attended(wanted: bool) -> Condition:
    def condition(action: Action) -> str:
        if action.caller.attended is wanted:
            return ""
        return "somebody is there to be asked" if action.caller.attended else "nobody is there to be asked"

    return condition


def categories(wanted: Iterable[Category], *, sure: bool) -> Condition:
    """An ALLOW must state all categories: a rule about sending does not allow a tool that sends and deletes. To state
    none means a tool that has none."""
    allowed = frozenset(wanted)

    def condition(action: Action) -> str:
        has = action.meta.categories
        if not allowed and not has:
            return ""
        if has and (has <= allowed if sure else has & allowed):
            return ""
        return f"its categories are {', '.join(sorted(has)) or 'none'}"

    return condition


def projects(names: Iterable[str]) -> Condition:
    folders = [folder_named(name) for name in names]

    def condition(action: Action) -> str:
        here = PurePosixPath(action.caller.project)
        if any(here.is_relative_to(folder) for folder in folders):
            return ""
        return f"the project is {here}"

    return condition


def project(name: str) -> Condition:
    """One project, and none that lies within it: there, other files have the same names. Links are not followed: a
    call's project has none, and one that comes later leads to another."""
    if not name.startswith("/"):
        raise ValueError(f'"{name}" is not a folder: write it from the root')
    folder = PurePosixPath(name)

    def condition(action: Action) -> str:
        is_here = PurePosixPath(action.caller.project) == folder
        return "" if is_here else f"the project is {action.caller.project or 'not known'}"

    return condition


class PathPatterns(msgspec.Struct, frozen=True):
    """Patterns for paths. Most begin with the name of a folder, and are compared with the paths below it alone; of the
    others, each is compared only if its longest piece stands in one of the paths. `trees`: folders of which all is
    meant, as in `notes/**`."""

    trees: frozenset[str]
    below: Mapping[str, tuple[SequenceGlob, ...]]
    anywhere: tuple[tuple[str, SequenceGlob], ...]

    @classmethod
    def of(cls, patterns: Iterable[str], *, sure: bool) -> "PathPatterns":
        """Raises ValueError for a pattern that no path can match."""
        trees: set[str] = set()
        below: dict[str, list[SequenceGlob]] = {}
        anywhere: list[tuple[str, SequenceGlob]] = []
        for pattern in patterns:
            parts = _path_pattern(pattern)
            if not sure:
                parts = tuple(map(folded, parts))
            if ANY in parts[0]:
                longest = max((piece for part in parts for piece in part.split(ANY)), key=len)
                anywhere.append((longest, SequenceGlob.of(parts)))
            elif parts[1:] == (MANY,):
                trees.add(parts[0])
            else:
                below.setdefault(parts[0], []).append(SequenceGlob.of(parts))
        return cls(frozenset(trees), {first: tuple(globs) for first, globs in below.items()}, tuple(anywhere))

    def all(self, paths: Paths) -> bool:
        """Whether every path is meant."""
        anywhere = [glob for piece, glob in self.anywhere if piece in paths.text]
        return all(
            first in self.trees
            or all(any(glob.matches(parts) for glob in (*self.below.get(first, ()), *anywhere)) for parts in group)
            for first, group in paths.by_first.items()
        )

    def any(self, paths: Paths) -> bool:
        """Whether at least one path is meant."""
        if not self.trees.isdisjoint(paths.by_first):
            return True
        for first, globs in self.below.items():
            group = paths.by_first.get(first, ())
            if group and any(glob.matches(parts) for glob in globs for parts in group):
                return True
        for piece, glob in self.anywhere:
            if piece in paths.text and any(glob.matches(parts) for group in paths.by_first.values() for parts in group):
                return True
        return False


def paths(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that no path can match."""
    known = PathPatterns.of(patterns, sure=sure)

    def condition(action: Action) -> str:
        if not action.paths:
            return "the call names no path"
        here = action.exact_paths if sure else action.folded_paths
        holds = not here.has_unread and known.all(here) if sure else here.has_unread or known.any(here)
        return "" if holds else "its path is another one"

    return condition


def hosts(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that is no host."""
    known = [HostPattern.of(pattern) for pattern in patterns]
    return _targets(
        "host", lambda action: action.hosts, lambda host: any(pattern.matches(host) for pattern in known), sure
    )


def commands(patterns: Iterable[Sequence[str]], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that names no program."""
    globs = [_glob(_command_pattern(words), sure) for words in patterns]

    def matches(words: tuple[str, ...]) -> bool:
        program, *rest = words
        # Denying git covers /usr/bin/git too; allowing git says nothing about a program elsewhere.
        names = [program] if sure else [program, program.rsplit("/", 1)[-1]]
        return any(glob.matches((name, *rest)) for glob in globs for name in names)

    return _targets("command", lambda action: action.commands if sure else action.folded_commands, matches, sure)


def recipients(patterns: Iterable[str], *, sure: bool) -> Condition:
    """Raises ValueError for a pattern that is no address."""
    return _named(TargetKind.RECIPIENT, _known(TargetKind.RECIPIENT, patterns, sure=sure), sure)


def names(kind: TargetKind, patterns: Iterable[str], *, sure: bool) -> Condition:
    """Accounts, people, calendars, channels or objects. Raises ValueError for a pattern that no name can match."""
    return _named(kind, _known(kind, patterns, sure=sure), sure)


def in_contacts(contacts: Contacts, wanted: bool, *, sure: bool) -> Condition:
    """Those that a call names are contacts; all of them for a rule that must be certain, one for another. Unless
    `wanted`: none of them is one, for another rule not all."""

    def condition(action: Action) -> str:
        if not _contacts_in(action):
            return "the call names nobody"
        if wanted:
            holds = contacts.hold_all(action) if sure else not contacts.hold_none(action)
            return "" if holds else "not everybody that it names is a contact" if sure else "it names no contact"
        holds = contacts.hold_none(action) if sure else not contacts.hold_all(action)
        return "" if holds else "it names a contact" if sure else "everybody that it names is a contact"

    return condition


_NEVER_LEFT_OUT = frozenset({TargetKind.RECIPIENT, TargetKind.ACCOUNT, TargetKind.AMOUNT})
"""A call that does not say which of these may mean any."""


def _said(action: Action, words: Words, texts: Texts) -> list[bool]:
    """Return for each of what a call names whether these words name it. A thing may be meant by a person whose it is,
    such as the sender of a mail, but not one of the user's own that would be changed. `texts`: those of `words`."""

    def is_said(named: Named) -> bool:
        if named.value is None:
            return False
        others = (each for each in named.known_as if each.kind is named.kind or not action.meta.own_data)
        names = (Said(named.kind, named.value), *others)
        return any(each in words.named or texts.name(each, wholly=action.meta.own_data) for each in names)

    return [*map(is_said, action.named)]


def said(wanted: bool, *, sure: bool) -> Condition:
    """A person's own words name all that the call names, for a rule that must be certain, and some of it for another.
    Unless `wanted`: they name none of it, for another rule not all of it."""

    def condition(action: Action) -> str:
        if not action.named:
            return "the call names nothing"
        words = action.reading.words
        found = _said(action, words, Texts(words.texts))
        # Words name no path, address or command that a rule could compare.
        unread = any(each.value is None for each in action.named) or bool(
            action.paths or action.hosts or action.commands
        )
        if wanted:
            kinds = {each.kind for each in action.named}
            is_whole = all(target.kind in kinds for target in action.meta.targets if target.kind in _NEVER_LEFT_OUT)
            holds = all(found) and is_whole and not unread if sure else any(found) or unread
            return "" if holds else "your own words do not name all that it names" if sure else "they name none of it"
        holds = not any(found) and not unread if sure else not all(found) or unread
        return "" if holds else "your own words name some of it" if sure else "your own words name all of it"

    return condition


def in_message(*, sure: bool) -> Condition:
    """The message that led to the call names all that it names, and has its paths; some of that for a rule that need
    not be certain."""

    def condition(action: Action) -> str:
        message = action.reading.message
        texts = Texts(message.texts)
        found = [
            *_said(action, message, texts),
            *(parts is not None and parts in texts.paths for parts in action.paths),
        ]
        if not found or action.hosts or action.commands:
            return "" if found and not sure else "the call names nothing that a message could name"
        kinds = {each.kind for each in action.named}
        is_whole = all(target.kind in kinds for target in action.meta.targets if target.kind in _NEVER_LEFT_OUT)
        return "" if (all(found) and is_whole if sure else any(found)) else "your message does not name all of it"

    return condition


def once(wanted: bool) -> Condition:
    """No other call of the tool was made for the message."""

    def condition(action: Action) -> str:
        names = {action.meta.name, action.meta.tool_id, *action.meta.further_names}
        is_first = names.isdisjoint(action.reading.made)
        if is_first is wanted:
            return ""
        return "it was called for this message before" if wanted else "it was not called for this message before"

    return condition


def reads_named(wanted: bool) -> Condition:
    """The message names everything that the model has read by name, or the call reaches those whose it is: then its
    text can be made from nothing else. What is public counts as named."""

    def condition(action: Action) -> str:
        message = action.reading.message
        reached = {Said(each.kind, each.value) for each in action.named if each.value and each.kind in _REACHED}
        words, texts = Words(message.named | reached, message.texts), Texts(message.texts)
        reads = action.reading.reads()
        are_named = all(
            read is not None and all(_said(read, words, texts)) and texts.paths.issuperset(read.paths) for read in reads
        )
        if are_named is wanted:
            return ""
        return "your message does not name all that was read" if wanted else "your message names all that was read"

    return condition


_REACHED = frozenset({TargetKind.RECIPIENT, TargetKind.PERSON})


def new_in_text(wanted: bool) -> Condition:
    """Whether a text of the call leads its reader somewhere (`policy.leads`) that no message of the person's names.
    What goes along with the call may always."""

    def condition(action: Action) -> str:
        carried = any(action.args.get(argument) for argument in action.meta.carries)
        has = carried or has_new(action.texts(), action.reading.words.texts)
        if has is wanted:
            return ""
        return "a text of it leads where your words do not" if has else "its texts lead nowhere new"

    return condition


def formulas(wanted: bool) -> Condition:
    """Whether a text of the call has what a program runs that opens it as a table."""

    def condition(action: Action) -> str:
        if any(map(has_formula, action.texts())) is wanted:
            return ""
        return "no text of it has a formula" if wanted else "a text of it has a formula"

    return condition


def own_data(wanted: bool) -> Condition:
    """Whether a call changes only the person's own data, which nobody else sees."""

    def condition(action: Action) -> str:
        reaches = any(not each.of and each.kind in _REACHED for each in action.meta.reaches)
        if (action.meta.own_data and not reaches) is wanted:
            return ""
        return "others see what it changes" if wanted else "it changes the user's own data alone"

    return condition


def names_nothing(wanted: bool) -> Condition:
    """Whether a call names nothing: no file, address or command either."""

    def condition(action: Action) -> str:
        nothing = not (action.named or action.paths or action.hosts or action.commands)
        return "" if nothing is wanted else "the call names something" if wanted else "the call names nothing"

    return condition


def _named(kind: TargetKind, known: Recipients | Names, sure: bool) -> Condition:
    matches = known.all if sure else known.any

    def condition(action: Action) -> str:
        values = action.values.get(kind)
        if values is None:
            return f"the call names no {kind.value}"
        holds = not sure if values.has_unread else matches(values)
        return "" if holds else f"its {kind.value} is another one"

    return condition


def amounts(limit: Amount, *, above: bool, sure: bool) -> Condition:
    """Amounts up to a limit, or above it. One in another currency is on neither side, for certain."""

    def found(action: Action) -> tuple[Amount | None, ...]:
        return tuple(each.amount for each in action.named if each.kind is TargetKind.AMOUNT)

    def matches(amount: Amount) -> bool:
        if amount.currency != limit.currency:
            return not sure
        return (amount.value > limit.value) is above

    return _targets("amount", found, matches, sure)


def spent_today(limit: Amount, *, above: bool, sure: bool) -> Condition:
    """What the calls of the day have spent, this one included, up to a limit, or above it. An amount in another
    currency is on neither side, for certain."""

    def condition(action: Action) -> str:
        amounts = [each.amount for each in action.named if each.kind is TargetKind.AMOUNT]
        if not amounts:
            return "the call has no amount"
        here = [each.value for each in amounts if each is not None and each.currency == limit.currency]
        if len(here) < len(amounts):
            return "an amount of it is in another currency, or can't be read" if sure else ""
        total = sum(here, action.spent.get(limit.currency, Decimal()))
        return "" if (total > limit.value) is above else f"it would be {Amount(limit.currency, total)} today"

    return condition


def sources(patterns: Iterable[str], *, sure: bool) -> Condition:
    """The sources of a call's content. An ALLOW must cover all of them. Raises ValueError for an invalid pattern."""
    known = [SourcePattern.of(pattern) for pattern in patterns]

    def condition(action: Action) -> str:
        found = action.reading.content.completed().sources
        matched = [any(pattern.matches(source, sure=sure) for pattern in known) for source in found]
        if all(matched) if sure else any(matched):
            return ""
        unmatched = next((source for source, is_match in zip(found, matched, strict=True) if not is_match), "")
        return f"it is made from {unmatched}" if unmatched else "nothing that it is made from came from outside"

    return condition


def _targets(
    noun: str, targets: Callable[[Action], tuple[T | None, ...]], matches: Callable[[T], bool], sure: bool
) -> Condition:
    def condition(action: Action) -> str:
        found = targets(action)
        if not found:
            return f"the call names no {noun}"
        matched = [not sure if each is None else matches(each) for each in found]
        return "" if (all(matched) if sure else any(matched)) else f"its {noun} is another one"

    return condition


def one_of(what: str, found: Callable[[Action], T], wanted: Sequence[T]) -> Condition:
    def condition(action: Action) -> str:
        here = found(action)
        return "" if here in wanted else f"{what} is {str(here) or 'not known'}"

    return condition


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
        raise ValueError("** is allowed only at the end of a command, for all remaining words")
    return tuple(words)


def _glob(patterns: tuple[str, ...], sure: bool) -> SequenceGlob:
    return SequenceGlob.of(patterns if sure else tuple(map(folded, patterns)))


def folder_named(name: str) -> Path:
    try:
        folder = Path(name).expanduser()
    except RuntimeError:
        raise ValueError(f'"{name}" names a home folder that is not there') from None
    if not folder.is_absolute():
        raise ValueError(f'"{name}" is not a folder: write it from the root, or with ~')
    try:
        return folder.resolve()
    except (OSError, RuntimeError):  # RuntimeError before Python 3.13
        raise ValueError(f'"{name}" can\'t be followed: its links lead in a circle, or its name is too long') from None
