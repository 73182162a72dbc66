"""How text and amounts are written for people."""

import pytest

from ozzie_server_ext.render.text import (
    byte_count,
    cut_end,
    cut_middle,
    duration,
    elapsed,
    inside,
    money,
    quoted,
    spelled,
    spoken_duration,
    step_count,
    token_count,
    visible_label,
    visible_proof,
    visible_prose,
    without_hidden,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0.0 s"),
        (0.44, "0.4 s"),
        (18, "18.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (252, "4 min 12 s"),
        (3599.6, "1 h 0 min"),
        (7500, "2 h 5 min"),
        (-1, "0.0 s"),
    ],
)
def test_a_measured_time(seconds: float, shown: str):
    assert duration(seconds) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.9, "0 s"), (18.7, "18 s"), (59.9, "59 s"), (252, "4 min 12 s")])
def test_a_running_time_ticks_in_whole_seconds(seconds: float, shown: str):
    assert elapsed(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "said"), [(0, "0 seconds"), (1, "1 second"), (60, "1 minute"), (581, "9 minutes 41 seconds")]
)
def test_a_time_for_a_screen_reader(seconds: float, said: str):
    assert spoken_duration(seconds) == said


@pytest.mark.parametrize(
    ("nano_usd", "shown"),
    [
        (0, "$0.00"),
        (1, "<$0.001"),
        (21_000_000, "$0.021"),
        (999_400_000, "$0.999"),
        (999_600_000, "$1.00"),
        (1_234_567_000_000, "$1,234.57"),
    ],
)
def test_an_amount_of_money(nano_usd: int, shown: str):
    assert money(nano_usd) == shown


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (9999, "9.9 kB"),
        (12_345, "12 kB"),
        (999_999, "999 kB"),
        (1_000_000, "1.0 MB"),
        (5_000_000_000, "5.0 GB"),
    ],
)
def test_a_number_of_bytes(size: int, shown: str):
    assert byte_count(size) == shown


def test_counts_agree_with_their_noun():
    assert [token_count(1), token_count(1940), step_count(1), step_count(3)] == [
        "1 token",
        "1,940 tokens",
        "1 step",
        "3 steps",
    ]


def test_a_cut_keeps_to_its_width():
    assert cut_end("a long sentence", 8) == "a long…"
    assert cut_middle("notes/2026/suppliers.md", 15) == "notes/2…iers.md"
    assert cut_end("short", 5) == cut_middle("short", 5) == "short"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\u001b[31mb"),
        ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
        ("\ud800", "\\ud800"),
        ("a\u2028b\x85c", "a\\u2028b\\u0085c"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_what_could_disguise_prose_is_shown(text: str, shown: str):
    assert visible_prose(text) == shown


@pytest.mark.parametrize("text", ["👩\u200d💻", "می\u200cخواهم", "שלום\u200f!", "é ü 漢字"])
def test_prose_keeps_what_scripts_and_emoji_need(text: str):
    assert visible_prose(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("+a\u200bb\n-ab", "+a\\u200bb\n-ab"),
        ("+x\u200e\u061c = 1\ufeff", "+x\\u200e\\u061c = 1\\ufeff"),
        ("+\u202eb\x1b[2J", "+\\u202eb\\u001b[2J"),
        ("+👩\u200d💻", "+👩\\u200d💻"),
        ("+\tü 漢字\r\n+b", "+\tü 漢字\n+b"),
    ],
)
def test_of_what_somebody_says_yes_to_everything_is_shown(text: str, shown: str):
    assert visible_proof(text) == shown


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("It can be undone.", "it can be undone"),
        ("I want to see it.", "I want to see it"),
        ("JSON files are mine.", "JSON files are mine"),
        ("`rm` is for me.", "`rm` is for me"),
    ],
)
def test_a_sentence_within_another(sentence: str, shown: str):
    assert inside(sentence) == shown


def test_a_quoted_name_is_whole_and_like_no_other():
    long = "a/" + "b" * 500 + "/c.md"

    assert quoted(long) == f"`{long}`"
    assert quoted("plan `b`.md") == r"`plan \u0060b\u0060.md`"
    assert quoted("plan 'b'.md") == "`plan 'b'.md`"
    assert quoted("a\nb\u200b\u202e") == r"`a b\u200b\u202e`"


def test_without_what_nobody_sees_the_rest_stays():
    tags = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")

    assert without_hidden(f"a\u200b\u202eb\ufeff{tags}\x00\u3164c\td\r\ne \u00e4\u65e5") == "abc\td\ne \u00e4\u65e5"


def test_a_label_is_one_line_with_nothing_invisible_in_it():
    assert visible_label(" a\n\tb\u200bc\ufeff\u202e ") == "a b\\u200bc\\ufeff\\u202e"


@pytest.mark.parametrize(
    ("word", "shown"),
    [
        ("plain", '"plain"'),
        ("", '""'),
        ("a b  c", '"a b  c"'),
        ('say "hi" \\', '"say \\"hi\\" \\\\"'),
        ("\\u202e", '"\\\\u202e"'),
        ("\u202e", '"\\u202e"'),
        ("one\ntwo\tthree\r", '"one\\ntwo\\tthree\\r"'),
        ("a\u00a0b\u3000c", '"a\\u00a0b\\u3000c"'),
        ("a\u3164\u2800\ufe0f\U000e0041", '"a\\u3164\\u2800\\ufe0f\\U000e0041"'),
        ("e\u0301\u0336", '"e\\u0301\\u0336"'),
        ("\x1b[2K\x7f\x85", '"\\u001b[2K\\u007f\\u0085"'),
        ("ümläut 日本", '"ümläut 日本"'),
    ],
)
def test_a_word_of_a_command_stands_on_one_line_with_nothing_hidden(word: str, shown: str) -> None:
    assert spelled(word) == shown
