"""`%session` and `%cost` in real kernels: one session after another in one notebook, and what each has used."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.openai_server import FakeOpenAI
from tests.hostile.samples import BROWSER_TWELVE, render_sample
from tests.rig import GatewayHome, Kernel, new_home, ozzie, start_kernel
from tests.unit.render.test_hostile import assert_inert_source
from tests.unit.render.test_page import UNSAFE

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHome]:
    home = new_home(tmp_path_factory.mktemp("sessions"))
    yield replace(home, env={**home.env, "JPY_SESSION_NAME": "plans.ipynb"})
    home.stop_gateways()


@pytest.fixture(scope="module")
def kernel(home: GatewayHome) -> Iterator[Kernel]:
    kernel = start_kernel(home)
    yield kernel
    kernel.stop()


def plain(kernel: Kernel, code: str) -> str:
    """The cell's answer as a console shows it."""
    output = kernel.run(code)
    assert output.status == "ok", output
    return "\n".join(str(bundle["text/plain"]) for bundle in output.bundles)


def complete(kernel: Kernel, text: str) -> dict[str, Any]:
    kernel.client.complete(text, len(text))
    return kernel.client.get_shell_msg(timeout=20)["content"]


def test_a_notebook_goes_from_one_session_to_another_and_back(kernel: Kernel, home: GatewayHome) -> None:
    kernel.run("my name is Ana")
    assert plain(kernel, "%session").startswith("This is the session plans.ipynb.")

    begun = plain(kernel, "%session new Prices in May")
    assert begun.startswith("A new session begins: Prices in May.")
    assert "Messages  0" in plain(kernel, "%session")
    kernel.run("Say hello.")

    resumed = plain(kernel, "%session resume plans.IPYNB")
    assert "The session plans.ipynb goes on here. It has 2 messages" in resumed
    listed = plain(kernel, "%session list")
    assert [line.rstrip().endswith("this one") for line in listed.splitlines() if "plans" in line] == [True]
    assert "Prices in May" in listed
    assert max(map(len, listed.splitlines())) <= 80

    # A kernel that starts later on the same notebook finds the session that was chosen last.
    kernel.run("%session resume Prices in May")
    second = start_kernel(home)
    try:
        assert plain(second, "%session").startswith("This is the session Prices in May.")
    finally:
        second.stop()


def test_a_session_is_named_put_away_closed_and_opened_again(kernel: Kernel) -> None:
    kernel.run("%session new")
    kernel.run("What is 2+2?")
    assert plain(kernel, "%session").startswith("This is the session What is 2+2?.")
    assert "is called Sums now" in plain(kernel, "%session title Sums")
    kernel.run("%session archive")
    assert "Sums" in plain(kernel, "%session list archived")
    assert kernel.run("What is 3+3?").status == "ok"
    assert "Sums" not in plain(kernel, "%session list archived")

    kernel.run("%session close")
    refused = kernel.run("What is 4+4?")
    assert refused.status == "error"
    assert "This session is closed." in refused.markdown
    kernel.run("%session resume Sums")
    assert kernel.run("What is 4+4?").status == "ok"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("%session nwe", "Did you mean `%session new`?"),
        ("%session resume", "`%session list` shows them."),
        ("%session resume nothing of that name", 'There is no session "nothing of that name".'),
        ("%session title", "A session needs a title."),
        ("%session list everything", "`%session list`"),
        ("%cost all", "`%cost`"),
        ("%help nope", "There is no magic %nope."),
        ("%sesion", "Did you mean `%session`?"),
    ],
)
def test_what_is_mistyped_is_told_with_what_was_meant(kernel: Kernel, cell: str, said: str) -> None:
    output = kernel.run(cell)

    assert output.status == "error"
    assert said in "\n".join(str(bundle["text/plain"]) for bundle in output.bundles)
    assert "error" not in output.messages


def test_a_title_that_is_not_found_is_quoted_as_it_is_and_the_hint_is_a_cells(kernel: Kernel) -> None:
    shown = kernel.run("%session resume A *bold* ![](http://example.org/x.png)")

    assert "\\*bold\\*" in shown.markdown or "&#42;bold&#42;" in shown.markdown
    assert "`%session list` shows them." in shown.markdown
    assert "ozzie sessions list" not in shown.markdown
    assert_inert_source(shown.markdown)


