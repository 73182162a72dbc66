"""The chain's two hashes, spelled out, so that another program can check a log."""

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.protocol.jsontext import canonical_bytes
from ozzie_server_ext.store.chain import ChainWalk, Envelope, StoredBody, commit_to, hash_of
from ozzie_server_ext.store.log import BEGINNING

_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
_ENVELOPES = st.builds(
    Envelope,
    position=st.integers(1, 2**62),
    event_id=_TEXT,
    stream=_TEXT,
    version=st.integers(1, 2**62),
    ts=_TEXT,
    type=_TEXT,
    schema=st.integers(1, 99),
    actor=_TEXT,
    source=_TEXT,
    session_id=st.none() | _TEXT,
    task_id=st.none() | _TEXT,
    trace_id=_TEXT,
    span_id=_TEXT,
    causation_id=st.none() | _TEXT,
    idempotency_key=st.none() | _TEXT,
    labels=st.lists(_TEXT).map(lambda values: canonical_bytes(values).decode()),
    sources=st.just("[]"),
    commitment=_TEXT,
    prev_hash=_TEXT,
    hash=st.just(""),
)


@pytest.mark.parametrize("damage", ["a body", "a salt", "a long salt", "labels", "a hash"])
def test_values_of_another_type_as_in_a_damaged_page_are_a_finding(damage: str) -> None:
    stored = StoredBody(b"{}", b"salt")
    values: list[Any] = [
        1,
        "e",
        "s",
        1,
        "ts",
        "type",
        1,
        "user",
        "test",
        None,
        None,
        "",
        "",
        None,
        None,
        "[]",
        "[]",
        *"chp",
    ]
    envelope = Envelope._make(values)._replace(prev_hash=BEGINNING.hash, commitment=commit_to(stored))
    envelope = envelope._replace(hash=hash_of(envelope))
    assert ChainWalk().step(envelope, stored) is None
    odd: dict[str, Any] = {
        "a body": (envelope, StoredBody("{}", b"salt")),  # pyright: ignore[reportArgumentType]
        "a salt": (envelope, StoredBody(b"{}", 7)),  # pyright: ignore[reportArgumentType]
        "a long salt": (envelope, StoredBody(b"{}", b"x" * 300)),
        "labels": (envelope._replace(labels=7), stored),
        "a hash": (envelope._replace(hash=b"x"), stored),
    }
    found = ChainWalk().step(*odd[damage])

    assert found is not None
    assert not found.ok


def test_a_commitment_is_what_the_docstring_says() -> None:
    body, salt = b'{"title":"a"}', bytes(range(16))
    spelled = b"ozzie body 1\0" + b"\x10" + salt + b"\0\0\0\0\0\0\0\x0d" + body
    assert commit_to(StoredBody(body, salt)) == hashlib.sha256(spelled).hexdigest()


def test_salt_and_body_can_not_be_told_apart_differently() -> None:
    assert commit_to(StoredBody(b"bc", b"a")) != commit_to(StoredBody(b"c", b"ab"))


@given(_ENVELOPES)
def test_a_hash_is_over_the_canonical_json_of_the_envelope(envelope: Envelope) -> None:
    fields = envelope._asdict()
    del fields["hash"]
    fields["labels"] = json.loads(envelope.labels)
    fields["sources"] = []
    assert hash_of(envelope) == hashlib.sha256(b"ozzie event 1\0" + canonical_bytes(fields)).hexdigest()


@pytest.mark.parametrize("name", ["stream", "source", "idempotency_key"])
def test_half_a_surrogate_pair_has_no_hash(name: str) -> None:
    envelope = Envelope(1, "e", "s", 1, "", "t", 1, "user", "", None, None, "", "", None, None, "[]", "[]", "", "", "")
    with pytest.raises(InputError):
        hash_of(envelope._replace(**{name: "\ud800"}))
