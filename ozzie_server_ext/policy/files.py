"""The files of rules: the system's, the user's, and the project's, which a person has to trust and which only tightens.

Whatever is wrong with one of them, no rule in it is passed over: until it is mended, nothing is allowed (THREATS 15).
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.config.jsonc import Place
from ozzie_server_ext.config.reading import ConfigError, content_of, is_there, parse_object
from ozzie_server_ext.config.trust import standing, trust
from ozzie_server_ext.config.validation import validate
from ozzie_server_ext.policy.rules import FindTool, PolicyText, Rule, compile_rule, failing_example, unknown_tools

SYSTEM_FILE = Path("/etc/ozzie/policy.jsonc")
PROJECT_FILE = Path(".ozzie/policy.jsonc")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFile:
    """One file: its rules, and what its author should know of them."""

    path: Path
    content: bytes
    rules: tuple[Rule, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The rules of all files that count. `ignored` are project files that nobody has trusted yet; `version` is that of
    all texts together, empty where there is none."""

    files: tuple[RuleFile, ...] = ()
    ignored: tuple[Path, ...] = ()
    rules: tuple[Rule, ...] = field(init=False)
    version: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(rule for file in self.files for rule in file.rules))
        digest = hashlib.sha256(b"".join(hashlib.sha256(file.content).digest() for file in self.files)).hexdigest()
        object.__setattr__(self, "version", digest[:16] if self.files else "")


def paths_of(home: Home, project: Path, system_file: Path = SYSTEM_FILE) -> tuple[Path, ...]:
    """Where rules may stand, the system's first."""
    return (system_file, home.policy_file, project / PROJECT_FILE)


def load(home: Home, project: Path, find: FindTool, *, system_file: Path = SYSTEM_FILE) -> Policy:
    """All rules that count; `find` knows the tools by their names.

    Raises ConfigError or JsoncError for a file that can't be taken, and for a trusted one of a project that has changed
    since: what it forbade must not be allowed by a change of the file.
    """
    files: list[RuleFile] = []
    ignored: list[Path] = []
    *own, projects = paths_of(home, project, system_file)
    files.extend(read(path, content_of(path), find) for path in own if is_there(path))
    if is_there(projects):
        content = content_of(projects)
        match standing(home, projects, content):
            case "trusted":
                files.append(read(projects, content, find, tightens_only=True))
            case "changed":
                raise ConfigError(
                    f"{projects}: the rules of this project have changed since they were trusted.",
                    hint=f"Read them, then run: ozzie policy trust {project}",
                )
            case "unknown":
                ignored.append(projects)
    return Policy(files=tuple(files), ignored=tuple(ignored))


def trust_rules(home: Home, project: Path, find: FindTool) -> RuleFile:
    """Let the rules of a project count, as they are now.

    Raises ConfigError or JsoncError where they can't be taken.
    """
    path = project / PROJECT_FILE
    content = content_of(path)
    found = read(path, content, find, tightens_only=True)
    trust(home, path, content)
    return found


def read(path: Path, content: bytes, find: FindTool, *, tightens_only: bool = False) -> RuleFile:
    """The rules in that content of a file. A project's own can only ask or deny.

    Raises ConfigError or JsoncError with place and reason.
    """
    document = parse_object(content, path)
    texts = validate(PolicyText, document.value, document.places).rules
    rules: list[Rule] = []
    warnings: list[str] = []
    seen: set[str] = set()
    for index, text in enumerate(texts):
        place = document.places["rules", index]
        if text.id in seen:
            raise _wrong(place, text.id, "another rule of this file has the same id")
        seen.add(text.id)
        if tightens_only and text.decision == "allow":
            raise _wrong(place, text.id, "the rules of a project can only ask or deny, never allow")
        try:
            rule = compile_rule(text, f"{place.file}, line {place.line}")
            wrong = failing_example(rule, text, find)
        except ValueError as error:
            wrong, rule = str(error), None
        if wrong or rule is None:
            raise _wrong(place, text.id, wrong)
        warnings.extend(
            f"{place.file}, line {place.line}: rule {text.id} names the tool {name}, which is not here now."
            for name in unknown_tools(text, find)
        )
        rules.append(rule)
    return RuleFile(path=path, content=content, rules=tuple(rules), warnings=tuple(warnings))


def _wrong(place: Place, rule: str, why: str) -> ConfigError:
    return ConfigError(f"{place}: rule {rule}: {why}.", hint="Correct the file there and try again.")
