"""The record of what happened: whole, unchanged, and enough to build everything else from."""

import asyncio
import json
import sqlite3

import pytest

from ozzie_server_ext.observability.clock import CountingIds, FakeClock
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.fakes.openai_server import FakeOpenAI
from tests.rig import GatewayHome, ozzie, start_gateway
from tests.tiers import SOAK
from tests.ws_client import connected

SESSIONS, TURNS_EACH = (10, 10) if SOAK else (3, 4)


@pytest.mark.sampled
@pytest.mark.timeout(180)
async def test_turns_of_many_sessions_verify_and_rebuild_to_the_same_projections(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "tools", "echo")

    def run_gateway() -> None:
        with start_gateway(home) as gateway:

            async def talk() -> None:
                async with connected(gateway) as client:
                    sessions = [await client.open_session(f"s{number}") for number in range(SESSIONS)]

                    async def converse(session_id: str) -> None:
                        async with connected(gateway) as own:
                            for turn in range(TURNS_EACH):
                                model = "tools" if turn % 2 else "echo"
                                ended = await own.ask(session_id, f"turn {turn}", model=model)
                                assert ended["canonical"] == "task.succeeded", ended

                    await asyncio.gather(*(converse(session_id) for session_id in sessions))

            asyncio.run(talk())

    await asyncio.to_thread(run_gateway)

    verified = json.loads(ozzie(home, "events", "verify", "--json").stdout)
    log = await SqliteEventLog.open(home.home / "data" / "ozzie.db", clock=FakeClock(), ids=CountingIds())
    try:
        live = await log.dump()
        tasks = await log.rows("tasks", where={"status": "SUCCEEDED"})
        rebuilt = await log.rebuild()
    finally:
        await log.close()
    assert verified["ok"] is True
    assert verified["events"] > 10 * SESSIONS * TURNS_EACH
    assert len(tasks) == SESSIONS * TURNS_EACH
    assert live == rebuilt


@pytest.mark.timeout(120)
async def test_a_turn_that_was_running_when_the_gateway_was_killed_is_finished_by_the_next(
    home: GatewayHome, fake_openai: FakeOpenAI
) -> None:
    home.use_provider(fake_openai.url, "endless", "echo")

    def killed() -> str:
        with start_gateway(home) as gateway:

            async def begin() -> str:
                async with connected(gateway) as client:
                    session_id = await client.open_session("doomed")
                    sent = (await client.request("message.send", session_id=session_id, content="hi"))["payload"]
                    await client.request("feed.subscribe", from_position=sent["position"] - 1)
                    await client.until("reply.delta")
                    return str(sent["task_id"])

            task_id = asyncio.run(begin())
            gateway.kill()
            return task_id

    task_id = await asyncio.to_thread(killed)
    home.use_provider(fake_openai.url, "echo")

    def resumed() -> list[dict[str, object]]:
        with start_gateway(home) as gateway:

            async def follow() -> list[dict[str, object]]:
                async with connected(gateway) as client:
                    await client.request("feed.subscribe", from_position=0, task_id=task_id)
                    await client.until("task.succeeded")
                    return client.events

            return asyncio.run(follow())

    events = await asyncio.to_thread(resumed)

    names = [event["canonical"] for event in events if event["position"] is not None]
    assert names.count("task.started") == 2
    assert names.count("message.received") == 1
    assert names.count("message.completed") == 1
    assert ozzie(home, "events", "verify").returncode == 0


def test_a_changed_log_is_found_and_named(home: GatewayHome) -> None:
    assert ozzie(home, "ask", "hello").returncode == 0
    home.stop_gateways()
    database = sqlite3.connect(home.home / "data" / "ozzie.db")
    with database:
        (position,) = database.execute("SELECT position FROM events WHERE type = 'message.received'").fetchone()
        database.execute(
            "UPDATE bodies SET body = CAST(replace(CAST(body AS TEXT), 'hello', 'HELLO') AS BLOB) WHERE position = ?",
            (position,),
        )
    database.close()

    found = ozzie(home, "events", "verify")

    assert found.returncode == 1
    assert f"first bad event {position}." in found.stdout


def test_nothing_but_the_user_can_read_what_is_kept(home: GatewayHome) -> None:
    assert ozzie(home, "ask", "hello").returncode == 0
    home.stop_gateways()

    open_to_others = [str(path) for path in [home.home, *home.home.rglob("*")] if path.lstat().st_mode & 0o077]
    assert open_to_others == []
