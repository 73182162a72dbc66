"""Framing: lines come out whole, however the bytes arrive, and no peer can fill the memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.protocol.ndjson import LineDecoder, LineTooLong, decode_line, encode_line

# Every character that str.splitlines would cut at, and others that matter to JSON.
TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["\n", "\r\n", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", '"\\', "😀"]
)
OBJECTS = st.dictionaries(TEXT, TEXT | st.integers(-(2**53), 2**53) | st.none() | st.lists(TEXT), max_size=4)


@given(st.lists(OBJECTS, max_size=6), st.lists(st.integers(1, 40), max_size=60))
def test_what_was_encoded_comes_back_however_it_was_split(messages: list[JsonObject], cuts: list[int]) -> None:
    wire = b"".join(encode_line(message) for message in messages)
    decoder = LineDecoder()
    lines: list[bytes] = []
    for size in cuts:
        lines += decoder.feed(wire[:size])
        wire = wire[size:]
    lines += decoder.feed(wire)
    assert [decode_line(line) for line in lines] == messages


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_the_limit_holds_for_a_line_in_pieces_and_for_one_at_once(size: int) -> None:
    decoder = LineDecoder(max_line=20)
    line = b"x" * 20 + b"\n"
    found = [out for at in range(0, len(line), size) for out in decoder.feed(line[at : at + size])]
    assert found == [b"x" * 20]
    assert [decoder.feed(b"y") for _ in range(20)] == [[]] * 20
    with pytest.raises(LineTooLong):
        decoder.feed(b"y")
    with pytest.raises(LineTooLong):
        LineDecoder(max_line=20).feed(b"z" * 21 + b"\n")


def test_empty_lines_are_passed_over_and_carriage_returns_dropped() -> None:
    assert LineDecoder().feed(b'\n\r\n{"a":1}\r\n\n') == [b'{"a":1}']


@pytest.mark.parametrize("line", [b"hello", b"7", b'"text"', b"[1]", b'{"a":NaN}', b'{"a":1,"a":2}', b"{", b"\xff"])
def test_a_line_that_is_no_strict_json_object_is_plain_text(line: bytes) -> None:
    assert decode_line(line) == line.decode("utf-8", "replace")


def test_a_lone_surrogate_of_a_model_is_repaired() -> None:
    assert decode_line(rb'{"text":"a\ud800b"}') == {"text": "a\ufffdb"}


def test_a_message_over_the_limit_is_not_encoded() -> None:
    with pytest.raises(LineTooLong):
        encode_line({"text": "x" * 30}, max_line=30)


def test_where_lines_are_text_an_empty_one_is_kept_and_what_has_no_end_is_there_too() -> None:
    decoder = LineDecoder(keep_empty=True)
    assert decoder.feed(b"\na\n\r\n\nb") == [b"", b"a", b"", b""]
    assert decoder.rest() == b"b"
    assert decoder.feed(b"c\n") == [b"bc"]
    assert decoder.rest() == b""