def test_a_new_session_keeps_the_model_that_was_connected(kernel: Kernel, fake_openai: FakeOpenAI) -> None:
    kernel.run("%session new Before")
    kernel.run(f"%model openai/echo {fake_openai.url}/v1")

    assert "openai/echo answers in it, too." in plain(kernel, "%session new After")

    assert kernel.run("say this").turn["parts"][0]["text"] == "say this"
    kernel.run("%model offline")


def test_a_cell_that_is_longer_than_a_message_may_be_is_told_at_once_and_the_next_one_works(kernel: Kernel) -> None:
    output = kernel.run("a" * (1 << 20))

    assert output.status == "error"
    assert "at most 1,048,576 are allowed." in output.markdown
    assert "Put the text into a file" in output.markdown
    assert kernel.run("What is 4+4?").status == "ok"


def test_costs_are_told_turn_by_turn_and_an_unknown_price_is_never_nothing(
    home: GatewayHome, kernel: Kernel, fake_openai: FakeOpenAI
) -> None:
    kernel.run("%session new Costs")
    kernel.run("What is 2+2?")
    kernel.run(f"%model openai/echo {fake_openai.url}/v1")
    kernel.run("how much is this?")

    lines = plain(kernel, "%cost").splitlines()
    (offline,) = [line for line in lines if "What is 2+2?" in line]
    (unknown,) = [line for line in lines if "how much is this?" in line]
    (total,) = [line for line in lines if "This session" in line]
    kernel.run("%model offline")

    assert offline.endswith("$0.00")
    assert unknown.endswith("unknown")
    assert total.endswith("unknown")
    assert max(map(len, lines)) <= 80


def test_titles_that_try_to_be_more_stay_text_in_every_list(kernel: Kernel) -> None:
    kernel.run("%session new")
    for name in (*BROWSER_TWELVE, "control_characters", "bidi_override"):
        # Halves of surrogate pairs are left out: no front end can send them.
        title = re.sub("[\ud800-\udfff\n]", " ", render_sample(name, "http://127.0.0.1:9"))
        kernel.run(f"%session title {title}")
        for cell in ("%session", "%session list"):
            output = kernel.run(cell)
            (bundle,) = output.bundles
            assert_inert_source(bundle["text/markdown"])
            assert not UNSAFE.search(bundle["text/plain"])
        matches = complete(kernel, "%session resume ")["matches"]
        assert all(match.isprintable() for match in matches)
    kernel.run("%session title plain again")


@pytest.mark.soak
def test_messages_that_try_to_be_more_stay_text_in_the_table_of_costs(kernel: Kernel) -> None:
    kernel.run("%session new Hostile")
    for name in BROWSER_TWELVE:
        kernel.run(render_sample(name, "http://127.0.0.1:9"))

    (bundle,) = kernel.run("%cost").bundles

    assert_inert_source(bundle["text/markdown"])
    assert not UNSAFE.search(bundle["text/plain"])
    assert len(bundle["text/plain"].splitlines()) >= len(BROWSER_TWELVE)


def test_two_kernels_in_one_session_take_turns_and_leave_each_others_alone(
    home: GatewayHome, kernel: Kernel, fake_openai: FakeOpenAI
) -> None:
    kernel.run("%session new Shared")
    kernel.run(f"%model openai/endless {fake_openai.url}/v1")
    running = kernel.send("go on for ever")
    kernel.output(running, until_live="jp-RenderedHTMLCommon")
    second = start_kernel(home)
    try:
        waiting = second.send("and then this")
        second.output(waiting, until_live="Queued behind 1 task")
        second.interrupt()
        assert "Stopped here by you." in second.output(waiting).markdown
        assert second.run("%session new Elsewhere").status == "ok"
        assert second.run("%model offline").status == "ok"
        assert second.run("What is 2+2?").status == "ok"
    finally:
        second.stop()

    assert "endless" not in fake_openai.disconnects, "the running turn was touched"
    kernel.interrupt()
    output = kernel.output(running)

    assert "Stopped here by you." in output.markdown
    assert plain(kernel, "%session").startswith("This is the session Shared.")
    fake_openai.wait_for(lambda fake: fake.disconnects.count("endless") == 1)


