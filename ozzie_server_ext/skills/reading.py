"""A skill from the bytes of its file: every complaint names file, line and column (TK-3)."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ozzie_server_ext.config.jsonc import Path as Key
from ozzie_server_ext.config.jsonc import Place
from ozzie_server_ext.config.reading import ConfigError, parse_object
from ozzie_server_ext.config.validation import line_of, validate
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.skills.checks import Complaint, complaints
from ozzie_server_ext.skills.spec import TYPES, FsmSkill, SimpleSkill, Skill, WorkflowSkill

_HINT = "Correct the file there and try again."
_MODELS: Mapping[str, type[SimpleSkill] | type[WorkflowSkill] | type[FsmSkill]] = {
    "simple": SimpleSkill,
    "workflow": WorkflowSkill,
    "fsm": FsmSkill,
}


class SkillError(ConfigError):
    """A skill's file can't be taken; each line of the message names file, line, column and key."""

    code = "skill.invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillFile:
    """A skill, where it stands, and the hash of its file (SHA-256)."""

    skill: Skill
    path: Path
    digest: str
    places: Mapping[Key, Place]

    @property
    def version(self) -> str:
        """That hash, in 16 digits."""
        return self.digest[:16]

    def error(self, found: Iterable[Complaint], hint: str = _HINT) -> SkillError | None:
        """What is wrong with it by what somebody else knows, such as which tools there are."""
        lines = _lines(found, self.places)
        return SkillError("\n".join(lines), hint=hint) if lines else None


def read(path: Path, content: bytes) -> SkillFile:
    """The skill in a file, which holds together in itself. Raises SkillError, ConfigError or JsoncError."""
    document = parse_object(content, path)
    assert isinstance(document.value, dict)
    model = _MODELS[_type_of(document.value, document.places)]
    try:
        skill = validate(model, document.value, document.places)
    except ConfigError as error:
        raise SkillError(str(error), hint=error.hint) from None
    file = SkillFile(skill=skill, path=path, digest=hashlib.sha256(content).hexdigest(), places=document.places)
    if error := file.error(complaints(skill)):
        raise error
    return file


def _type_of(tree: Mapping[str, Json], places: Mapping[Key, Place]) -> str:
    for key, type_ in (("steps", "workflow"), ("states", "fsm")):
        if key in tree and "type" not in tree:
            raise SkillError(f'{line_of((key,), places)} a skill with "{key}" says "type": "{type_}".', hint=_HINT)
    said = tree.get("type", "simple")
    if isinstance(said, str) and said in _MODELS:
        return said
    kinds = ", ".join(f'"{each}"' for each in TYPES)
    raise SkillError(f"{line_of(('type',), places)} must be one of {kinds}; it is {said!r}.", hint=_HINT)


def _lines(found: Iterable[Complaint], places: Mapping[Key, Place]) -> list[str]:
    lines: list[str] = []
    for complaint in found:
        path = complaint.path
        while path and path not in places:  # what is not written stands where it would be
            path = path[:-1]
        end = "" if complaint.sentence.endswith("?") else "."
        lines.append(f"{line_of(path, places)} {complaint.sentence}{end}")
    return lines
