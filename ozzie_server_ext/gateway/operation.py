"""One operation of the gateway, declared once: its input, its answers, who may use it, and its ways in.

REST, the OpenAPI document, the WebSocket and SPEC.md's tables read the same declaration, so bounds hold on every way
in.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache, cached_property
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec
from msgspec import structs

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import InputError, NotFound, PolicyError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.rest.shapes import Done, Download
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.tasks.projects import Project

if TYPE_CHECKING:
    from ozzie_server_ext.gateway.ws import WsHandler

_PARAMETER = re.compile(r"\{(\w+)\}")

Kernels: TypeAlias = Literal["none", "own session", "own task", "all"]
"""Which operations a kernel's token may use over the WebSocket; REST refuses it. "own session": the input's
`session_id`, also if left out, is the kernel's own. "own task": the task belongs to that session. "all": the function
itself checks the caller."""


class Call(msgspec.Struct, frozen=True):
    """A request's context. `gone` is set when the client closes the connection; `socket` is the WebSocket connection,
    if any."""

    state: GatewayState
    ozzie: Services
    principal: Principal
    gone: asyncio.Event = msgspec.field(default_factory=asyncio.Event)
    socket: "WsHandler | None" = None

    async def project(self, session_id: str | None = None, *, folder: str | None = None) -> Project:
        """Return the project of a session or of a folder; without either, the caller's: for a kernel that of its
        session, for an attached server that of its root folder, for anybody else the gateway's own.

        Raises NotFound for an unknown session, PolicyError for a kernel that names a folder, and as `Projects.at`.
        """
        if folder is not None:
            if self.principal.session_id is not None:
                raise PolicyError("This kernel may use its own session's project only.", code="policy.session")
            return await self.ozzie.projects.at(Path(folder))
        session = session_id or self.principal.session_id
        if session is not None:
            return await self.ozzie.projects.of(ids.SessionId(session))
        return await self.ozzie.projects.at(self.principal.root)


class Operation(msgspec.Struct, frozen=True, eq=False, dict=True):
    """One function that clients can call. Its signature declares the input and the answers, its docstring describes it.

    `rest` is "METHOD /path". Input fields named in the path come from there; the others from the query of a GET or the
    JSON body of a POST; a DELETE has none. An answer of None has no body and the status 204. `status` gives the status
    of answers other than 200, by class; `errors` are refusals beyond those of every operation with that method.

    `ws` is the name of the WebSocket method; all input fields are its parameters. `payload` makes the answer's payload
    if it differs from REST's.
    """

    run: Callable[[Call, Any], Awaitable[Any]]
    rest: str = ""
    ws: str = ""
    kernels: Kernels = "none"
    payload: Callable[[Any], JsonObject] | None = None
    errors: tuple[int, ...] = ()
    status: Mapping[type, int] = msgspec.field(default_factory=dict[type, int])
    waits_s: float = 0.0
    """Extra seconds that its answer may take."""
    attached: Callable[[GatewayState, JsonObject], JsonObject] | None = None
    """What an attached server makes of the owner's answer."""

    async def perform(self, call: Call, request: Any) -> Any:
        """Run the operation for this caller. Raises PolicyError if the caller may not, and what the function raises."""
        await self._expect_allowed(call, request)
        return await self.run(call, request)

    async def payload_for(self, call: Call, params: JsonObject) -> JsonObject:
        """Return the answer to a WebSocket request with these parameters. Raises as `perform`, NotFound, InputError."""
        answer = await self.perform(call, read_params(self, call, params))
        if self.payload is not None:
            return self.payload(answer)
        # a response says by itself that it is done
        return {} if answer is None or isinstance(answer, Done) else encode(answer)

    async def _expect_allowed(self, call: Call, request: Any) -> None:
        """Raise PolicyError if a kernel asks for more than it may, NotFound."""
        own = call.principal.session_id
        if own is None or self.kernels == "all":
            return
        if self.kernels == "own task":
            row = await call.ozzie.tasks.get(ids.TaskId(request.task_id))
            if row["session_id"] != own:
                raise PolicyError("This kernel may use tasks of its own session only.", code="policy.session")
        elif self.kernels == "none" or request.session_id != own:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def method(self) -> str:
        """The HTTP method; empty if REST doesn't have the operation."""
        return self.rest.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.rest.partition(" ")[2]

    @cached_property
    def request_type(self) -> type[msgspec.Struct]:
        """The class of the input."""
        _, parameter = inspect.signature(self.run).parameters
        return get_type_hints(self.run)[parameter]

    @cached_property
    def answers(self) -> dict[int, type]:
        """The class of the answer for each success status."""
        answer: Any = get_type_hints(self.run, include_extras=True)["return"]
        kinds = get_args(answer) if isinstance(answer, UnionType) else (answer,)
        return {self.status_of(kind): kind for kind in kinds}

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    @cached_property
    def beside_path(self) -> tuple[str, ...]:
        """The input fields that are query parameters or body fields."""
        return tuple(name for name in self.request_type.__struct_fields__ if name not in self.in_path)

    @cached_property
    def description(self) -> str:
        return inspect.cleandoc(self.run.__doc__ or "")

    @cached_property
    def refusals(self) -> tuple[int, ...]:
        """All refusal statuses, in order."""
        common = {400, 403, 503} | ({413, 415} if self.method == "POST" else set())
        not_there = {404} if self.in_path else set[int]()
        erased = {410} if "session_id" in self.request_type.__struct_fields__ else set[int]()
        return tuple(sorted({*common, *self.errors, *not_there, *erased}))

    @cached_property
    def downloads(self) -> bool:
        """Whether it answers with a file instead of JSON."""
        return Download in self.answers.values()

    def status_of(self, kind: type) -> int:
        return self.status.get(kind, 204 if kind is NoneType else 200)


