"""A secret's value shows in nothing that is not asked for it by name."""

import copy
import json
import pickle
from dataclasses import asdict, dataclass

import msgspec
import pytest

from ozzie_server_ext.vault.scope import Secret

VALUE = "sk-live-0123456789"
SECRET = Secret(VALUE)


@dataclass
class Holder:
    secret: Secret


def test_the_value_is_there_for_who_asks_for_it() -> None:
    assert SECRET.reveal() == VALUE


@pytest.mark.parametrize(
    "text",
    [
        str(SECRET),
        repr(SECRET),
        f"{SECRET}",
        f"{SECRET:>40}",
        f"{SECRET!r:.4}",
        "{}".format(SECRET),  # noqa: UP032
        "%s %r" % (SECRET, SECRET),  # noqa: UP031
        repr([SECRET]),
        repr(Holder(SECRET)),
        str(ValueError(SECRET)),
    ],
)
def test_no_text_of_it_shows_the_value_or_its_length(text: str) -> None:
    assert VALUE[:3] not in text
    assert str(len(VALUE)) not in text


@pytest.mark.parametrize(
    "take",
    [
        pickle.dumps,
        copy.copy,
        copy.deepcopy,
        json.dumps,
        msgspec.json.encode,
        lambda secret: asdict(Holder(secret)),
        lambda secret: secret.__getstate__(),
        vars,
        len,
        hash,
    ],
)
def test_nothing_takes_the_value_out_unasked(take: object) -> None:
    with pytest.raises(TypeError) as caught:
        take(SECRET)  # pyright: ignore[reportCallIssue]

    assert VALUE not in str(caught.value)


def test_two_are_equal_by_their_values_only() -> None:
    assert Secret(VALUE) == SECRET
    assert Secret("other") != SECRET
    assert SECRET != VALUE
