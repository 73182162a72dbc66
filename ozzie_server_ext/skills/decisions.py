"""What is to be done next in a run of a skill, and how it may end."""

from dataclasses import dataclass

from ozzie_server_ext.skills.spec import Work
from ozzie_server_ext.skills.values import Output


@dataclass(frozen=True, slots=True)
class Begin:
    """An attempt is to be made at a step."""

    work: Work
    visit: int
    attempt: int


@dataclass(frozen=True, slots=True)
class Skip:
    """A step is not to be carried out."""

    step_id: str
    visit: int
    reason: str


@dataclass(frozen=True, slots=True)
class Broken:
    """A step can't begin: its condition can't be told."""

    work: Work
    visit: int
    message: str


@dataclass(frozen=True, slots=True)
class Done:
    """The run has its result."""

    output: Output


@dataclass(frozen=True, slots=True)
class Failed:
    """The run can't come to its result; `step_id` is the first step that failed, empty where it was none."""

    message: str
    step_id: str = ""


Next = Begin | Skip | Broken
Ended = Done | Failed
