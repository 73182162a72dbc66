"""Private keys are found however their lines are quoted, prefixed, joined or cut, and what stands around them stays."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.redaction import redact, redact_text, redacted_lines
from tests.unit.domain.test_redaction import DASHES, HEX, ORDINARY, PEM, made

ENCRYPTED = PEM.replace("\n", f"\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,{HEX.upper() * 2}\n\n", 1)


@pytest.mark.parametrize("key", [PEM, ENCRYPTED])
@pytest.mark.parametrize(
    "around", ["> {}", "# {}", "+{}", "   12\t{}", "keys/id_rsa:{}", '    "{}\\n",', "        b'{}\\n'"]
)
def test_a_private_key_is_found_however_its_lines_are_quoted(key: str, around: str) -> None:
    said = redact_text("\n".join(["before", *(around.format(line) for line in key.split("\n")), "after it"]))

    assert said == "\n".join(["before", around.format("[redacted: private key]"), "after it"])


@pytest.mark.parametrize("joined", ["\n", "\r\n", "\\n", "\\\\n", " ", ""])
def test_a_private_key_is_found_however_its_lines_are_joined(joined: str) -> None:
    assert redact_text(f"a {PEM.replace(chr(10), joined)} b") == "a [redacted: private key] b"


def test_the_end_of_a_private_key_is_taken_out_without_its_beginning() -> None:
    cut = PEM.split("\n", 1)[1]

    assert redact_text(f"a line\n{cut}\nb") == "a line\n[redacted: private key]\nb"


def test_the_text_after_a_beginning_without_a_key_stays() -> None:
    text = f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}\n" + "and then there is a text that goes on for a while\n" * 9

    assert redact_text(text) == text
    assert redact_text(f"{PEM[:110]}\nThis is the text behind it.").endswith("]\nThis is the text behind it.")


def test_a_private_key_in_a_list_of_lines_is_taken_out_and_the_list_keeps_its_length() -> None:
    lines: list[Any] = [f"{line}\n" for line in ["first", *PEM.split("\n"), "last"]]

    masks = ["[redacted: private key]"] * 4 + ["[redacted: private key]\n"]
    assert redact({"source": lines}) == {"source": ["first\n", *masks, "last\n"]}


@given(st.lists(st.sampled_from([PEM, ENCRYPTED, 'DB_PASSWORD="aB3$dE6gH9jK"', *ORDINARY, "a", ""]), max_size=9))
def test_lines_count_as_before_where_they_are_to(pieces: list[str]) -> None:
    text = "\n".join(pieces)
    said = redacted_lines(text)

    assert said.count("\n") == text.count("\n")
    assert redacted_lines(said) == said == redact_text(said)
    assert said.count(made(64)) == sum(piece.count(made(64)) for piece in pieces if piece in ORDINARY)


def test_a_private_key_without_its_end_is_taken_out_as_far_as_it_goes() -> None:
    cut = PEM[: len(PEM) // 2]

    assert redact_text(f'{{"key": "{cut}", "n": 1}}') == '{"key": "[redacted: private key]", "n": 1}'
