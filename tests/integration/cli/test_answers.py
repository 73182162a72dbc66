"""`ozzie tasks answer`: what the model asks is seen and answered from a terminal."""

import json
from collections.abc import Iterator

import pytest

from tests.integration.gateway.asked import ended
from tests.integration.gateway.test_rest import get, post
from tests.rig import Gateway, new_home, ozzie, start_gateway

WHICH = "Ask me whether I want tea or coffee."


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with start_gateway(new_home(tmp_path_factory.mktemp("answers"))) as running:
        yield running


def asked(server: Gateway, session: str) -> str:
    """The task of a turn that waits for an answer."""
    turn = post(server, "message", content=WHICH, session_name=session, wait=True)
    assert turn["status"] == "WAITING_INPUT", turn
    return str(turn["task_id"])


def test_a_question_is_shown_with_the_command_for_each_answer(server: Gateway) -> None:
    task_id = asked(server, "shown")

    shown = ozzie(server.home, "tasks", "answer", task_id)
    in_full = ozzie(server.home, "tasks", "show", task_id)

    for said in (shown.stdout, in_full.stdout):
        assert "Tea or coffee?\n" in said
        assert f"  Tea                           ozzie tasks answer {task_id} 1\n" in said
        assert f'  Something else…               ozzie tasks answer {task_id} text "TEXT"\n' in said
        assert f"  Skip                          ozzie tasks answer {task_id} skip\n" in said


def test_a_choice_and_words_of_ones_own_are_given(server: Gateway) -> None:
    choice, words = asked(server, "choice"), asked(server, "words")

    first = ozzie(server.home, "tasks", "answer", choice, "2")
    second = ozzie(server.home, "tasks", "answer", words, "text", "a glass of water")

    assert (first.stdout, second.stdout) == ("The task goes on.\n", "The task goes on.\n")
    assert "Your answer is `Coffee`." in ended(server, choice)["text"]
    assert "Your answer is `a glass of water`." in ended(server, words)["text"]


def test_an_answer_is_given_by_its_label_too(server: Gateway) -> None:
    typed, over_rest, skipped = asked(server, "typed"), asked(server, "rest"), asked(server, "skipped")

    first = ozzie(server.home, "tasks", "answer", typed, "tea", "--json")
    post(server, f"tasks/{over_rest}/answer", option="COFFEE")
    last = ozzie(server.home, "tasks", "answer", skipped, "Something else…", "a glass of water")

    assert json.loads(first.stdout) == {"answered": typed, "option": "1"}
    assert last.stdout == "The task goes on.\n"
    assert "Your answer is `Tea`." in ended(server, typed)["text"]
    assert "Your answer is `Coffee`." in ended(server, over_rest)["text"]
    assert "Your answer is `a glass of water`." in ended(server, skipped)["text"]


def test_what_is_no_answer_is_told_with_what_to_do(server: Gateway) -> None:
    task_id = asked(server, "wrong")

    wrong = ozzie(server.home, "tasks", "answer", task_id, "3")
    empty = ozzie(server.home, "tasks", "answer", task_id, "text")
    more = ozzie(server.home, "tasks", "answer", task_id, "1", "please")

    assert [each.returncode for each in (wrong, empty, more)] == [1, 1, 1]
    there = "There are: 1 (Tea), 2 (Coffee), text (Something else…), skip."
    assert f'"3" is no answer to this. {there}' in " ".join(wrong.stderr.split())
    assert 'The answer is empty. Write one, or give "skip".' in " ".join(empty.stderr.split())
    assert '"1" takes no text.' in more.stderr
    assert get(server, f"tasks/{task_id}")["status"] == "WAITING_INPUT"
