"""Approvals over REST and the WebSocket: who may answer, which answer counts, and what becomes of the call."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import ApprovalExpired, ApprovalRefused
from ozzie_server_ext.domain.ids import ApprovalId
from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.asked import (
    HIDDEN_COMMAND,
    asked,
    asked_with_a_secret,
    copies,
    ended,
    events,
    grave,
    record,
    refused,
    write,
)
from tests.integration.gateway.test_rest import get, pages, post, until
from tests.integration.gateway.walk import KERNEL_ID, ask
from tests.rig import JUPYTER_TOKEN, Gateway, GatewayHome, new_home, start_attached, start_gateway
from tests.ws_client import WsClient, connected

NOBODY = "01M800000000000000000000ZZ"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway for the tests that ask for files of their own."""
    with start_gateway(new_home(tmp_path_factory.mktemp("approvals"))) as running:
        yield running


def answer(gateway: Gateway, approval_id: str, verb: str, token: str = "", **body: Any) -> tuple[int, dict[str, Any]]:
    path = f"{PREFIX}/approvals/{approval_id}/{verb}"
    return ask(gateway, "POST", path, token=token or gateway.token, body=json.dumps(body))


def kernel(gateway: Gateway, session: str) -> dict[str, Any]:
    """A token for the kernel of that session."""
    return post(gateway, f"kernels/{KERNEL_ID}/token", session_name=session)


async def kernel_asks(client: WsClient, content: str) -> dict[str, Any]:
    """What a turn of the kernel's own session asks for, as its feed tells."""
    sent = (await client.request("message.send", content=content))["payload"]
    await client.request("feed.subscribe", from_position=sent["position"] - 1, task_id=sent["task_id"])
    return await client.until("approval.requested", task_id=sent["task_id"])


def test_a_yes_lets_the_call_run_and_says_who_gave_it_and_how(server: Gateway) -> None:
    approval = asked(server)
    before = (server.home.project / "notes" / "a.md").exists()
    status, said = answer(server, approval["approval_id"], "approve", binds=approval["binds"])
    task = ended(server, approval["task_id"])
    after = get(server, f"approvals/{approval['approval_id']}")

    assert (before, status, said) == (False, 200, {"done": True})
    assert (server.home.project / "notes" / "a.md").read_text().count("\n") == 3
    assert task["status"] == "SUCCEEDED"
    assert (after["status"], after["extent"], after["way"], bool(after["by"])) == ("granted", "once", "cli", True)
    (started,) = [e for e in events(server, "tool.call.started") if e["approval_id"] == approval["approval_id"]]
    assert started["call_id"] == approval["call_id"]


def test_all_that_a_person_has_to_see_stands_in_it(server: Gateway) -> None:
    notebook = str(server.home.project / "reports" / "may.ipynb")
    approval = asked(server, write("seen.md"), session=f"notebook:{notebook}")
    answer(server, approval["approval_id"], "reject")

    assert approval["sentence"] == "Write a new file, `notes/seen.md`, of 3 lines?"
    assert approval["shown"] == "diff"
    assert [line[0] for line in approval["proof"].split("\n")] == ["@", "+", "+", "+"]
    assert (approval["side_effect"], approval["needs"]) == ("reversible", "relay")
    assert approval["session_cover"] == "`write_file` in `notes/`"
    assert approval["notebook"] == "reports/may.ipynb"
    assert approval["key"].startswith(approval["task_id"])
    assert approval["requested_at"] < approval["expires_at"]
    unanswered = ("answered_at", "extent", "by", "way", "comment", "in_force_until", "why")
    assert [approval[name] for name in unanswered] == [None, "", "", "", "", None, ""]


