"""With which message a request begins when not all of a session's fit."""

import hashlib
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.agent.entries import first_of
from ozzie_server_ext.domain.ids import TaskId

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=60)
"""The messages of each turn."""


def begins_of(lengths: list[int]) -> dict[int, TaskId | None]:
    sums = [sum(lengths[:index]) for index in range(len(lengths))]
    return {begin: TaskId(hashlib.sha256(b"%d" % index).hexdigest()) for index, begin in enumerate(sums)}


@given(LENGTHS, st.integers(1, 80))
def test_at_most_so_many_are_sent_and_no_more_than_a_quarter_fewer_than_fit(lengths: list[int], most: int) -> None:
    begins, count = begins_of(lengths), sum(lengths)
    first = first_of(begins, count, most)
    fitting = [begin for begin in begins if count - begin <= most]
    assert first in begins
    if not fitting:
        assert first == max(begins), "the latest turn is sent whole"
    else:
        assert fitting[0] <= first <= max(fitting[0], count - most + most // 4)
    assert first == 0 or count > most, "where all fit, all are sent"


def test_the_requests_of_successive_turns_mostly_begin_alike() -> None:
    begins = begins_of([4] * 1000)
    tasks = [*begins.values()]
    seen = [
        tasks[first_of({4 * index: tasks[index] for index in range(turns)}, 4 * turns, 200) // 4]
        for turns in range(100, 1000)
    ]
    changes = sum(1 for before, after in pairwise(seen) if before != after)
    assert changes < 900 / 5
    assert len(set(seen)) == changes + 1, "it never goes back"


def test_a_conversation_without_a_message_has_no_beginning() -> None:
    assert first_of({}, 0, 10) == 0
