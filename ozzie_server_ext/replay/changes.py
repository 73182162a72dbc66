"""What a replay tries in the place of what was in force: rules, a prompt, skills."""

from functools import cached_property
from pathlib import Path

import msgspec
from msgspec import structs

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import (
    ApprovalRequested,
    EventBody,
    InjectedTool,
    ModelCallStarted,
    SkillStarted,
    ToolCallDecided,
    ToolCallRequested,
    ToolsetInjected,
)
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.skills.as_tool import tool_id_of
from ozzie_server_ext.skills.library import SkillFile
from ozzie_server_ext.skills.library import read as read_skill
from ozzie_server_ext.tasks.workflows.skill_starts import planned


class Changes(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`policy` are rules, `prompt` is the text of SOUL.md, `skills` are skill files by the names of the skills, `texts`
    their contents."""

    policy: bytes | None = None
    prompt: str | None = None
    skills: dict[str, SkillFile] = msgspec.field(default_factory=dict[str, SkillFile])
    texts: dict[str, bytes] = msgspec.field(default_factory=dict[str, bytes])

    def comparable(self, body: EventBody) -> EventBody:
        """Return an event without what tells nothing but that something else is tried."""
        match body:
            case ToolCallDecided() if self.policy is not None:
                return structs.replace(body, rule="", reason="", place="", policy="")
            case ApprovalRequested() if self.policy is not None:
                return structs.replace(body, rule="", reason="", place="", known_from="")  # as contacts tell
            case SkillStarted(skill=skill) if skill in self.skills:
                return structs.replace(body, version="", file=BlobRef(""))
            case ToolsetInjected() if self.skills:
                tools = (structs.replace(tool, version="") if self._runs(tool) else tool for tool in body.tools)
                return structs.replace(body, tools=tuple(tools))
            case ToolCallRequested(tool_id=tool_id) if tool_id in self.tool_ids:
                return structs.replace(body, version="")
            case ModelCallStarted() if self.skills:  # what is in the set is an event of its own
                return structs.replace(body, tools="")
            case _:
                return body

    def _runs(self, tool: InjectedTool) -> bool:
        return tool.tool_id in self.tool_ids

    def revised(self, body: EventBody) -> EventBody:
        """Return what counts in the place of something that came from outside: the start of a run of a skill that is
        tried is one of its present file."""
        if not isinstance(body, SkillStarted) or body.skill not in self.skills:
            return body
        file = self.skills[body.skill]
        return structs.replace(
            body,
            kind=file.skill.type,
            version=file.version,
            file=BlobRef(f"sha256:{file.digest}"),
            steps=tuple(planned(file.skill)),
        )

    @property
    def are_any(self) -> bool:
        """Whether anything is tried."""
        return self.policy is not None or self.prompt is not None or bool(self.skills)

    @cached_property
    def tool_ids(self) -> frozenset[str]:
        """The ids of the tools that run the skills."""
        return frozenset(map(tool_id_of, self.skills))


def changes_of(*, policy: str | None = None, prompt: str | None = None, skills: tuple[str, ...] = ()) -> Changes:
    """Return changes from texts of files. Raises SkillError, ConfigError or JsoncError for a skill that is invalid,
    InputError for two of one name; rules are read with the tools that they name."""
    files: dict[str, SkillFile] = {}
    texts: dict[str, bytes] = {}
    for number, text in enumerate(skills, 1):
        content = text.encode()
        file = read_skill(Path(f"skill-{number}.jsonc"), content)
        name = file.skill.name
        if name in files:
            raise InputError(f'Two of the files are the skill "{name}".', hint="Try one at a time.", code="skill.twice")
        files[name], texts[name] = file, content
    return Changes(policy=None if policy is None else policy.encode(), prompt=prompt, skills=files, texts=texts)
