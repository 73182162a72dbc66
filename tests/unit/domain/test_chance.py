"""Bytes of chance: as many as were asked for, and never the same twice."""

import os

from ozzie_server_ext.domain.ids import Chance


def test_as_many_as_are_asked_for_and_no_two_alike() -> None:
    chance = Chance()
    taken = [chance.take(16) for _ in range(2000)]
    assert {len(each) for each in taken} == {16}
    assert len(set(taken)) == 2000
    assert len(chance.take(10_000)) == 10_000


def test_a_process_that_was_forked_has_others() -> None:
    chance = Chance()
    chance.take(16)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, chance.take(16))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 16) != chance.take(16)
    os.close(reading)
    os.close(writing)