def pattern(path: str) -> str:
    """Return a path as a regular expression for tornado's router."""
    return _PARAMETER.sub(r"(?P<\1>[^/]+)", path)


_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_SHOWN = 40
_UNIONS = (Union, UnionType)


class BadParameter(InputError):
    """A parameter or field with a bad value; the message names it."""

    code = "input.shape"


def read(operation: Operation, path: Mapping[str, str], query: Mapping[str, list[bytes]], body: JsonObject) -> Any:
    """Return a REST request's input.

    Raises NotFound if the path can't name anything, BadParameter otherwise.
    """
    given = _from_body(operation, query, body) if operation.method == "POST" else _from_query(operation, query)
    return _converted(operation, {**given, **path}, path)


_IDS = ("session_id", "task_id", "approval_id")


def read_params(operation: Operation, call: Call, params: JsonObject) -> Any:
    """Return a WebSocket request's input. Empty text counts as missing for optional fields; unknown fields are ignored,
    since a newer peer may send them. A missing `session_id` is the kernel's own session; else that of the connection's
    handshake or first message, unless the request names a session or a task in another way.

    Raises NotFound for an id that can't name anything, InputError if the session is missing, BadParameter otherwise.
    """
    optional = {
        "session_id",
        *(found.name for found in structs.fields(operation.request_type) if found.default is None),
    }
    given = {name: value for name, value in params.items() if value != "" or name not in optional}
    if call.principal.session_id is not None:
        given.setdefault("session_id", call.principal.session_id)
    elif call.socket is not None and call.socket.session_id and not given.keys() & {"session_name", "task_id"}:
        given.setdefault("session_id", call.socket.session_id)
    return _converted(operation, given, _IDS)


def _converted(operation: Operation, given: JsonObject, things: Collection[str]) -> Any:
    """Convert `given` to the operation's input. A bad name in one of `things` is not found."""
    try:
        return msgspec.convert(given, operation.request_type, strict=True)
    except msgspec.ValidationError as error:
        where, sentence = _sentence(operation.request_type, error)
        if where == "session_id" and where not in given:
            raise InputError("Which session? The parameter session_id is missing.", code="input.session") from None
        named = given.get(where)
        if where in things and isinstance(named, str):
            noun = where.removesuffix("_id")
            hint = f"List them with ozzie {noun}s list." if where in _IDS else ""
            raise NotFound(f"There is no {noun} {visible_label(named)[:_SHOWN]}.", hint=hint) from None
        raise BadParameter(sentence) from None


