"""An operation of the gateway, declared once: what is asked, what is answered, who may, and the ways in.

REST, its OpenAPI document, the WebSocket and SPEC.md's tables read the same declaration, so bounds hold on every way.
"""

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

import msgspec

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.errors import InputError, NotFound, PolicyError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.gateway.access import Principal
from ozzie_server_ext.gateway.rest.shapes import Done, Download
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState
from ozzie_server_ext.protocol.codec import encode
from ozzie_server_ext.render.text import visible_label

if TYPE_CHECKING:
    from ozzie_server_ext.gateway.ws import WsHandler

_PARAMETER = re.compile(r"\{(\w+)\}")

Kernels: TypeAlias = Literal["none", "own session", "own task", "all"]
"""What a kernel's token may use an operation for, over the WebSocket; REST refuses it. "own session": the input's
`session_id` is the kernel's own, also where it is left out. "own task": the task belongs to that session. "all": the
function itself looks who asks."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with its caller. `gone` is set when the client has closed the connection; `socket` is the connection
    of a request over the WebSocket."""

    state: GatewayState
    ozzie: Services
    principal: Principal
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    socket: "WsHandler | None" = None


@dataclass(frozen=True, eq=False)
class Operation:
    """One function that clients can call. Its parameters and its answers are what the function's signature says, its
    docstring is the description.

    `rest` is "METHOD /path". The fields of the function's second argument that the path names come from there, the
    others from the query of a GET, or from the JSON body of a POST; a DELETE has none. An answer of None has no body
    and the status 204. `status` is that of the answers that are not 200, by their class; `errors` are the refusals
    beyond those that every operation of its method can give.

    `ws` is the name of the WebSocket method, whose parameters are all fields. `payload` makes the payload of the answer
    where it is another one than REST's.
    """

    run: Callable[[Call, Any], Awaitable[Any]]
    rest: str = ""
    ws: str = ""
    kernels: Kernels = "none"
    payload: Callable[[Any], JsonObject] | None = None
    errors: tuple[int, ...] = ()
    status: Mapping[type, int] = field(default_factory=dict[type, int])
    waits_s: float = 0.0
    """How much longer than others it may take to answer."""
    attached: Callable[[GatewayState, JsonObject], JsonObject] | None = None
    """What an attached server makes of the owner's answer."""

    async def perform(self, call: Call, asked: Any) -> Any:
        """Carry it out for this caller. Raises PolicyError for a caller who may not, and what the function raises."""
        await self._expect_allowed(call, asked)
        return await self.run(call, asked)

    async def payload_for(self, call: Call, params: JsonObject) -> JsonObject:
        """The payload for these parameters of a WebSocket request. Raises as `perform`, NotFound, and InputError."""
        answer = await self.perform(call, read_params(self, call.principal, params))
        if self.payload is not None:
            return self.payload(answer)
        # A response says by itself that it is done.
        return {} if answer is None or isinstance(answer, Done) else encode(answer)

    async def _expect_allowed(self, call: Call, asked: Any) -> None:
        """Raises PolicyError for a kernel that asks for more than it may, NotFound."""
        own = call.principal.session_id
        if own is None or self.kernels == "all":
            return
        if self.kernels == "own task":
            row = await call.ozzie.tasks.get(ids.TaskId(asked.task_id))
            if row["session_id"] != own:
                raise PolicyError("This kernel may use tasks of its own session only.", code="policy.session")
        elif self.kernels == "none" or asked.session_id != own:
            raise PolicyError("This kernel may use its own session only.", code="policy.session")

    @property
    def name(self) -> str:
        return self.run.__name__

    @property
    def method(self) -> str:
        """The HTTP method; empty where REST does not have it."""
        return self.rest.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.rest.partition(" ")[2]

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


_INTEGER = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_PLACE = re.compile(r" - at `\$\.?(.*)`$")
_SHOWN = 40
_UNIONS = (Union, UnionType)


class BadParameter(InputError):
    """A parameter or field that can't be taken; the message names it."""

    code = "input.shape"


def read(operation: Operation, path: Mapping[str, str], query: Mapping[str, list[bytes]], body: JsonObject) -> Any:
    """What the request asks, as the operation's class of that.

    Raises NotFound for a path that can't name anything, BadParameter for the rest.
    """
    given = _from_body(operation, query, body) if operation.method == "POST" else _from_query(operation, query)
    return _converted(operation, {**given, **path}, path)


_IDS = ("session_id", "task_id", "approval_id")


