"""What the model worker is as a process: killable, replaceable, mortal, and without a key where others can look."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.models.driver import ModelError, ModelEvent, ModelRequest
from ozzie_server_ext.models.worker_client import WORKER_ARGV, command_of
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.protocol.worker import Configure, command_json
from tests.fakes.replies import Silence
from tests.integration.gateway.test_rest import until
from tests.integration.models.rig import HEADER, KEY, WAIT_S, Rig, failure, read, request, text_of

pytestmark = pytest.mark.asyncio(loop_scope="session")


def send_signal(rig: Rig, number: signal.Signals) -> None:
    assert rig.plane.pid is not None
    os.kill(rig.plane.pid, number)


async def first_event(rig: Rig, asked: ModelRequest) -> ModelEvent:
    """The first piece of an answer, whose stream is closed then."""
    stream = rig.driver.generate(asked)
    try:
        return await asyncio.wait_for(anext(stream), WAIT_S)
    finally:
        await stream.aclose()


async def test_a_key_stands_in_no_environment_and_in_no_log(rig: Rig) -> None:
    await read(rig, request("echo"))
    await failure(rig, request("status-401"))
    await failure(rig, request("broken"))
    assert rig.plane.pid is not None
    worker = psutil.Process(rig.plane.pid)
    seen = " ".join([*worker.environ().values(), *worker.cmdline(), rig.log_file.read_text()])
    for secret in (KEY, HEADER, "sk-from-the-environment"):
        assert secret not in seen


async def test_the_worker_steps_back_behind_the_gateway(rig: Rig) -> None:
    await read(rig, request("echo"))
    assert rig.plane.pid is not None
    assert psutil.Process(rig.plane.pid).nice() == min(19, psutil.Process().nice() + 10)
    assert os.getsid(rig.plane.pid) == rig.plane.pid


async def test_a_worker_that_is_killed_in_mid_answer_fails_the_call_and_is_replaced(rig: Rig) -> None:
    stream = rig.driver.generate(request("endless"))
    events: list[ModelEvent] = [await asyncio.wait_for(anext(stream), WAIT_S)]

    async def follow() -> None:
        async for event in stream:
            events.append(event)

    send_signal(rig, signal.SIGKILL)
    with pytest.raises(Exception, match="stopped in the middle") as caught:
        await asyncio.wait_for(follow(), WAIT_S)
    assert (getattr(caught.value, "code", ""), getattr(caught.value, "streamed", None)) == ("worker.lost", True)
    assert text_of(events).startswith("1 ")
    assert len(rig.server.requests) == 1, "What has streamed is not sent again."
    assert text_of(await read(rig, request("echo"))) == "hello big wide world"
    assert rig.server.requests[-1].headers["authorization"] == f"Bearer {KEY}", "The new worker knows the providers."


async def test_a_call_is_sent_once_and_the_one_behind_it_goes_to_the_next_worker(rig: Rig) -> None:
    await read(rig, request("echo"))
    rig.server.forget()
    rig.server.queue(Silence())
    reading = asyncio.create_task(read(rig, request("echo")))
    await asyncio.to_thread(rig.server.wait_for, lambda server: len(server.requests) == 1)
    send_signal(rig, signal.SIGKILL)
    with pytest.raises(ModelError) as caught:
        await reading
    assert (caught.value.code, caught.value.streamed) == ("worker.lost", False)
    assert text_of(await read(rig, request("echo"))) == "hello big wide world"
    assert len(rig.server.requests) == 2


async def test_a_worker_that_does_not_abort_is_killed(rig: Rig) -> None:
    stream = rig.driver.generate(request("endless"))
    await asyncio.wait_for(anext(stream), WAIT_S)
    pid = rig.plane.pid
    assert pid is not None
    send_signal(rig, signal.SIGSTOP)
    await stream.aclose()
    await asyncio.to_thread(rig.server.wait_for, lambda server: server.disconnects == ["endless"])
    await asyncio.to_thread(until, lambda: rig.lost)  # the provider may see its end before the gateway's loop does
    assert text_of(await read(rig, request("echo"))) == "hello big wide world"
    assert ["SIGKILL" in reason for reason in rig.lost] == [True]
    assert rig.plane.pid != pid


PARENT = """
import asyncio, sys
from pathlib import Path
from ozzie_server_ext.models.worker_client import WORKER_ARGV, command_of
from ozzie_server_ext.planes.supervisor import Supervisor
from ozzie_server_ext.protocol.worker import Configure, command_json

