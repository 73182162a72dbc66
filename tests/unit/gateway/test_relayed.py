"""What an attached server makes of an owner's answer."""

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.gateway.rest.handler import MAX_COLLECTED_BYTES, Collected


@pytest.mark.parametrize(
    "said", [b"", b"<html>", b"[1]", b'{"a": NaN}', b'{"a":"' + b"x" * MAX_COLLECTED_BYTES + b'"}']
)
def test_what_is_no_answer_of_a_gateway_is_not_blamed_on_who_asked(said: bytes) -> None:
    answer = Collected()
    answer.data_received(said)

    with pytest.raises(Unavailable, match="What answers at the address"):
        answer.object()


def test_an_answer_that_came_in_pieces_is_one() -> None:
    answer = Collected()
    for piece in (b'{"a"', b": [1, ", b"2]}"):
        answer.data_received(piece)

    assert answer.object() == {"a": [1, 2]}
