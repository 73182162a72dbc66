"""`ozzie ask` and `ozzie skills run`: one turn, from a terminal."""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ozzie_kernel.cellturn import MAX_LOST, fold_frame, moment_of, new_message_id
from ozzie_kernel.client import GatewayClient, GatewayLost
from ozzie_kernel.connect import reach
from ozzie_server_ext.agent.structured_output import expect_schema
from ozzie_server_ext.cli.setup_verbs import OWN_SESSION
from ozzie_server_ext.cli.terminal import failure_lines, for_terminal, named_folder, standard_input
from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.protocol.answers import value_in
from ozzie_server_ext.protocol.frames import EventFrame
from ozzie_server_ext.protocol.jsontext import InvalidJson, loads_object
from ozzie_server_ext.protocol.made_from import content_in
from ozzie_server_ext.render.console import ConsoleWriter
from ozzie_server_ext.render.graph.output import GraphWriter
from ozzie_server_ext.render.graph.view import GraphView, fold_graph
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.render.turnfold import turn_of
from ozzie_server_ext.render.turnview import TurnView

MOST_TYPED = 500
"""Characters of a message that counts as typed at a terminal."""


def ask(options: argparse.Namespace) -> int:
    """Send a message in the terminal's session. Raises OzzieError."""
    schema = None if options.schema is None else _schema(Path(options.schema))
    where = Where.of(options)
    return ask_in(options.message, where, model=options.model, as_json=options.json, schema=schema)


@dataclass(frozen=True, slots=True)
class Where:
    """A terminal's session, and the project folder that it works in if it is new (None: the gateway's own)."""

    session: str = OWN_SESSION
    project: str | None = None

    @classmethod
    def of(cls, options: argparse.Namespace) -> "Where":
        """With `--project`, the session is named by the folder unless it has a name of its own."""
        project = named_folder(options)
        return cls(options.session or project or OWN_SESSION, project)

    @property
    def title(self) -> str:
        return os.path.basename(self.session) if self.session == self.project else self.session


def ask_in(message: str, where: Where, *, model: str, as_json: bool, schema: JsonObject | None = None) -> int:
    """Send a message and print the answer; return 0 if the turn succeeded. `-` reads the message from standard input.
    With a `schema`, print a JSON value that fits it. Raises OzzieError."""
    text = standard_input("The message") if message == "-" else message
    typed = _is_typed(message)
    return _turn({"content": text, "model": model, "answer_schema": schema, "typed": typed}, where, as_json=as_json)


def run_in(name: str, words: Sequence[str], where: Where, *, model: str, as_json: bool) -> int:
    """Run a skill and print its progress; return 0 if it succeeded. Raises OzzieError."""
    skill: JsonObject = {"name": name, "words": list(words)}
    params: JsonObject = {"content": " ".join(["%run", name, *words]), "model": model, "skill": skill}
    return _turn(params, where, as_json=as_json)


def _turn(params: JsonObject, where: Where, *, as_json: bool) -> int:
    has_schema = params.get("answer_schema") is not None
    view = asyncio.run(_ask(params, where, quiet=as_json or has_schema))
    if as_json:
        print(json.dumps(_summary(view, is_value=has_schema)))
    elif has_schema:
        _print_value(view)
    return 0 if view.status == "Done" else 1