async def main():
    plane = Supervisor("model worker", WORKER_ARGV, log_file=Path(sys.argv[1]))
    plane.start()
    while plane.pid is None:
        await asyncio.sleep(0.001)
    print(plane.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_worker_that_still_loads_dies_with_its_gateway(tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, str(tmp_path / "log"), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    worker = psutil.Process(int(await parent.stdout.readline()))
    parent.kill()
    await parent.wait()
    await asyncio.to_thread(worker.wait, WAIT_S)


async def test_stopping_while_the_worker_still_loads_takes_no_longer(tmp_path: Path) -> None:
    plane = Supervisor("model worker", WORKER_ARGV, log_file=tmp_path / "log")
    plane.start()
    await asyncio.sleep(0)
    pid = plane.pid
    assert pid is not None
    await asyncio.wait_for(plane.stop(), 5)
    assert not psutil.pid_exists(pid)


async def test_an_abort_of_a_call_that_is_over_is_answered_too(rig: Rig) -> None:
    channel = await rig.plane.channel()
    inbox = channel.open_call("late", start={"type": "status"}, abort={"type": "status"})
    try:
        channel.post({"type": "abort", "session_id": "s", "id": "late"})
        message = await asyncio.wait_for(inbox.get(), WAIT_S)
        assert (message["type"], message["finish"]) == ("stop", "cancelled")
    finally:
        channel.close_call(inbox)


async def test_status_and_what_it_does_not_understand_are_answered_by_id(rig: Rig) -> None:
    channel = await rig.plane.channel()
    inbox = channel.open_call("q", start={"type": "status", "id": "q"}, abort={"type": "status"})
    try:
        status = await asyncio.wait_for(inbox.get(), WAIT_S)
        assert (status["ok"], status["ready"], status["pid"]) == (True, True, rig.plane.pid)
        refused: list[JsonObject] = [{"type": "dance", "id": "q"}, {"type": "generate", "id": "q"}]
        for bad in refused:
            channel.post(bad)
            answer = await asyncio.wait_for(inbox.get(), WAIT_S)
            assert answer["ok"] is False
            assert answer["error"]
    finally:
        channel.close_call(inbox)


async def test_what_was_asked_is_answered_though_the_keys_are_forgotten_meanwhile(rig: Rig) -> None:
    await read(rig, request("echo"))
    channel = await rig.plane.channel()
    asked = request("echo")
    start = command_json(command_of(asked, "asked", rig.providers["fake"]))
    inbox = channel.open_call("asked", start=start, abort={"type": "status"})
    try:
        # In one piece with the call, as when a secret changes at that very moment.
        channel.post(command_json(Configure(providers={})))
        message = await asyncio.wait_for(inbox.get(), WAIT_S)
        assert message["type"] == "token", message
        while message["type"] != "stop":
            message = await asyncio.wait_for(inbox.get(), WAIT_S)
        assert message["finish"] == "stop"
    finally:
        channel.close_call(inbox)
    await rig.driver.known.forget()


async def test_a_call_that_runs_goes_on_and_the_next_brings_its_key_when_the_worker_forgets(rig: Rig) -> None:
    stream = rig.driver.generate(request("endless"))
    try:
        await asyncio.wait_for(anext(stream), WAIT_S)
        await rig.driver.known.forget()
        await asyncio.wait_for(anext(stream), WAIT_S)
    finally:
        await stream.aclose()

    assert text_of(await read(rig, request("echo")))


async def test_the_worker_keeps_no_key_that_it_was_told_to_forget(rig: Rig) -> None:
    await read(rig, request("echo"))
    await rig.driver.known.forget()
    channel = await rig.plane.channel()
    start = command_json(command_of(request("echo"), "forgotten", rig.providers["fake"]))
    inbox = channel.open_call("forgotten", start=start, abort={"type": "status"})
    try:
        message = await asyncio.wait_for(inbox.get(), WAIT_S)
        assert (message["type"], message["code"]) == ("error", "provider.not_found")
    finally:
        channel.close_call(inbox)
