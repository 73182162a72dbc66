"""`ozzie search`."""

import json

from tests.rig import Gateway, ozzie


def test_what_was_said_is_found_with_where_and_when(gateway: Gateway) -> None:
    ozzie(gateway.home, "ask", "How did the revenue of Zubrowka develop?", "--session", "prices")

    found = ozzie(gateway.home, "search", "revenues", "zubrowka", "--explain")
    narrowed = ozzie(gateway.home, "search", "zubrowka", "--session", "prices", "--kind", "message", "--json")
    nothing = ozzie(gateway.home, "search", "zubrowka", "--kind", "title")

    lines = found.stdout.splitlines()
    assert found.returncode == 0
    assert " you       prices  sess_" in lines[0]
    assert lines[1] == "    How did the *revenue* of *Zubrowka* develop?"
    assert lines[2].startswith("    why: revenues ")
    assert lines[-1] == "1 found."
    assert json.loads(narrowed.stdout)["count"] == 1
    assert nothing.stdout == "Nothing was found. All words must be in one text; beg* finds words that begin with beg.\n"


def test_more_than_is_shown_is_counted(gateway: Gateway) -> None:
    for number in range(3):
        ozzie(gateway.home, "ask", f"walrus {number}", "--session", f"w{number}")

    shown = ozzie(gateway.home, "search", "walrus", "--limit", "2", "--kind", "message").stdout

    assert shown.splitlines()[-1] == "2 of 3."


def test_of_a_query_without_a_word_it_is_said_why_nothing_is_found(gateway: Gateway) -> None:
    assert ozzie(gateway.home, "search", "the").stdout.startswith("Nothing was searched for: words of every text")