def test_what_was_taken_out_of_a_question_is_drawn_for_who_may_answer_and_for_no_kernel(server: Gateway) -> None:
    approval = asked_with_a_secret(server)
    of_kernel = kernel(server, "secretive")["token"]
    path = f"{PREFIX}/approvals/{approval['approval_id']}"
    refused, why = ask(server, "GET", f"{path}/card", token=of_kernel)
    status, card = ask(server, "GET", f"{path}/card", token=server.token)
    in_page, same = ask(server, "GET", f"{path}/card", token=JUPYTER_TOKEN)

    assert (approval["needs"], bool(approval["card"])) == ("cli", True)
    assert "[redacted: password]" in approval["proof"]
    assert refused == 403, why
    assert (status, in_page) == (200, 200)
    assert card == same
    assert HIDDEN_COMMAND in card["proof"]
    assert json.loads(card["arguments"])["text"] == f"{HIDDEN_COMMAND}\n"
    answer(server, approval["approval_id"], "reject")
    assert ask(server, "GET", f"{path}/card", token=server.token)[0] == 409


def test_a_no_is_told_to_the_model_with_its_comment(server: Gateway) -> None:
    approval = asked(server, write("no.md"))
    assert answer(server, approval["approval_id"], "reject", comment="Not in that folder.")[0] == 200
    task = ended(server, approval["task_id"])
    after = get(server, f"approvals/{approval['approval_id']}")

    assert not (server.home.project / "notes" / "no.md").exists()
    assert "Rejected by" in task["text"]
    assert '"Not in that folder."' in task["text"]
    assert (after["status"], after["comment"]) == ("rejected", "Not in that folder.")


@pytest.mark.parametrize("second", ["approve", "reject"])
def test_the_first_answer_counts_and_the_second_is_told_so(server: Gateway, second: str) -> None:
    approval = asked(server, write(f"first-{second}.md"))
    answer(server, approval["approval_id"], "reject")
    status, late = answer(server, approval["approval_id"], second)
    _, in_page = answer(server, approval["approval_id"], second, token=JUPYTER_TOKEN)

    assert (status, late["code"]) == (409, "approval.late")
    assert "Already answered: " in late["message"]
    assert " rejected it at " in late["message"]
    assert late["message"].endswith("Your answer did nothing.")
    assert in_page["message"].endswith("Your click did nothing.")
    assert not (server.home.project / "notes" / f"first-{second}.md").exists()


def test_of_many_answers_at_once_exactly_one_counts(server: Gateway) -> None:
    approval = asked(server, write("race.md"))
    verbs = ["approve", "reject"] * 8
    with ThreadPoolExecutor(len(verbs)) as pool:
        found = list(pool.map(lambda verb: answer(server, approval["approval_id"], verb), verbs))
    task = ended(server, approval["task_id"])
    (winner,) = [verb for verb, (status, _) in zip(verbs, found, strict=True) if status == 200]

    assert {said["code"] for status, said in found if status != 200} == {"approval.late"}
    assert (server.home.project / "notes" / "race.md").exists() == (winner == "approve")
    assert task["status"] == "SUCCEEDED"
    late = [event for event in events(server, "approval.refused") if event["approval_id"] == approval["approval_id"]]
    assert [event["why"] for event in late] == ["answered"] * 15


def test_an_answer_to_another_request_than_was_seen_does_not_count(server: Gateway) -> None:
    approval = asked(server, write("stale.md"))
    status, changed = answer(server, approval["approval_id"], "approve", binds="f" * 64)

    assert (status, changed["code"]) == (409, "approval.changed")
    assert changed["message"] == "The request changed. Please look again."
    assert get(server, f"approvals/{approval['approval_id']}")["status"] == "pending"
    answer(server, approval["approval_id"], "reject")


