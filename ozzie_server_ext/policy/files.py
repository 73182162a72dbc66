"""The policy files: the system's, the user's, that of the rules that the user made on cards, and the project's, which a
person must trust and which can only tighten.

If a file is broken, none of its rules is skipped: until it is fixed, nothing is allowed. The classes of calls that come
with Ozzie are one more file, behind all others (docs/policy.md, Classes).
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ozzie_server_ext.config.files import is_one_of
from ozzie_server_ext.config.home import STANDING, Home
from ozzie_server_ext.config.jsonc import ConfigError, SourceLocation, content_if_there, content_of, parse_object
from ozzie_server_ext.config.trust import standing, trust, untrust
from ozzie_server_ext.config.validation import validate
from ozzie_server_ext.domain.toolmeta import TargetKind
from ozzie_server_ext.policy.conditions import Contacts
from ozzie_server_ext.policy.people import Contact, People, people_of
from ozzie_server_ext.policy.rules import (
    MAX_PATTERNS_IN_FILE,
    FindTool,
    PolicyText,
    Rule,
    compile_rule,
    failing_example,
    patterns_in,
    patterns_of,
    unknown_tools,
)

SYSTEM_FILE = Path("/etc/ozzie/policy.jsonc")
CLASSES = Path("classes.jsonc")
"""What the file of the classes is called, wherever Ozzie is installed."""
PROJECT_FILE = Path(".ozzie/policy.jsonc")


class RuleFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: its rules, its contacts, compiled, as patterns, and those of them with names, whether it wants no
    classes, and warnings for its author."""

    path: Path
    content: bytes
    rules: tuple[Rule, ...]
    contacts: Contacts | None = None
    vouched: Mapping[TargetKind, tuple[str, ...]] = {}
    named: tuple[Contact, ...] = ()
    is_strict: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules in force. `contacts` and, of them, the `people` that have names: none of a project's. `ignored` are
    untrusted project files; `version` covers all files, "" if there are none, and `asking` all but that of the rules
    made on cards (`policy.engine.Ruling`)."""

    files: tuple[RuleFile, ...] = ()
    ignored: tuple[Path, ...] = ()
    rules: tuple[Rule, ...] = field(init=False)
    contacts: tuple[Contacts, ...] = field(init=False, compare=False)
    people: People = field(init=False, compare=False)
    version: str = field(init=False)
    asking: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(rule for file in self.files for rule in file.rules))
        contacts = (file.contacts for file in self.files)
        object.__setattr__(self, "contacts", tuple(each for each in contacts if each is not None))
        object.__setattr__(self, "people", People(contact for file in self.files for contact in file.named))
        object.__setattr__(self, "version", _version(self.files))
        object.__setattr__(self, "asking", _version([file for file in self.files if file.path.name != STANDING]))


def _version(files: Sequence[RuleFile]) -> str:
    digest = hashlib.sha256(b"".join(hashlib.sha256(file.content).digest() for file in files)).hexdigest()
    return digest[:16] if files else ""


def classes_of(files: Sequence[RuleFile], content: bytes | None = None) -> tuple[RuleFile, ...]:
    """Return the file of the classes that apply beside these, unless one of them wants none. A class knows all contacts
    of the files. `content` is an earlier version's. No tool is known here: tests try the examples."""
    if any(file.is_strict for file in files):
        return ()
    if content is None:
        content = Path(__file__).with_name(str(CLASSES)).read_bytes()
    document = parse_object(content, CLASSES)
    texts = validate(PolicyText, document.value, document.places).rules
    vouched: dict[TargetKind, list[str]] = {}
    for file in files:
        for kind, patterns in file.vouched.items():
            vouched.setdefault(kind, []).extend(patterns)
    contacts = Contacts.of(vouched)
    rules = tuple(
        compile_rule(text, f"{CLASSES}, line {document.places['rules', at].line}", contacts=contacts, is_class=True)
        for at, text in enumerate(texts)
    )
    return (RuleFile(path=CLASSES, content=content, rules=rules),)


def paths_of(home: Home, project: Path, system_file: Path = SYSTEM_FILE) -> tuple[Path, ...]:
    """Return the possible policy files, the system's first, the project's last."""
    return (system_file, home.policy_file, home.standing_file, project / PROJECT_FILE)


def load(
    home: Home, project: Path, find: FindTool, *, system_file: Path = SYSTEM_FILE, instead: Path | None = None
) -> Policy:
    """Load all rules in force; `find` returns tools by name. `instead` is tried in place of the user's own file.

    Raises ConfigError or JsoncError for an invalid file, and for a trusted project file that has changed or is gone: a
    change must not allow what it forbade.
    """
    *own, projects = paths_of(home, project, system_file)
    found = {path: content_if_there(path) for path in own}
    if instead is not None:
        found = {instead if path == home.policy_file else path: content for path, content in found.items()}
        found[instead] = content_of(instead)
    files = [read(path, content, find) for path, content in found.items() if content is not None]
    content, ignored = _of_project(home, project, own)
    if content is not None:
        files.append(read(projects, content, find, tightens_only=True))
    return Policy(files=(*files, *classes_of(files)), ignored=(projects,) if ignored else ())


