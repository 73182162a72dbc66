"""`ozzie approvals`: what waits is seen and answered from a terminal."""

import json
import re
import sys
from collections.abc import Iterator

import pexpect
import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.events import ApprovalExpired, CardTarget, TargetName
from ozzie_server_ext.domain.ids import ApprovalId
from ozzie_server_ext.domain.toolmeta import TargetKind
from tests.integration.gateway.asked import (
    HIDDEN_COMMAND,
    asked,
    asked_with_a_secret,
    copies,
    ended,
    grave,
    record,
    write,
)
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import Gateway, GatewayHome, new_home, ozzie, start_gateway


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("approvals"))) as running:
        yield running


def test_one_is_listed_shown_and_approved_and_the_turn_goes_on(server: Gateway) -> None:
    approval = asked(server, write("a.md"))
    approval_id = approval["approval_id"]
    listed = ozzie(server.home, "approvals", "list")
    shown = ozzie(server.home, "approvals", "show", approval_id)
    task = ozzie(server.home, "tasks", "show", approval["task_id"])
    approved = ozzie(server.home, "approvals", "approve", approval_id)
    ended(server, approval["task_id"])
    after = ozzie(server.home, "approvals", "list")
    everything = ozzie(server.home, "approvals", "list", "--all", "--limit", "1")

    assert re.search(rf"^{approval_id}  asked \d s ago, (59 min|1 h)", listed.stdout)
    assert "\n  Write a new file, `notes/a.md`, of 3 lines?\n" in listed.stdout
    assert "\n  | +Line 1 of 3 from Ozzie's offline script.\n" in shown.stdout
    for said in (shown.stdout, task.stdout):
        assert f"ozzie approvals approve {approval_id} --session\n         for 30 minutes: `write_file` in" in said
        assert f"ozzie approvals reject {approval_id}" in said
    assert approved.stdout == "Approved once.\n  Write a new file, `notes/a.md`, of 3 lines?\n"
    assert (server.home.project / "notes" / "a.md").exists()
    assert after.stdout == "Nothing waits for your approval.\n"
    assert " in a terminal, " in everything.stdout
    for output in (listed, shown, task, approved, after, everything):
        assert (output.returncode, output.stderr) == (0, "")
        assert max(map(len, output.stdout.splitlines())) <= 80


def test_what_was_taken_out_of_a_question_is_read_here_before_a_yes(server: Gateway) -> None:
    approval_id = asked_with_a_secret(server)["approval_id"]
    listed = ozzie(server.home, "approvals", "list")
    shown = ozzie(server.home, "approvals", "show", approval_id)
    as_json = ozzie(server.home, "approvals", "show", approval_id, "--json")
    unread = ozzie(server.home, "approvals", "approve", approval_id)
    for_session = ozzie(server.home, "approvals", "approve", approval_id, "--session")
    approved = ozzie(server.home, "approvals", "approve", approval_id, "--yes")

    assert HIDDEN_COMMAND not in listed.stdout
    assert f"  | +{HIDDEN_COMMAND}" in shown.stdout
    assert json.loads(json.loads(as_json.stdout)["arguments"])["text"] == f"{HIDDEN_COMMAND}\n"
    for refused in (unread, for_session):
        assert (refused.returncode, HIDDEN_COMMAND in refused.stderr) == (2, True)
        assert "Say so with --yes." in refused.stderr
    assert (approved.returncode, "Approved once." in approved.stdout) == (0, True)
    until((server.home.project / "run.sh").exists)


def test_a_no_reaches_the_model_with_its_comment(server: Gateway) -> None:
    approval = asked(server, write("no.md"))
    rejected = ozzie(server.home, "approvals", "reject", approval["approval_id"], "Not in that folder.")

    assert rejected.stdout.startswith("Rejected. Nothing was done.\n")
    assert '"Not in that folder."' in ended(server, approval["task_id"])["text"]
    assert not (server.home.project / "notes" / "no.md").exists()


def test_an_answer_that_comes_too_late_is_told_so(server: Gateway) -> None:
    approval = asked(server, write("late.md"))
    ozzie(server.home, "approvals", "reject", approval["approval_id"])
    late = ozzie(server.home, "approvals", "approve", approval["approval_id"])
    never = ozzie(server.home, "approvals", "renew", approval["approval_id"], "--json")

    assert (late.returncode, late.stdout) == (1, "")
    assert re.search(r"Already answered: .* rejected it at \d\d:\d\d\. Your answer did nothing\.", late.stderr)
    assert (never.returncode, json.loads(never.stderr)["code"]) == (1, "approval.late")


def test_a_yes_for_the_session_is_taken_back(server: Gateway) -> None:
    approval = asked(server, write("session.md"), session="covered")
    approval_id = approval["approval_id"]
    approved = json.loads(ozzie(server.home, "approvals", "approve", approval_id, "--session", "--json").stdout)
    ended(server, approval["task_id"])
    unasked = post(server, "message", content=write("unasked.md"), session_name="covered", wait=True)
    shown = ozzie(server.home, "approvals", "show", approval_id)
    revoked = ozzie(server.home, "approvals", "revoke", approval_id)
    again = ozzie(server.home, "approvals", "revoke", approval_id)

    assert approved == {"approved": approval_id, "extent": "session"}
    assert unasked["status"] == "SUCCEEDED"
    assert f"Take it back: ozzie approvals revoke {approval_id}" in shown.stdout
    assert revoked.stdout == "Taken back. Such calls ask again from now on.\n"
    assert (again.returncode, "in force" in again.stderr) == (1, True)