def test_what_nobody_asked_can_not_be_answered(server: Gateway) -> None:
    for verb in ("approve", "reject", "renew", "revoke"):
        status, said = answer(server, NOBODY, verb)

        assert (status, said["code"]) == (404, "input.not_found")
    assert get(server, "events?type=approval.refused&limit=500")["items"][-1]["payload"]["approval_id"] == NOBODY
    assert ask(server, "GET", f"{PREFIX}/approvals/{NOBODY}", token=server.token)[0] == 404


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("approve", {"approved": True}),
        ("approve", {"way": "browser"}),
        ("approve", {"by": "ana"}),
        ("approve", {"extent": "always"}),
        ("approve", {"binds": "x"}),
        ("reject", {"comment": "x" * 2001}),
        ("renew", {"extent": "once"}),
    ],
)
def test_a_request_that_says_more_than_it_may_is_refused(server: Gateway, verb: str, body: dict[str, Any]) -> None:
    approval = asked(server, write("more.md"))
    status, said = answer(server, approval["approval_id"], verb, **body)

    assert (status, said["code"]) == (400, "input.shape")
    assert get(server, f"approvals/{approval['approval_id']}")["status"] == "pending"
    answer(server, approval["approval_id"], "reject")


def test_a_message_that_claims_to_be_approved_still_asks(server: Gateway) -> None:
    body = json.dumps({"content": write("forged.md"), "approved": True})
    status, said = ask(server, "POST", f"{PREFIX}/message", token=server.token, body=body)

    assert (status, said["code"]) == (400, "input.shape")

    async def over_the_socket() -> dict[str, Any]:
        async with connected(server) as client:
            session_id = await client.open_session("forged")
            claims = {"approved": True, "approval_id": NOBODY, "answer": "approve"}
            return await client.request("message.send", session_id=session_id, content=write("forged.md"), **claims)

    sent = asyncio.run(over_the_socket())["payload"]
    until(lambda: get(server, f"tasks/{sent['task_id']}")["status"] == "WAITING_APPROVAL")
    (approval,) = get(server, f"approvals?status=pending&task_id={sent['task_id']}")["items"]
    assert not (server.home.project / "notes" / "forged.md").exists()
    answer(server, approval["approval_id"], "reject")


def test_they_are_listed_newest_first_in_pages_by_state_session_and_task(server: Gateway) -> None:
    one, other = asked(server, write("one.md"), session="one"), asked(server, write("other.md"), session="other")
    answer(server, one["approval_id"], "reject")

    def listed(query: str) -> list[str]:
        return [item["approval_id"] for page in pages(server, f"approvals?{query}") for item in page]

    everything = listed("limit=2")
    assert everything == sorted(everything, reverse=True)
    assert everything[:2] == [other["approval_id"], one["approval_id"]]
    assert listed("status=pending") == [other["approval_id"]]
    assert listed(f"session_id={one['session_id']}&status=rejected&status=granted") == [one["approval_id"]]
    assert listed(f"task_id={NOBODY}") == []
    answer(server, other["approval_id"], "reject")


def test_a_yes_for_the_session_covers_the_folder_until_it_is_taken_back(server: Gateway) -> None:
    approval = asked(server, write("first.md"), session="covered")
    answer(server, approval["approval_id"], "approve", extent="session")
    ended(server, approval["task_id"])
    granted = get(server, f"approvals/{approval['approval_id']}")
    unasked = post(server, "message", content=write("second.md"), session_name="covered", wait=True)
    taken_back = answer(server, approval["approval_id"], "revoke")
    again, twice = (
        asked(server, write("third.md"), session="covered"),
        answer(server, approval["approval_id"], "revoke"),
    )
    answer(server, again["approval_id"], "reject")

    assert (granted["extent"], granted["in_force_until"] > granted["answered_at"]) == ("session", True)
    assert unasked["status"] == "SUCCEEDED"
    assert (server.home.project / "notes" / "second.md").exists()
    assert (taken_back[0], get(server, f"approvals/{approval['approval_id']}")["why"]) == (200, "revoked")
    assert (twice[0], twice[1]["code"]) == (409, "approval.revoke")


def test_an_answer_with_jupyters_own_login_comes_from_the_page(server: Gateway) -> None:
    approval = asked(server, write("page.md"))
    assert answer(server, approval["approval_id"], "approve", token=JUPYTER_TOKEN)[0] == 200
    ended(server, approval["task_id"])

    assert get(server, f"approvals/{approval['approval_id']}")["way"] == "browser"