def _of_project(home: Home, project: Path, own: Iterable[Path]) -> tuple[bytes | None, bool]:
    """Return the content of the project's file if it is in force, and whether there is one that is not trusted. Trust
    is checked first: a project can't escape its trusted rules by a missing or unreadable file or by a link to the
    user's own rules. Raises ConfigError.
    """
    path = project / PROJECT_FILE
    if standing(home, path, None) == "unknown":
        # In the home folder, the user's own rules have the path of a project's.
        return None, os.path.lexists(path) and not is_one_of(path, own)
    content = content_if_there(path)
    if content is None:
        raise ConfigError(
            f"{path}: the rules of this project were trusted, and the file is gone.",
            hint=f"Put it back. Or, to go on without those rules, run: ozzie policy untrust {project}",
        )
    if standing(home, path, content) == "changed":
        raise ConfigError(
            f"{path}: the rules of this project have changed since they were trusted.",
            hint=f"Read them, then run: ozzie policy trust {project}",
        )
    return content, False


def trust_rules(home: Home, project: Path, find: FindTool, *, system_file: Path = SYSTEM_FILE) -> RuleFile:
    """Trust the rules of a project in their present version.

    Raises ConfigError or JsoncError if they are invalid, or are the user's own.
    """
    *own, path = paths_of(home, project, system_file)
    if is_one_of(path, own):
        raise ConfigError(
            f"{path}: these are not a project's rules, but your own or the system's.",
            hint="They count without being trusted.",
        )
    content = content_of(path)
    found = read(path, content, find, tightens_only=True)
    trust(home, path, content)
    return found


def untrust_rules(home: Home, project: Path) -> Path | None:
    """Withdraw the trust, even if the file is gone; return the file, or None if untrusted. Raises ConfigError."""
    path = project / PROJECT_FILE
    return path if untrust(home, path) else None


def read(path: Path, content: bytes, find: FindTool, *, tightens_only: bool = False) -> RuleFile:
    """Parse the rules of a file. A project's can only check, ask or deny, and lower nothing.

    Raises ConfigError or JsoncError with place and reason.
    """
    document = parse_object(content, path)
    policy = validate(PolicyText, document.value, document.places)
    texts = policy.rules
    is_of_cards = path.name == STANDING
    if is_of_cards and (policy.model_fields_set - {"rules"} or any(text.decision != "allow" for text in texts)):
        raise ConfigError(
            f"{document.places[()]}: has more than rules that allow.",
            hint="Put rules of your own into policy.jsonc beside it.",
        )
    patterns = sum(map(patterns_in, texts)) + patterns_of(policy.contacts)
    if patterns > MAX_PATTERNS_IN_FILE:
        raise ConfigError(
            f"{path}: has {patterns:,} patterns; at most {MAX_PATTERNS_IN_FILE:,} are taken, since each call is "
            "compared with all of them.",
            hint="Write fewer, for example one for a folder in place of one for each file in it.",
        )
    try:
        contacts = Contacts.of(policy.contacts.by_kind()) if policy.contacts.by_kind() else None
        named = policy.contacts.with_names()
        people = people_of(named)
    except ValueError as error:
        place = document.places["contacts",]
        raise ConfigError(f"{place}: contacts: {error}.", hint="Correct the file there and try again.") from None
    rules: list[Rule] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for index, text in enumerate(texts):
        place = document.places["rules", index]
        if text.id in seen:
            raise _wrong(place, text.id, "another rule of this file has the same id")
        seen.add(text.id)
        if tightens_only and text.decision == "allow":
            raise _wrong(place, text.id, "the rules of a project can only check, ask or deny, never allow")
        try:
            rule = compile_rule(
                text, f"{place.file}, line {place.line}", contacts=contacts, only_tightens=tightens_only
            )
            # An example of Ozzie's own making must not stop everything, such as for a project that is gone by now.
            wrong = "" if is_of_cards else failing_example(rule, text, find, people)
        except ValueError as error:
            raise _wrong(place, text.id, str(error)) from None
        if wrong:
            raise _wrong(place, text.id, wrong)
        warnings.extend(
            f"{place.file}, line {place.line}: rule {text.id} names the tool {name}, which is not here now."
            for name in unknown_tools(text, find)
        )
        rules.append(rule)
    return RuleFile(
        path=path,
        content=content,
        rules=tuple(rules),
        contacts=None if tightens_only else contacts,
        vouched={} if tightens_only else policy.contacts.by_kind(),
        named=() if tightens_only else named,
        is_strict=policy.profile == "strict",
        warnings=tuple(warnings),
    )


def _wrong(place: SourceLocation, rule: str, why: str) -> ConfigError:
    return ConfigError(f"{place}: rule {rule}: {why}.", hint="Correct the file there and try again.")
