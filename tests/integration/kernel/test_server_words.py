"""What cells take from MCP servers, as a person types and sees it: a real kernel, gateway, tool host and server."""

import asyncio
import html
from collections.abc import Iterator

import pytest

from ozzie_server_ext.config.home import Home
from tests.mcp_rig import add, expect_sandbox
from tests.rig import GatewayHome, Kernel, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHome]:
    expect_sandbox()
    home = new_home(tmp_path_factory.mktemp("words"))
    state = home.project.parent / "state"
    state.mkdir()
    (state / "words.json").write_text("{}")
    asyncio.run(add(Home(home.home), state, name="notes"))
    yield home
    home.stop_gateways()


@pytest.fixture(scope="module")
def kernel(own_home: GatewayHome) -> Iterator[Kernel]:
    kernel = start_kernel(own_home)
    yield kernel
    kernel.stop()


def completions(kernel: Kernel, typed: str) -> list[str]:
    request = kernel.client.complete(typed, len(typed))
    while True:
        message = kernel.client.get_shell_msg(timeout=30)
        if message["parent_header"]["msg_id"] == request:
            return message["content"]["matches"]


def test_a_resource_is_read_before_the_answer_and_its_row_says_what_it_is(kernel: Kernel) -> None:
    output = kernel.run("What is on @notes:note://milk?")

    assert output.status == "ok"
    assert "| `notes-resource` | `note://milk` | 11 bytes, text/markdown, outside content | done |" in output.markdown


def test_a_resource_that_is_not_there_ends_the_cell_in_words_and_no_model_is_asked(kernel: Kernel) -> None:
    output = kernel.run("What is on @notes:note://nothing?")

    assert output.status == "error"
    assert "`note://nothing` of the server `notes` was not read. There is no note://nothing." in output.evalue
    assert "No model was asked." in output.markdown
    assert "Offline script" not in output.markdown


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("See @notes:milk", "`@notes:milk` names no resource: an address begins with a word and a colon"),
        ("See @notes:note://day/{day}/at/9", "has a variable, `{day}`"),
        ("See @notes:note://mi\u202elk", "has characters that can't be seen"),
        (" ".join(f"@notes:note://{at}" for at in range(11)), "The message names more than 10 resources."),
        ("%run notes:week", "The prompt `notes:week` needs `topic`. Add: topic=…"),
        ("%run notes:week topic=a tone=b", "has no argument `tone`. It takes: topic, style (optional)."),
        (
            "%run notes:weak topic=a",
            "You have trusted no prompt `weak` of the server `notes`. Did you mean notes:week?",
        ),
        ("%run note:week topic=a", "There is no MCP server `note`, so it has no prompt to run."),
        ("%run notes:week a b", "`a` has no name."),
    ],
)
def test_what_can_not_be_meant_is_refused_before_anything_is_sent(cell: str, says: str, kernel: Kernel) -> None:
    output = kernel.run(cell)

    assert output.status == "error"
    assert says in output.evalue


@pytest.mark.parametrize("text", ["Mail a@notes:note://milk", "Hello @ana: come", "In `@notes:note://milk` it says"])
def test_what_names_no_resource_stays_text(text: str, kernel: Kernel) -> None:
    assert "notes-resource" not in kernel.run(text).markdown


def test_a_prompt_is_run_by_its_name_and_its_words_are_shown_as_the_servers(kernel: Kernel) -> None:
    output = kernel.run('%run notes:week topic="milk and eggs"')

    assert output.status == "ok"
    assert "| `notes-prompt` | `week` | 3 messages, outside content | done |" in output.markdown
    shown = html.unescape(output.markdown)
    assert "The server's words, which the model answers:" in shown
    assert "user: Sum up the week about milk and eggs, plainly." in shown
    assert "assistant: I begin with Monday." in shown
    assert "user: note://milk\nmilk, eggs" in shown


def test_what_can_be_run_is_listed_with_the_skills(kernel: Kernel) -> None:
    markdown = kernel.run("%skills").markdown

    assert "`%run notes:week topic=… [style=…]`" in markdown
    assert "Sums up a week (a prompt of notes)" in markdown


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("See @no", ["@notes:"]),
        ("See @notes:", ["@notes:note://milk", "@notes:note://pixel", "@notes:note://day/"]),
        ("See @notes:note://p", ["@notes:note://pixel"]),
        ("See @notes:the mi", []),
        ("See @notes:note://day/m", ["@notes:note://day/monday/at/"]),
        ("%run notes:w", ["notes:week"]),
        ("%run notes:week ", ["topic=", "style="]),
        ("%run notes:week topic=m", ["topic=milk", "topic=mail"]),
        ('%run notes:week topic="milk" style=', ['style="as milk"', "style=short"]),
        ("%run notes:week topic=milk s", ["style="]),
    ],
)
def test_tab_completes_servers_resources_prompts_and_arguments(typed: str, offered: list[str], kernel: Kernel) -> None:
    kernel.run("See @notes:note://milk")  # the server runs

    assert completions(kernel, typed) == offered
