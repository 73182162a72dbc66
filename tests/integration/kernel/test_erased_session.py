"""A notebook whose session is erased, or a turn of it, while it is open."""

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.rig import GatewayHome, Kernel, new_home, ozzie, start_kernel

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("erased"))
    yield replace(home, env={**home.env, "JPY_SESSION_NAME": "plans.ipynb"})
    home.stop_gateways()


@pytest.fixture
def kernel(home: GatewayHome) -> Iterator[Kernel]:
    kernel = start_kernel(home)
    yield kernel
    kernel.stop()


def test_the_next_cell_says_that_the_session_was_erased_and_how_to_go_on(kernel: Kernel, home: GatewayHome) -> None:
    kernel.run("What is 2+2?")
    erased = ozzie(home, "sessions", "erase", "plans.ipynb", "--yes")
    assert erased.returncode == 0, erased.stderr

    for cell in ("What is 3+3?", "%session", "%cost", "%pin x"):
        refused = kernel.run(cell)
        shown = "\n".join(str(bundle["text/plain"]) for bundle in refused.bundles)
        assert refused.status == "error"
        assert "This session was erased on 2" in shown
        assert "%session new" in shown

    begun = kernel.run("%session new")
    assert [bundle["text/plain"] for bundle in begun.bundles] == ["A new session begins."]
    assert kernel.run("What is 4+4?").status == "ok"


def test_a_conversation_goes_on_without_an_erased_turn(kernel: Kernel, home: GatewayHome) -> None:
    for text in ("What is 2+2?", "What is 3+3?"):
        kernel.run(text)
    messages = json.loads(ozzie(home, "messages", "list", "plans.ipynb", "--json").stdout)
    ozzie(home, "messages", "erase", messages[0]["message_id"], "--yes")

    assert kernel.run("What is 4+4?").status == "ok"
    left = json.loads(ozzie(home, "messages", "list", "plans.ipynb", "--json").stdout)
    assert [message["content"] for message in left if message["role"] == "user"] == ["What is 3+3?", "What is 4+4?"]
