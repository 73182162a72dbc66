"""Facts about Ozzie itself: its settings, its secrets and its processes."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import BlobRef


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChanged(Fact):
    """The settings in force changed. `blob` holds them before any environment variable is put in, so no secret."""

    type: ClassVar[str] = "config.changed"
    version: str
    blob: BlobRef
    files: tuple[str, ...]
    previous: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretChanged(Fact):
    """A secret was set, replaced, removed or imported, or the whole vault was sealed anew or is opened otherwise; never
    with a value. `number` counts the changes of this `vault`; of what concerns all of it, `name` and `scope` are empty.
    It was done at `changed_at`, which may be long before it is recorded: no gateway has to run for it."""

    type: ClassVar[str] = "secret.changed"
    name: str
    scope: str
    version: int
    action: Literal["set", "replaced", "removed", "imported", "rekeyed", "protected"]
    by: str
    changed_at: str
    vault: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStarted(Fact):
    """A child process of a plane is up. It is recorded before the first call goes to it; `started` and `boot` tell it
    from a later process of the same number (`planes.identity`)."""

    type: ClassVar[str] = "worker.started"
    plane: str
    pid: int
    started: str = ""
    boot: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Fact):
    """A child process of a plane is gone, and its calls with it."""

    type: ClassVar[str] = "worker.lost"
    plane: str
    pid: int
    reason: str
