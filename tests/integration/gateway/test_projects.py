"""Project folders, named by clients (docs/adr/0056-projects.md)."""

import json
from pathlib import Path

import pytest

from ozzie_server_ext.gateway.routes import PREFIX
from tests.integration.gateway.test_rest import get, post
from tests.integration.gateway.walk import KERNEL_ID, ask
from tests.rig import Gateway, ozzie
from tests.ws_client import connected


@pytest.fixture
def other(gateway: Gateway, tmp_path: Path) -> Path:
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "where.txt").write_text("In the other folder.\n")
    return folder


def test_a_session_is_created_in_a_folder_and_says_which(gateway: Gateway, other: Path) -> None:
    made = post(gateway, "sessions", name="elsewhere", project=str(other))
    plain = post(gateway, "sessions", name="here")

    assert made["project"] == str(other)
    assert plain["project"] == get(gateway, "health")["project"]
    assert get(gateway, f"sessions/{made['id']}")["project"] == str(other)
    assert {"elsewhere": str(other), "here": plain["project"]}.items() <= {
        session["name"]: session["project"] for session in get(gateway, "sessions")["items"]
    }.items()


def test_the_session_of_a_name_works_in_one_folder(gateway: Gateway, other: Path) -> None:
    made = post(gateway, "sessions", name="taken", project=str(other))

    assert post(gateway, "sessions", name="taken")["id"] == made["id"], "without a folder, it is opened wherever it is"
    assert post(gateway, "sessions", name="taken", project=f"{other}/.")["id"] == made["id"]
    refused = post(gateway, "sessions", 409, name="taken", project=get(gateway, "health")["project"])
    assert refused["code"] == "session.project"
    assert str(other) in refused["message"]
    assert refused["hint"]


def test_what_is_no_folder_is_refused(gateway: Gateway) -> None:
    (gateway.home.project / "circle").symlink_to("circle")
    (gateway.home.project / "file").touch()
    circle, file = gateway.home.project / "circle", gateway.home.project / "file"
    for path in ("relative", "", "/nothing/there", "/" * 5000, f"/{'x' * 300}", "/a\0b", str(circle), str(file)):
        refused = post(gateway, "sessions", 400, name="refused", project=path)
        assert refused["message"]
    assert "refused" not in {session["name"] for session in get(gateway, "sessions")["items"]}


def test_ozzies_own_folder_is_no_project(gateway: Gateway) -> None:
    refused = post(gateway, "sessions", 403, project=str(gateway.home.home / "skills"))

    assert (refused["code"], refused["hint"]) == ("home.in_project", "Name another folder.")


def test_labels_of_files_are_asked_for_by_folder(gateway: Gateway, other: Path) -> None:
    assert get(gateway, f"labels?project={other}")["items"] == []
    body = json.dumps({"path": "where.txt", "project": str(other)})
    status, refused = ask(gateway, "POST", f"{PREFIX}/labels/clear", token=gateway.token, body=body)
    assert (status, "bears no label" in refused["message"]) == (404, True)
    listed = ozzie(gateway.home, "labels", "files", "--project", str(other))
    assert listed.stdout == "No file here was made from outside content.\n"
    assert ozzie(gateway.home, "labels", "files", "--project", str(other / "none")).returncode != 0


async def test_a_connection_opens_a_session_in_a_folder(gateway: Gateway, other: Path) -> None:
    async with connected(gateway) as client:
        opened = (await client.request("session.open", session_name="ws elsewhere", project=str(other)))["payload"]
        again = (await client.request("session.open", session_id=opened["session_id"]))["payload"]

    assert opened["project"] == again["project"] == str(other)


def test_a_terminal_asks_about_a_folder(gateway: Gateway, other: Path) -> None:
    asked = ozzie(gateway.home, "ask", "Read where.txt", "--project", str(other), "--json")
    (session,) = (each for each in get(gateway, "sessions")["items"] if each["project"] == str(other))

    assert asked.returncode == 0
    assert get(gateway, f"tasks/{json.loads(asked.stdout)['task_id']}")["session_id"] == session["id"]
    assert (session["name"], session["title"]) == (f"cli:{other}", other.name)
    assert f"in {other}" in ozzie(gateway.home, "sessions", "show", session["id"]).stdout


def test_the_terminals_own_session_is_not_moved_to_a_folder(gateway: Gateway, other: Path) -> None:
    for session in ("mine", "cli"):
        assert ozzie(gateway.home, "ask", "hello", "--session", session).returncode == 0
        refused = ozzie(gateway.home, "ask", "hello", "--session", session, "--project", str(other))
        assert refused.returncode != 0
        assert "works in" in refused.stderr


def test_tools_and_models_are_shown_as_they_are_in_a_folder(gateway: Gateway, other: Path) -> None:
    (other / ".ozzie").mkdir()
    rule = {
        "id": "no-notes",
        "decision": "deny",
        "reason": "Nothing is written here.",
        "when": {"tools": ["fs.write"]},
        "examples": {"match": [{"tool": "write_file", "args": {"path": "note.md"}}]},
    }
    (other / ".ozzie" / "policy.jsonc").write_text(json.dumps({"rules": [rule]}))
    models = {"models": {"aliases": {"there": "offline"}}}
    (other / ".ozzie" / "config.jsonc").write_text(json.dumps(models))
    for words in (["policy", "trust"], ["config", "trust"]):
        assert ozzie(gateway.home, *words, str(other)).returncode == 0
    there = ("--project", str(other))

    assert "never runs" in ozzie(gateway.home, "tools", "show", "write_file", *there).stdout
    assert "never runs" not in ozzie(gateway.home, "tools", "show", "write_file").stdout
    assert "never runs" in ozzie(gateway.home, "tools", "list", *there).stdout
    for words in (["models", "list"], ["models", "show", "there"]):
        assert "there" in ozzie(gateway.home, *words, *there).stdout
        assert "there " not in ozzie(gateway.home, *words).stdout


async def test_a_kernel_names_no_folder(gateway: Gateway, other: Path) -> None:
    token = post(gateway, f"kernels/{KERNEL_ID}/token")["token"]
    async with connected(gateway, token) as kernel:
        for method, params in (("tools.list", {}), ("tools.show", {"name": "read_file"}), ("models.list", {})):
            assert (await kernel.request(method, **params))["ok"]
            refused = await kernel.request(method, **params, project=str(other))
            assert refused["error"]["code"] == "policy.session"