async def test_an_answer_of_an_attached_servers_page_comes_from_the_page(server: Gateway) -> None:
    names = ("by_rest", "by_socket")
    pending = [await asyncio.to_thread(asked, server, write(f"{name}.md"), name) for name in names]
    by_rest, by_socket = (approval["approval_id"] for approval in pending)
    with start_attached(server.home) as attached:
        status, _ = await asyncio.to_thread(answer, attached, by_rest, "approve")
        async with connected(attached) as client:
            said = await client.request("approval.answer", approval_id=by_socket, answer="approve")
    ways = [(await asyncio.to_thread(get, server, f"approvals/{each}"))["way"] for each in (by_rest, by_socket)]

    assert (status, said["ok"], ways) == (200, True, ["browser", "browser"])


async def test_a_kernel_relays_the_answer_of_its_own_session(server: Gateway) -> None:
    token = await asyncio.to_thread(kernel, server, "own.ipynb")
    async with connected(server, token["token"]) as client:
        (server.home.project / "notes").mkdir(exist_ok=True)
        frame = await kernel_asks(client, write("relayed.md"))
        approval_id = frame["payload"]["approval_id"]
        said = await client.request("approval.answer", approval_id=approval_id, answer="approve")
        granted = await client.until("approval.granted")
        await client.until("task.succeeded")
        late = await client.request("approval.answer", approval_id=approval_id, answer="reject", comment="too late")

    assert said["ok"], said
    assert (frame["event"], granted["payload"]["way"]) == ("tool.call.confirmation", "relay")
    assert (server.home.project / "notes" / "relayed.md").exists()
    assert late["error"]["code"] == "approval.late"
    assert late["error"]["message"].endswith("Your answer did nothing."), "nobody clicks in a kernel"


async def test_a_kernel_answers_nothing_of_another_session(server: Gateway) -> None:
    approval = await asyncio.to_thread(asked, server, write("theirs.md"), "theirs")
    token = await asyncio.to_thread(kernel, server, "stranger.ipynb")
    async with connected(server, token["token"]) as client:
        said = [
            await client.request(
                "approval.answer",
                approval_id=approval["approval_id"],
                answer=choice,
                session_id=approval["session_id"],
                way="browser",
            )
            for choice in ("approve", "reject", "renew")
        ]
        over_rest, _ = await asyncio.to_thread(answer, server, approval["approval_id"], "approve", token["token"])

    assert [frame["error"]["code"] for frame in said] == ["policy.session"] * 3
    assert over_rest == 403
    left = await asyncio.to_thread(get, server, f"approvals/{approval['approval_id']}")
    assert left["status"] == "pending"
    tried = [
        event for event in await asyncio.to_thread(events, server, "approval.refused") if event["why"] == "session"
    ]
    assert [(event["answer"], event["way"]) for event in tried] == [
        ("approve", "relay"),
        ("reject", "relay"),
        ("renew", "relay"),
    ]
    await asyncio.to_thread(answer, server, approval["approval_id"], "reject")


@pytest.mark.parametrize("params", [{}, {"answer": "yes"}, {"answer": "approve"}, {"answer": "approve", "extent": "x"}])
async def test_an_answer_that_is_none_is_refused(server: Gateway, params: dict[str, str]) -> None:
    async with connected(server) as client:
        said = await client.request("approval.answer", **params)

    assert said["error"]["code"] == "input.shape"


