"""What one operation of the REST interface is: its place, its function, and what can be answered."""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from types import NoneType, UnionType
from typing import Any, Literal, get_args, get_type_hints

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.rest.artifact_shapes import Download
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState

_PARAMETER = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its caller. `gone` is set when the client has closed the connection."""

    state: GatewayState
    ozzie: Services
    principal: Principal
    gone: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(frozen=True, eq=False)
class Operation:
    """One method of one path. Its parameters, its body and its answers are what the function's signature says: the
    fields of the second argument that `path` names come from there, the others from the query of a GET, or from the
    JSON body of a POST; a DELETE has none. None is an answer without a body, 204. The docstring is its description.

    `status` is that of the answers that are not 200, by their class; `errors` are the refusals beyond those that every
    operation of its method can give.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    run: Callable[[Call, Any], Awaitable[Any]]
    errors: tuple[int, ...] = ()
    status: Mapping[type, int] = field(default_factory=dict[type, int])
    waits_s: float = 0.0
    """How much longer than others it may take to answer."""
    attached: Callable[[GatewayState, JsonObject], JsonObject] | None = None
    """What an attached server makes of the owner's answer."""

    @property
    def name(self) -> str:
        return self.run.__name__

    @cached_property
    def asked(self) -> type:
        """The dataclass of everything that can be asked."""
        _, parameter = inspect.signature(self.run).parameters
        return get_type_hints(self.run)[parameter]

    @cached_property
    def answers(self) -> dict[int, type]:
        """The class of the answer for each status that means success."""
        said: Any = get_type_hints(self.run, include_extras=True)["return"]
        kinds = get_args(said) if isinstance(said, UnionType) else (said,)
        return {self.status_of(kind): kind for kind in kinds}

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    @cached_property
    def beside_path(self) -> tuple[str, ...]:
        """The names of the parameters in the query, or of the fields in the body."""
        return tuple(found.name for found in fields(self.asked) if found.name not in self.in_path)

    @cached_property
    def description(self) -> str:
        return inspect.cleandoc(self.run.__doc__ or "")

    @cached_property
    def refusals(self) -> tuple[int, ...]:
        """Every status that means a refusal, in order."""
        common = {400, 403, 503} | ({413, 415} if self.method == "POST" else set())
        return tuple(sorted({*common, *self.errors, *({404} if self.in_path else ())}))

    @cached_property
    def downloads(self) -> bool:
        """Whether it answers a file instead of JSON."""
        return Download in self.answers.values()

    def status_of(self, kind: type) -> int:
        return self.status.get(kind, 204 if kind is NoneType else 200)


def pattern(path: str) -> str:
    """The regular expression of a path as tornado's router takes it."""
    return _PARAMETER.sub(r"(?P<\1>[^/]+)", path)