def read_params(operation: Operation, principal: Principal, params: JsonObject) -> Any:
    """What a WebSocket request asks, as the operation's class of that. An empty text counts as left out where a field
    may be; fields that the operation does not have are passed over, as a newer peer may send them.

    Raises NotFound for an id that can't name anything, BadParameter for the rest, InputError where it is not said which
    session is meant.
    """
    optional = {"session_id", *(found.name for found in fields(operation.asked) if found.default is None)}
    given = {name: value for name, value in params.items() if value != "" or name not in optional}
    if principal.session_id is not None:
        given.setdefault("session_id", principal.session_id)
    return _converted(operation, given, _IDS)


def _converted(operation: Operation, given: JsonObject, things: Collection[str]) -> Any:
    """`given` as the operation's class. What stands in one of `things` names something: what can't is not found."""
    try:
        return msgspec.convert(given, operation.asked, strict=True)
    except msgspec.ValidationError as error:
        where, sentence = _sentence(operation.asked, error)
        if where == "session_id" and where not in given:
            raise InputError("Which session? The parameter session_id is missing.", code="input.session") from None
        named = given.get(where)
        if where in things and isinstance(named, str):
            noun = where.removesuffix("_id")
            hint = f"List them with ozzie {noun}s list." if where in _IDS else ""
            raise NotFound(f"There is no {noun} {visible_label(named)[:_SHOWN]}.", hint=hint) from None
        raise BadParameter(sentence) from None


def _from_query(operation: Operation, query: Mapping[str, list[bytes]]) -> JsonObject:
    kinds = _kinds(operation.asked)
    found: JsonObject = {}
    for name, values in query.items():
        if _is_of_the_cache(name, values):
            continue
        if name not in operation.beside_path:
            raise _unknown("parameter", name, operation.beside_path)
        base, many = kinds[name]
        read_values = [_value(name, base, value) for value in values]
        if not many and len(values) > 1:
            raise BadParameter(f"The parameter {name} stands there more than once.")
        found[name] = read_values if many else read_values[0]
    return found


def _from_body(operation: Operation, query: Mapping[str, list[bytes]], body: JsonObject) -> JsonObject:
    for name, values in query.items():
        if not _is_of_the_cache(name, values):
            raise _unknown("parameter", name, ())
    for name in body:
        if name not in operation.beside_path:
            raise _unknown("field", name, operation.beside_path)
    kinds = _kinds(operation.asked)
    return {name: _whole(value) if kinds[name][0] is int else value for name, value in body.items()}


def _whole(value: Json) -> Json:
    """A whole number is an integer, also where it is written 3.0 (JSON Schema 2020-12, Core §4.2.3)."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_of_the_cache(name: str, values: list[bytes]) -> bool:
    """JupyterLab's requests, POSTs too, carry the time as a parameter without a value, to get around caches."""
    return name.isdecimal() and values == [b""]


def _unknown(what: str, name: str, known: tuple[str, ...]) -> BadParameter:
    hint = f"There are: {', '.join(known)}." if known else f"There is no {what} at all here."
    return BadParameter(f'There is no {what} "{visible_label(name)[:_SHOWN]}" here.', hint=hint)


def _value(name: str, base: type, raw: bytes) -> Json:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise BadParameter(f"The parameter {name} is not UTF-8 text.") from None
    # What is no number or truth value stays text: the shape then refuses it in words.
    if base is int and _INTEGER.fullmatch(text):
        return int(text)
    return {"true": True, "false": False}.get(text, text) if base is bool else text


@cache
def _kinds(asked: type) -> dict[str, tuple[type, bool]]:
    """The plain type of each field, and whether it may be given several times."""
    return {name: _plain(hint) for name, hint in get_type_hints(asked).items()}


def _plain(hint: Any) -> tuple[type, bool]:
    if get_origin(hint) in _UNIONS:
        (hint,) = (kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is tuple:
        return _plain(get_args(hint)[0])[0], True
    return (str if get_origin(hint) is Literal else hint), False


def _sentence(asked: type, error: msgspec.ValidationError) -> tuple[str, str]:
    """The field that is wrong, and what is wrong with it in words."""
    text = str(error)
    if missing := re.fullmatch(r"Object missing required field `(\w+)`", text):
        return missing[1], f"The field {missing[1]} is missing."
    place = _PLACE.search(text)
    where = place[1] if place else ""
    name = re.split(r"[.\[]", where)[0]
    if rule := _rules(asked).get(name):
        return name, f"{name} must be {rule}."
    return name, f"{where}: {_PLACE.sub('', text).replace('`', '')}."


@cache
def _rules(asked: type) -> dict[str, str]:
    """In words what each field must be, where its type says so."""
    hints = get_type_hints(asked, include_extras=True)
    return {found.name: rule for found in fields(asked) if (rule := _rule(hints[found.name]))}


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
