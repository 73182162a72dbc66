"""`%tools`, `%tasks`, `%approvals`, `%config`, `%pin`, and a cell that answers a question, against a real gateway."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ozzie_kernel.list_magics import prompt_page
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.render.page import page_bundle
from ozzie_server_ext.render.turnview import ANSWERED
from tests.integration.gateway.asked import asked
from tests.integration.gateway.test_rest import get, post, until
from tests.rig import Gateway, Kernel, recorded_request, start_kernel

pytestmark = pytest.mark.timeout(120)

SUM = "What is 17.5 % of 2,480? Use the calculator."
NOTEBOOK = "lists.ipynb"


@pytest.fixture(scope="module")
def kernel(shared_gateway: Gateway) -> Iterator[Kernel]:
    home = shared_gateway.home
    kernel = start_kernel(replace(home, env={**home.env, "JPY_SESSION_NAME": NOTEBOOK}))
    yield kernel
    kernel.stop()


def plain(kernel: Kernel, code: str) -> str:
    """The cell's answer as a console shows it, on one line."""
    output = kernel.run(code)
    assert output.status == "ok", output
    return " ".join(" ".join(str(bundle["text/plain"]) for bundle in output.bundles).split())


def session_of(gateway: Gateway) -> str:
    """The id of the kernel's current session."""
    return str(get(gateway, "sessions?channel=notebook")["items"][0]["id"])


def test_every_list_shows_what_the_gateway_has(kernel: Kernel, shared_gateway: Gateway) -> None:
    kernel.run("%session new Lists")
    assert "The launch is on Monday." in plain(kernel, "%pin The launch is on Monday.")
    assert "**434**" in kernel.run(SUM).markdown
    session_id = session_of(shared_gateway)
    query = f"events?session_id={session_id}&type=model.call.started&newest_first=true&limit=1"
    (started,) = get(shared_gateway, query)["items"]
    sent = recorded_request(shared_gateway.home.home, started["payload"]["request_blob"])
    (prompt,) = kernel.run("%config prompt").bundles
    approval = asked(shared_gateway, session_id=session_id, session=None)
    tools = plain(kernel, "%tools")
    tasks = plain(kernel, "%tasks")
    approvals = plain(kernel, "%approvals")
    post(shared_gateway, f"approvals/{approval['approval_id']}/reject")

    assert prompt == page_bundle(prompt_page({"request": sent, "ts": started["ts"]}))
    assert any("The launch is on Monday." in message["content"] for message in sent["messages"])
    assert all(tool["name"] in tools for tool in get(shared_gateway, "tools")["items"])
    assert "calculator" in tools
    assert started["task_id"][-8:] in tasks
    assert approval["task_id"][-8:] in tasks
    assert "waits for your yes" in tasks
    assert approval["approval_id"] in approvals
    assert "Nothing is set: everything has its default." in plain(kernel, "%config")
    assert str(Home(shared_gateway.home.home).config_file) in "".join(plain(kernel, "%config").split())
    assert "Nothing is pinned in this session." in plain(kernel, "%pin remove 1")
    assert "Nothing waits for your yes in this session." in plain(kernel, "%approvals")


def test_a_cell_that_answers_an_earlier_question_says_so(kernel: Kernel, shared_gateway: Gateway) -> None:
    kernel.run("%session new Answers")
    session_id = session_of(shared_gateway)
    asking = post(shared_gateway, "message", 202, content="Ask me whether I want tea or coffee.", session_id=session_id)
    until(lambda: get(shared_gateway, f"tasks/{asking['task_id']}")["status"] == "WAITING_INPUT")

    cell = kernel.run("Tea")
    after = kernel.run("Say hello.")

    assert cell.status == "ok"
    assert ANSWERED in cell.markdown
    assert get(shared_gateway, f"tasks/{asking['task_id']}")["text"] in cell.markdown
    assert ANSWERED not in after.markdown