class _Gateway:
    """The current gateway: after a lost connection, the next request opens another."""

    def __init__(self) -> None:
        self._client: GatewayClient | None = None

    async def client(self) -> GatewayClient:
        """Return an open connection. Raises OzzieError."""
        if self._client is None or self._client.closed:
            self._client = await reach(lambda found: GatewayClient.connect(found.url, found.token))
        return self._client

    async def request(self, method: str, params: JsonObject) -> JsonObject:
        """Send a request that may be repeated. Raises OzzieError."""
        for _ in range(MAX_LOST):
            with contextlib.suppress(GatewayLost):
                return await (await self.client()).request(method, params)
        raise GatewayLost(hint="Your message may or may not have arrived: check `ozzie tasks list`.")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _schema(path: Path) -> JsonObject:
    try:
        schema = loads_object(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.", hint="Name a file with a JSON Schema.") from None
    except InvalidJson as error:
        raise InputError(f"{path}: {error}", hint="A JSON Schema is a JSON object.") from None
    asyncio.run(expect_schema(schema))  # before starting a gateway
    return schema


def _print_value(view: TurnView) -> None:
    """Print the value alone, for the next program; on failure, the reason to standard error."""
    if view.status == "Done":
        print(json.dumps(value_in(view.last_text), indent=2))  # ASCII, because terminals obey some other characters
    elif view.error is not None:
        print("\n".join(failure_lines({"message": view.error.message, "hint": view.error.hint})), file=sys.stderr)
    else:
        print(visible_label(view.closing) or view.status, file=sys.stderr)


async def _ask(params: JsonObject, where: Where, *, quiet: bool) -> TurnView:
    gateway = _Gateway()
    try:
        named: JsonObject = {"session_name": f"cli:{where.session}", "title": where.title or where.session}
        if where.project is not None:
            named["project"] = where.project
        opened = await gateway.request("session.open", named)
        sent = await gateway.request(
            "message.send",
            {
                **params,
                "session_id": opened["session_id"],
                "message_id": new_message_id(),
                "attended": sys.stdout.isatty() and not quiet,
                "made_from": [*content_in(os.environ).sources],
                "awaits_answer": True,
            },
        )
        task_id = str(sent["task_id"])
        stopper = asyncio.ensure_future(_cancel_when_interrupted(gateway, task_id))
        try:
            return await _follow(gateway, turn_of(sent), int(str(sent["position"])) - 1, quiet=quiet)
        finally:
            stopper.cancel()
    finally:
        await gateway.close()


async def _cancel_when_interrupted(gateway: _Gateway, task_id: str) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        await stop.wait()
    finally:
        # A second interrupt ends the program at once.
        loop.remove_signal_handler(signal.SIGINT)
    # A refusal means it has ended already; a lost connection is reported by `_follow`.
    with contextlib.suppress(OzzieError):
        await gateway.request("task.cancel", {"task_id": task_id})


async def _follow(gateway: _Gateway, view: TurnView, position: int, *, quiet: bool) -> TurnView:
    """Follow the turn to its end, across restarts of the gateway. Raises OzzieError."""
    task_id, writer = view.task_id, ConsoleWriter()
    graph: GraphView | None = None
    graph_writer = GraphWriter()
    queue: asyncio.Queue[EventFrame | None] | None = None
    lost = 0
    while not view.is_final:
        try:
            queue = queue or await (await gateway.client()).follow(task_id, position)
            frame = await queue.get()
        except GatewayLost:
            frame = None
        if frame is None:
            queue, lost = None, lost + 1
            if lost > MAX_LOST:
                raise GatewayLost(task_id)
            continue
        if frame.position is not None:
            position, lost = max(position, frame.position), 0
        view = fold_frame(view, frame)
        graph = fold_graph(graph, frame.canonical, frame.payload, moment_of(frame))
        if view.error is not None:
            view = replace(view, error=replace(view.error, hint=for_terminal(view.error.hint)))
        if not quiet and graph is not None:
            sys.stdout.write(graph_writer.update(graph, datetime.now(UTC)))
        if not quiet:
            sys.stdout.write(writer.update(view))
            sys.stdout.write(writer.asks(view, datetime.now(UTC)))
            sys.stdout.flush()
    return view


def _summary(view: TurnView, *, is_value: bool) -> JsonObject:
    error: JsonObject | None = (
        {"code": view.error.code, "message": view.error.message, "hint": view.error.hint} if view.error else None
    )
    models = list(dict.fromkeys(f"{provider}/{model}" for _, provider, model in view.models))
    return {
        "task_id": view.task_id,
        "status": view.status,
        "text": view.text,
        **({"answer": value_in(view.last_text) if view.status == "Done" else None} if is_value else {}),
        "model": next(iter(models), ""),
        "models": list[Json](models),
        "input_tokens": view.input_tokens,
        "output_tokens": view.output_tokens,
        "cost_nano_usd": view.cost if view.cost_known else None,
        "error": error,
    }


def _is_typed(message: str) -> bool:
    """Whether a person seems to have typed the message at a terminal: not in a cell, which has one too, and not so long
    or over several lines, as what a shell puts in for `$(…)`."""
    by_kernel = "matplotlib_inline" in os.environ.get("MPLBACKEND", "")  # that every Python kernel sets
    in_cell = by_kernel or "JPY_PARENT_PID" in os.environ or "JPY_SESSION_NAME" in os.environ
    return sys.stdin.isatty() and not in_cell and message != "-" and len(message) <= MOST_TYPED and "\n" not in message