def _from_query(operation: Operation, query: Mapping[str, list[bytes]]) -> JsonObject:
    kinds = _kinds(operation.request_type)
    found: JsonObject = {}
    for name, values in query.items():
        if _is_of_the_cache(name, values):
            continue
        if name not in operation.beside_path:
            raise _unknown("parameter", name, operation.beside_path)
        base, many = kinds[name]
        read_values = [_value(name, base, value) for value in values]
        if not many and len(values) > 1:
            raise BadParameter(f"The parameter {name} was given more than once.")
        found[name] = read_values if many else read_values[0]
    return found


def _from_body(operation: Operation, query: Mapping[str, list[bytes]], body: JsonObject) -> JsonObject:
    for name, values in query.items():
        if not _is_of_the_cache(name, values):
            raise _unknown("parameter", name, ())
    for name in body:
        if name not in operation.beside_path:
            raise _unknown("field", name, operation.beside_path)
    kinds = _kinds(operation.request_type)
    return {name: _whole(value) if kinds[name][0] is int else value for name, value in body.items()}


def _whole(value: Json) -> Json:
    """Return the integer for a number such as 3.0 (JSON Schema 2020-12, Core §4.2.3)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_of_the_cache(name: str, values: list[bytes]) -> bool:
    """JupyterLab adds the time as a parameter without a value, to POSTs too, to get around caches."""
    return name.isdecimal() and values == [b""]


def _unknown(what: str, name: str, known: tuple[str, ...]) -> BadParameter:
    hint = f"There are: {', '.join(known)}." if known else f"There is no {what} at all here."
    return BadParameter(f'There is no {what} "{visible_label(name)[:_SHOWN]}" here.', hint=hint)


def _value(name: str, base: type, raw: bytes) -> Json:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadParameter(f"The parameter {name} is not UTF-8 text.") from None
    # Anything else stays text: the conversion then refuses it in words.
    if base is int and _INTEGER.fullmatch(text):
        return int(text)
    return {"true": True, "false": False}.get(text, text) if base is bool else text


@cache
def _kinds(request: type) -> dict[str, tuple[type, bool]]:
    """Return the plain type of each field, and whether it may be repeated."""
    return {name: _plain(hint) for name, hint in get_type_hints(request).items()}


def _plain(hint: Any) -> tuple[type, bool]:
    if get_origin(hint) in _UNIONS:
        (hint,) = (kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is tuple:
        return _plain(get_args(hint)[0])[0], True
    return (str if get_origin(hint) is Literal else hint), False


def _sentence(request: type[msgspec.Struct], error: msgspec.ValidationError) -> tuple[str, str]:
    """Return the name of the wrong field and a sentence about it."""
    text = str(error)
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", text):
        return missing[1], f"The field {missing[1]} is missing."
    place = _PLACE.search(text)
    where = place[1] if place else ""
    name = re.split(r"[.\[]", where)[0]
    if rule := _rules(request).get(name):
        return name, f"{name} must be {rule}."
    return name, f"{where}: {_PLACE.sub('', text).replace('`', '')}."


@cache
def _rules(request: type[msgspec.Struct]) -> dict[str, str]:
    """Describe in words what each field must be, if its type says so."""
    hints = get_type_hints(request, include_extras=True)
    return {name: rule for name in request.__struct_fields__ if (rule := _rule(hints[name]))}


def _rule(hint: Any) -> str:
    if get_origin(hint) in _UNIONS:
        return next(filter(None, map(_rule, get_args(hint))), "")
    if get_origin(hint) is tuple:
        return _rule(get_args(hint)[0])
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    if hint is bool:
        return "true or false"
    if get_origin(hint) is Annotated:
        base, *metas = get_args(hint)
        return _bounds(base, metas[0])
    return "text" if hint is str else ""


def _bounds(base: type, meta: msgspec.Meta) -> str:
    if base is int and meta.ge is not None:
        return f"a number from {meta.ge} to {meta.le}" if meta.le is not None else f"a number from {meta.ge} on"
    if base is str and meta.title:
        return meta.title
    return ""