def test_one_that_expired_is_still_listed_while_its_task_waits_for_it(home: GatewayHome) -> None:
    with start_gateway(home) as gateway:
        first = asked(gateway)
    record(home, first, ApprovalExpired(approval_id=ApprovalId(first["approval_id"]), why="time"))
    with start_gateway(home) as gateway:
        listed = ozzie(home, "approvals", "list")
        task = ozzie(home, "tasks", "show", first["task_id"])
        renewed = ozzie(home, "approvals", "renew", first["approval_id"])
        until(lambda: get(gateway, "approvals?status=pending")["items"])
        after = json.loads(ozzie(home, "approvals", "list", "--json").stdout)

    assert re.match(rf"{first['approval_id']}  Expired at \d\d:\d\d. Nothing was done.\n", listed.stdout)
    assert listed.stdout.endswith("Ask again for one that expired: ozzie approvals renew ID\n")
    assert f"Ask again: ozzie approvals renew {first['approval_id']}" in task.stdout
    assert renewed.stdout == "The task checks the call again and asks again: ozzie approvals list\n"
    assert [(one["status"], one["approval_id"] != first["approval_id"]) for one in after] == [("pending", True)]


def test_with_json_a_program_reads_what_rest_answers(server: Gateway) -> None:
    approval = asked(server, write("json.md"), session="for programs")
    listed = json.loads(ozzie(server.home, "approvals", "list", "--session", "for programs", "--json").stdout)
    shown = json.loads(ozzie(server.home, "approvals", "show", approval["approval_id"], "--json").stdout)
    rejected = json.loads(ozzie(server.home, "approvals", "reject", approval["approval_id"], "--json").stdout)

    assert listed == [approval] == [shown]
    assert rejected == {"rejected": approval["approval_id"], "comment": ""}


@pytest.mark.parametrize("verb", ["show", "approve", "reject", "renew", "revoke"])
@pytest.mark.parametrize("name", ["nonesuch", "01M800000000000000000000ZZ", "../tasks"])
def test_one_that_there_is_not_is_told(server: Gateway, verb: str, name: str) -> None:
    refused = ozzie(server.home, "approvals", verb, name)

    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"There is no approval {name}." in refused.stderr
    assert "ozzie approvals list" in refused.stderr


def at_the_terminal(home: GatewayHome, approval_id: str, answer: str) -> tuple[int | None, str]:
    """What `ozzie approvals approve` comes to where a person is asked back, and what it says."""
    words = ["-m", "ozzie_server_ext.cli.main", "approvals", "approve", approval_id]
    child: pexpect.spawn = pexpect.spawn(
        sys.executable, words, env=dict(home.env), cwd=str(home.project), encoding="utf-8", timeout=40
    )
    child.expect_exact("| Dear Ana,")
    child.expect_exact("Approve it? [y/N] ")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus, str(child.before)


def test_what_can_not_be_undone_is_approved_here_once_and_never_for_the_session(home: GatewayHome) -> None:
    with start_gateway(home) as gateway:
        first = asked(gateway)
    names = (TargetName(text="ana@example.org"), TargetName(text='"b\\u202ec"', is_read=False))
    to = CardTarget(kind=TargetKind.RECIPIENT, argument="to", names=names)
    (letter,) = copies(replace(grave(), targets=(to,)), 1)
    record(home, first, letter)
    with start_gateway(home):
        shown = ozzie(home, "approvals", "show", letter.approval_id)
        for_ever = ozzie(home, "approvals", "approve", letter.approval_id, "--session")
        unasked = ozzie(home, "approvals", "approve", letter.approval_id)
        no = at_the_terminal(home, letter.approval_id, "n")
        still = ozzie(home, "approvals", "list")
        yes = at_the_terminal(home, letter.approval_id, "y")
        task = ozzie(home, "tasks", "show", first["task_id"])

    below = '\n  Send the letter to `ana@example.org`?\n  To: ana@example.org, "b\\u202ec" (can\'t be read)\n'
    for output in (shown.stdout, still.stdout, unasked.stderr):
        assert below in output
    assert "  | Dear Ana,\n  |\n  | it is done.\n" in shown.stdout
    assert "Each such call asks." in shown.stdout
    assert (for_ever.returncode, "approve it once" in for_ever.stderr) == (1, True)
    assert (unasked.returncode, "Say so with --yes." in unasked.stderr) == (2, True)
    assert (no[0], "it still waits" in no[1], letter.approval_id in still.stdout) == (1, True, True)
    assert (yes[0], "Approved once." in yes[1]) == (0, True)
    assert (first["approval_id"] in task.stdout, letter.approval_id in task.stdout) == (True, False)


def test_a_turn_at_the_terminal_says_what_it_waits_for_and_goes_on(server: Gateway) -> None:
    (server.home.project / "notes").mkdir(exist_ok=True)
    words = ["-m", "ozzie_server_ext.cli.main", "ask", write("typed.md")]
    child: pexpect.spawn = pexpect.spawn(
        sys.executable, words, env=dict(server.home.env), cwd=str(server.home.project), encoding="utf-8", timeout=40
    )
    child.expect_exact("Approval needed (expires in 60 min)")
    child.expect_exact("Write a new file, notes/typed.md, of 3 lines?")
    child.expect(r"Approve once: ozzie approvals approve \w{26}")
    (pending,) = get(server, "approvals?status=pending&limit=1")["items"]
    approved = ozzie(server.home, "approvals", "approve", pending["approval_id"])
    child.expect_exact("[done]")
    child.expect(pexpect.EOF)
    child.close()

    assert (approved.returncode, child.exitstatus) == (0, 0)
    assert get(server, "approvals?limit=1")["items"][0]["status"] == "granted"
