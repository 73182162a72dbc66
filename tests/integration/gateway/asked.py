"""Turns that wait for a yes, made by the offline script, and approvals that no tool of today asks for."""

import asyncio
import json
from typing import Any

from msgspec.structs import replace

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import ApprovalRequested, Draft, Event, EventBody
from ozzie_server_ext.domain.ids import APPROVALS_STREAM, ApprovalId, CallId, SessionId, TaskId, task_stream
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect
from ozzie_server_ext.observability.clock import SystemClock, UlidSource
from ozzie_server_ext.store.sqlite import SqliteEventLog
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import Gateway, GatewayHome
from tests.ws_client import connected

WRITE = "Write a 3-line note to notes/a.md"
"""What makes the offline script call `write_file`, which asks."""


def write(name: str) -> str:
    """The same for another file."""
    return WRITE.replace("a.md", name)


def asked(gateway: Gateway, content: str = WRITE, session: str | None = "mine", **how: Any) -> dict[str, Any]:
    """The approval that a message of that session makes its turn ask for; `session_id` is in place of its name."""
    (gateway.home.project / "notes").mkdir(exist_ok=True)
    turn = post(gateway, "message", content=content, session_name=session, wait=True, **how)
    assert turn["status"] == "WAITING_APPROVAL", turn
    (found,) = get(gateway, f"approvals?status=pending&task_id={turn['task_id']}")["items"]
    return found


HIDDEN_COMMAND = "git clone https://user:Zx9kQ2aaB1`./x.sh`@github.com/a/b"
"""A command that runs another one, where a password would stand."""
DEPLOY: dict[str, Any] = {
    "name": "deploy",
    "type": "workflow",
    "steps": [
        {
            "id": "a",
            "title": "write a script",
            "call": {"tool": "write_file", "args": {"path": "run.sh", "text": f"{HIDDEN_COMMAND}\n"}},
        }
    ],
}
"""A skill that asks whether it may write that into a script."""


def asked_with_a_secret(gateway: Gateway) -> dict[str, Any]:
    """The approval of a call whose stored question lacks `HIDDEN_COMMAND`."""
    skills = gateway.home.home / "skills"
    skills.mkdir(exist_ok=True)
    (skills / "deploy.jsonc").write_text(json.dumps(DEPLOY))

    async def run() -> str:
        async with connected(gateway) as client:
            session_id = await client.open_session("secretive")
            begun = await client.request("message.send", session_id=session_id, content="", skill={"name": "deploy"})
            assert begun["ok"], begun
            return str(begun["payload"]["task_id"])

    run_id = asyncio.run(run())

    def its_approvals() -> list[dict[str, Any]]:
        return [each for each in get(gateway, "approvals?status=pending")["items"] if each["run_id"] == run_id]

    until(its_approvals)
    (found,) = its_approvals()
    return found


def ended(gateway: Gateway, task_id: str) -> dict[str, Any]:
    """The task once it has come to its end."""
    until(lambda: get(gateway, f"tasks/{task_id}")["finished_at"])
    return get(gateway, f"tasks/{task_id}")


def events(gateway: Gateway, kind: str) -> list[dict[str, Any]]:
    """What was recorded under that name, the oldest first."""
    return [event["payload"] for event in get(gateway, f"events?type={kind}&limit=500")["items"]]


def record(home: GatewayHome, approval: dict[str, Any], *facts: EventBody) -> None:
    """Put facts into the stream of an approval's task. No gateway runs on the home."""
    session_id, task_id = SessionId(approval["session_id"]), TaskId(approval["task_id"])
    drafts = [Draft(body=fact, actor="system", source="hub", session_id=session_id, task_id=task_id) for fact in facts]

    async def append() -> None:
        log = await _open(home)
        await log.append(task_stream(task_id), drafts)
        await log.close()

    asyncio.run(append())


def refused(home: GatewayHome) -> list[Event]:
    """The answers that did not count. No gateway runs on the home."""

    async def read() -> list[Event]:
        log = await _open(home)
        found = await log.read_stream(APPROVALS_STREAM)
        await log.close()
        return list(found)

    return asyncio.run(read())


def grave(
    *, needs: AuthStrength = AuthStrength.CLI, sentence: str = "Send the letter to `ana@example.org`?"
) -> ApprovalRequested:
    """What a tool would ask whose effect can't be undone."""
    ids = UlidSource(SystemClock())
    return ApprovalRequested(
        approval_id=ApprovalId(ids.new()),
        call_id=CallId(ids.new()),
        tool_id="mail.send",
        name="send_mail",
        sentence=sentence,
        proof="Dear Ana,\n\nit is done.\n",
        shown="text",
        whole=None,
        reason="It can't be undone.",
        rule="floor.irreversible",
        place="",
        side_effect=SideEffect.IRREVERSIBLE,
        risk_level=RiskLevel.HIGH,
        undo="",
        binds="0" * 64,
        needs=needs,
        cover=None,
        key="k",
        expires_at="2100-01-01T00:00:00.000000Z",
    )


def copies(of: ApprovalRequested, count: int) -> list[ApprovalRequested]:
    """As many, each with an id of its own."""
    ids = UlidSource(SystemClock())
    return [replace(of, approval_id=ApprovalId(ids.new())) for _ in range(count)]


async def _open(home: GatewayHome) -> SqliteEventLog:
    clock = SystemClock()
    return await SqliteEventLog.open(Home(home.home).database, clock=clock, ids=UlidSource(clock))
