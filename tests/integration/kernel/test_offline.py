"""A kernel with nothing configured: the offline script answers, and the commands work."""

import os
from collections.abc import Iterator

import pytest

from ozzie_server_ext.gateway.ws import MAX_SUBSCRIPTIONS
from tests.rig import GatewayHome, Kernel, new_home, start_kernel

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("offline"))
    (home.project / "data").mkdir()
    (home.project / "data" / "three.csv").write_text("a,b\n1,2\n3,4\n5,6\n")
    yield home
    home.stop_gateways()


@pytest.fixture(scope="module")
def kernel(own_home: GatewayHome) -> Iterator[Kernel]:
    kernel = start_kernel(own_home)
    yield kernel
    kernel.stop()


def test_a_cell_is_answered_without_a_key_and_says_so(kernel: Kernel) -> None:
    output = kernel.run("Say hello and tell me what you are.")

    assert output.status == "ok"
    assert "Offline script, not a language model. Connect a model for real answers: %model" in output.markdown
    assert output.turn["parts"][0]["text"]
    assert any("Working" in html for html in output.live)


def test_a_file_of_the_project_is_read_in_two_steps(kernel: Kernel) -> None:
    output = kernel.run("How many rows has @data/three.csv?")

    assert "**3 rows**" in output.markdown
    assert "| `list_files` |" in output.markdown
    assert "| `read_file` |" in output.markdown


def test_python_cells_run_in_the_same_kernel(kernel: Kernel) -> None:
    kernel.run("%%python\nimport os\nkept = os.getpid()")

    assert kernel.run("%%python\nprint(kept)").streamed.strip() == str(kernel.pid)


def test_an_error_in_python_is_pythons_own(kernel: Kernel) -> None:
    output = kernel.run("%%python\n1/0")

    assert (output.status, output.ename) == ("error", "ZeroDivisionError")


def test_help_lists_every_magic(kernel: Kernel) -> None:
    markdown = kernel.run("%help").markdown

    assert all(word in markdown for word in ("%help", "%model", "%%python"))


def test_an_unknown_magic_is_named_with_those_that_there_are(kernel: Kernel) -> None:
    output = kernel.run("%nope")

    assert output.status == "error"
    assert "There is no magic %nope." in output.markdown
    assert "%model" in output.markdown


def test_what_an_error_quotes_can_not_draw_on_a_terminal(kernel: Kernel) -> None:
    output = kernel.run("%model no\x1b[31m\u202ene")

    assert output.status == "error"
    assert "no\\u001b[31m\\u202ene" in output.evalue


def test_magics_and_a_message_in_one_cell_are_kept_apart(kernel: Kernel) -> None:
    output = kernel.run("%help\nand tell me a joke")

    assert output.status == "error"
    assert "into a separate cell" in output.markdown


def test_an_empty_cell_does_nothing(kernel: Kernel) -> None:
    output = kernel.run("   \n")

    assert output.status == "ok"
    assert output.bundles == []


def test_a_console_gets_text_that_is_written_once(kernel: Kernel) -> None:
    output = kernel.run("What is 2+2? Use the calculator.", cell_id="", allow_stdin=True)

    assert output.streamed.startswith("[working]")
    assert "[done]" in output.streamed
    assert output.streamed.count("Offline script") == 1
    assert output.bundles == []


def test_where_nobody_watches_only_the_saved_form_is_left(kernel: Kernel) -> None:
    output = kernel.run("Say hello.", cell_id="", allow_stdin=False)

    assert len(output.bundles) == 1
    assert output.live == []
    assert set(output.bundles[0]) == {"application/vnd.ozzie.turn+json", "text/markdown", "text/plain"}


def test_cells_are_counted_and_kept_in_the_history(kernel: Kernel) -> None:
    first = kernel.run("Say hello.")
    second = kernel.run("%help")

    assert first.execution_count is not None
    assert second.execution_count == first.execution_count + 1
    kernel.client.history(hist_access_type="tail", n=2)
    history = kernel.client.get_shell_msg(timeout=20)["content"]["history"]
    assert [line[2] for line in history] == ["Say hello.", "%help"]


@pytest.mark.soak
def test_a_kernel_runs_more_cells_than_a_connection_can_follow_feeds(kernel: Kernel) -> None:
    outputs = [kernel.run("hi") for _ in range(MAX_SUBSCRIPTIONS + 8)]

    assert {output.status for output in outputs} == {"ok"}


def test_magics_are_completed(kernel: Kernel) -> None:
    kernel.client.complete("%mo", 3)

    assert kernel.client.get_shell_msg(timeout=20)["content"]["matches"] == ["%model"]


def test_a_second_kernel_shares_the_gateway_that_the_first_one_started(kernel: Kernel, own_home: GatewayHome) -> None:
    second = start_kernel(own_home)
    try:
        kernel.run("Say hello.")
        second.run("Say hello.")
    finally:
        second.stop()

    handshake = own_home.handshake()
    assert handshake is not None
    assert len(list(own_home.runtime.glob("ozzie-*.json"))) == 1
    assert os.getsid(handshake.pid) != os.getsid(kernel.pid), "the kernel's interrupt would reach the gateway"