def test_a_session_is_found_by_what_was_said_in_it(kernel: Kernel) -> None:
    plain(kernel, "%session new Okapis")
    plain(kernel, "%model offline")
    kernel.run("Tell me of the okapi in Epulu.")

    here = plain(kernel, "%session find okapi epulu")
    plain(kernel, "%session new Elsewhere")
    found = plain(kernel, "%session find okapi epulu")
    refused = kernel.run("%session find")
    nothing = plain(kernel, "%session find nonesuchword")

    assert "Okapis" in found
    assert "Tell me of the okapi in Epulu." in " ".join(found.split())
    assert "Go on in another session with %session resume ID." in found
    assert "this one" in here
    assert "%session resume" not in here
    assert max(map(len, found.splitlines())) <= 80
    assert nothing.startswith("Nothing was found.")
    assert (refused.status, refused.evalue.startswith("%session find needs the words")) == ("error", True)


def test_a_session_is_exported_into_a_file_beside_the_notebook(kernel: Kernel, home: GatewayHome) -> None:
    plain(kernel, "%session new Quaggas")
    plain(kernel, "%model offline")
    kernel.run("Tell me of the quagga.")

    done = plain(kernel, "%session export quagga.ipynb")
    again = kernel.run("%session export quagga.ipynb")
    wrong = kernel.run("%session export quagga.pdf")
    none = kernel.run("%session export")

    found = re.search(r"/\S+/quagga\.ipynb", "".join(done.splitlines()))
    assert found is not None, done
    path = Path(found[0])
    assert json.loads(path.read_text())["cells"][1]["source"] == "Tell me of the quagga."
    assert "check it with ozzie sessions verify quagga.ipynb" in " ".join(done.split())
    assert ozzie(home, "sessions", "verify", str(path)).returncode == 0
    assert [each.status for each in (again, wrong, none)] == ["error"] * 3
    assert "exists already" in again.evalue
    assert "does not say what to write" in wrong.evalue
    assert none.evalue.startswith("Which file is to be written?")


def test_a_session_is_forked_from_a_turn_into_a_notebook_beside_this_one(kernel: Kernel, home: GatewayHome) -> None:
    plain(kernel, "%session new Tapirs")
    plain(kernel, "%model offline")
    assert "This session has no turn yet." in plain(kernel, "%session turns")
    kernel.run("Tell me of the tapir.")
    kernel.run("Tell me of its nose.")

    turns = plain(kernel, "%session turns")
    done = plain(kernel, "%session fork 1")
    again = plain(kernel, "%session fork --from 1")
    missing = kernel.run("%session fork 7")
    wrong = kernel.run("%session fork tapirs")

    assert [line.split()[0] for line in turns.splitlines() if "Tell me" in line] == ["1", "2"]
    assert "%session fork 2" in turns
    assert done.startswith("The fork Tapirs (from turn 1) begins after turn 1. This session stays.")
    assert done.endswith("with the cells up to there: plans-from-turn-1.ipynb")
    assert again.endswith("plans-from-turn-1-2.ipynb")
    assert [each.status for each in (missing, wrong)] == ["error"] * 2
    assert missing.evalue.startswith("There is no turn 7: the session has 2 turns.")
    assert wrong.evalue.startswith("tapirs is no number of a turn, and no .ipynb file.")
    path = Path(str(kernel.run("%%python\nimport os\nprint(os.getcwd())").streamed.strip())) / "plans-from-turn-1.ipynb"
    assert [cell["source"] for cell in json.loads(path.read_text())["cells"][1:]] == ["Tell me of the tapir.", ""]
    there = start_kernel(replace(home, env={**home.env, "JPY_SESSION_NAME": str(path)}))
    try:
        assert plain(there, "%session").startswith("This is the session Tapirs (from turn 1).")
        assert [line.split()[0] for line in plain(there, "%session turns").splitlines() if "Tell me" in line] == ["1"]
    finally:
        there.stop()