def test_what_can_not_be_undone_takes_more_than_a_kernels_word(home: GatewayHome) -> None:
    session = "grave.ipynb"
    with start_gateway(home) as gateway:
        first = asked(gateway, session=f"notebook:{session}")
    letters, to_page = copies(grave(), 2), grave(needs=AuthStrength.BROWSER)
    record(home, first, *letters, to_page)
    with start_gateway(home) as gateway:
        token = kernel(gateway, session)

        async def relayed() -> list[dict[str, Any]]:
            async with connected(gateway, token["token"]) as client:
                return [
                    await client.request("approval.answer", approval_id=letters[0].approval_id, answer=choice)
                    for choice in ("approve", "reject")
                ]

        weak, no = asyncio.run(relayed())
        for_ever = answer(gateway, letters[1].approval_id, "approve", extent="session")
        once = answer(gateway, letters[1].approval_id, "approve")
        by_program = answer(gateway, to_page.approval_id, "approve")
        enough = answer(gateway, to_page.approval_id, "approve", token=JUPYTER_TOKEN)
        waits = get(gateway, f"tasks/{first['task_id']}")["status"]
        answer(gateway, first["approval_id"], "approve")
        task = ended(gateway, first["task_id"])

    assert weak["error"]["code"] == "policy.way"
    assert "ozzie approvals approve" in weak["error"]["hint"]
    assert no["ok"], "a no may come from anywhere"
    assert (for_ever[0], for_ever[1]["code"]) == (403, "policy.extent")
    assert (by_program[0], by_program[1]["code"]) == (403, "policy.way")
    assert (enough[0], once[0], waits, task["status"]) == (200, 200, "WAITING_APPROVAL", "SUCCEEDED")
    bodies = [event.body for event in refused(home)]
    assert [(body.why, body.way) for body in bodies if isinstance(body, ApprovalRefused)] == [
        ("way", AuthStrength.RELAY),
        ("extent", AuthStrength.CLI),
        ("way", AuthStrength.CLI),
    ]


def test_one_that_expired_is_asked_anew_and_not_done_meanwhile(home: GatewayHome) -> None:
    with start_gateway(home) as gateway:
        first = asked(gateway)
    record(home, first, ApprovalExpired(approval_id=ApprovalId(first["approval_id"]), why="time"))
    with start_gateway(home) as gateway:
        expired = get(gateway, f"approvals/{first['approval_id']}")
        late = answer(gateway, first["approval_id"], "approve")
        renewed = answer(gateway, first["approval_id"], "renew")
        until(lambda: get(gateway, "approvals?status=pending")["items"])
        (again,) = get(gateway, "approvals?status=pending")["items"]
        waiting = answer(gateway, again["approval_id"], "renew")
        until(lambda: get(gateway, "approvals?status=pending")["items"])
        (newest,) = get(gateway, "approvals?status=pending")["items"]
        answer(gateway, newest["approval_id"], "approve")
        task = ended(gateway, first["task_id"])

    assert (expired["status"], expired["why"]) == ("expired", "time")
    assert (late[0], late[1]["code"]) == (409, "approval.expired")
    assert "Nothing was done." in late[1]["message"]
    assert (renewed[0], again["call_id"]) == (200, first["call_id"])
    assert (waiting[0], newest["call_id"], newest["binds"]) == (200, first["call_id"], again["binds"])
    assert newest["approval_id"] != again["approval_id"]
    assert task["status"] == "SUCCEEDED"
    assert (home.project / "notes" / "a.md").exists()


def test_who_waits_for_a_turn_is_told_when_it_asks(server: Gateway) -> None:
    turn = post(server, "message", content=write("waits.md"), session_name="waits", wait=True)

    assert turn["status"] == "WAITING_APPROVAL"
    assert [(step["name"], step["status"]) for step in turn["steps"]] == [
        ("offline", "completed"),
        ("write_file", "requested"),
    ]
    post(server, f"tasks/{turn['task_id']}/cancel")
    (approval,) = get(server, f"approvals?task_id={turn['task_id']}")["items"]
    assert (approval["status"], approval["why"]) == ("expired", "task")
    assert answer(server, approval["approval_id"], "approve")[1]["code"] == "approval.expired"


def test_where_nobody_is_there_nothing_waits(server: Gateway) -> None:
    turn = post(server, "message", content=write("alone.md"), session_name="alone", wait=True, attended=False)

    assert turn["status"] == "SUCCEEDED"
    assert "nobody was there to ask" in turn["text"]
    assert get(server, f"approvals?task_id={turn['task_id']}")["items"] == []
