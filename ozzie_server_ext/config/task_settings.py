"""The settings of what runs: how much at once, and what becomes of what gets nowhere (TK-7)."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class _Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TasksSettings(_Settings):
    """`max_running`: turns at once, of all sessions; in a session, one runs after the other."""

    max_running: int = Field(default=64, ge=1, le=1000)


class SkillsSettings(_Settings):
    """`dirs`: folders of skills of the user's own beside `$OZZIE_PATH/skills` (S3 F2). `max_parallel_steps`: steps at
    once, of all runs. An agent hands work over to skills at most `max_delegations` times in a task, and tasks do so at
    most `max_depth` deep."""

    dirs: tuple[Annotated[str, Field(min_length=1, max_length=4096)], ...] = ()
    max_parallel_steps: int = Field(default=16, ge=1, le=1000)
    max_delegations: int = Field(default=10, ge=0, le=1000)
    max_depth: int = Field(default=4, ge=0, le=16)


class WatchdogSettings(_Settings):
    """`after_s`: a task from which nothing came for so long is told of. Where nothing came for as long again, `action`
    is taken: nothing more (`remind`), the cheaper model at its next call (`degrade`), or its end (`cancel`). None
    looks at nothing."""

    after_s: float | None = Field(default=600.0, ge=10, le=7 * 24 * 3600)
    action: Literal["remind", "degrade", "cancel"] = "remind"
