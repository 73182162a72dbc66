"""`ozzie ask`: one turn from a terminal."""

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from dataclasses import replace

from ozzie_kernel.client import GatewayClient, GatewayLost
from ozzie_kernel.connect import reach
from ozzie_kernel.turn import fold_frame
from ozzie_server_ext.cli.output import for_terminal
from ozzie_server_ext.domain.errors import InputError, OzzieError
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.handshake import Handshake
from ozzie_server_ext.render.console import ConsoleWriter
from ozzie_server_ext.render.turn import TextPart, TurnView, new_turn


def ask(options: argparse.Namespace) -> int:
    """Ask in the terminal's session. Raises OzzieError."""
    return ask_in(options.message, session=options.session, model=options.model, as_json=options.json)


def ask_in(message: str, *, session: str, model: str, as_json: bool) -> int:
    """Ask, print, and return 0 if the turn was done; `-` is what standard input says. Raises OzzieError."""
    text = _standard_input() if message == "-" else message
    view = asyncio.run(_ask(text, session, model, as_json))
    if as_json:
        print(json.dumps(_summary(view)))
    return 0 if view.status == "Done" else 1


def _standard_input() -> str:
    if sys.stdin is None:
        raise InputError("Standard input is closed.")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InputError("The message is not UTF-8 text.") from None


async def _ask(text: str, session: str, model: str, as_json: bool) -> TurnView:
    async def open_client(handshake: Handshake) -> GatewayClient:
        return await GatewayClient.connect(handshake.url, handshake.token)

    client = await reach(open_client)
    try:
        opened = await client.request("session.open", {"session_name": f"cli:{session}", "title": session})
        params = {"content": text, "session_id": opened["session_id"], "model": model}
        sent = await client.request("message.send", params)
        task_id = str(sent["task_id"])
        stopper = asyncio.ensure_future(_cancel_when_interrupted(client, task_id))
        try:
            return await _follow(client, task_id, int(str(sent["position"])) - 1, as_json)
        finally:
            stopper.cancel()
    finally:
        await client.close()


async def _cancel_when_interrupted(client: GatewayClient, task_id: str) -> None:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    loop.add_signal_handler(signal.SIGINT, stop.set)
    try:
        await stop.wait()
    finally:
        # A second interrupt ends the program, whatever the gateway does.
        loop.remove_signal_handler(signal.SIGINT)
    # Refused, it has ended already; without a connection, who follows says so.
    with contextlib.suppress(OzzieError):
        await client.request("task.cancel", {"task_id": task_id})


async def _follow(client: GatewayClient, task_id: str, position: int, as_json: bool) -> TurnView:
    view, writer = new_turn(task_id=task_id), ConsoleWriter()
    queue = await client.follow(task_id, position)
    while not view.is_final:
        frame = await queue.get()
        if frame is None:
            raise GatewayLost(task_id)
        view = fold_frame(view, frame)
        if view.error is not None:
            view = replace(view, error=replace(view.error, hint=for_terminal(view.error.hint)))
        if not as_json:
            sys.stdout.write(writer.update(view))
            sys.stdout.flush()
    return view


def _summary(view: TurnView) -> JsonObject:
    error: JsonObject | None = (
        {"code": view.error.code, "message": view.error.message, "hint": view.error.hint} if view.error else None
    )
    return {
        "task_id": view.task_id,
        "status": view.status,
        "text": "\n\n".join(part.text for part in view.parts if isinstance(part, TextPart)),
        "model": f"{view.provider}/{view.model}",
        "input_tokens": view.input_tokens,
        "output_tokens": view.output_tokens,
        "cost_nano_usd": view.cost if view.cost_known else None,
        "error": error,
    }
