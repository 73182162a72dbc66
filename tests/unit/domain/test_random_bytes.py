"""Random bytes: as many as requested, and never the same twice."""

import os

from ozzie_server_ext.domain.ids import RandomBytes


def test_as_many_as_requested_and_no_two_alike() -> None:
    random_bytes = RandomBytes()
    taken = [random_bytes.take(16) for _ in range(2000)]
    assert {len(each) for each in taken} == {16}
    assert len(set(taken)) == 2000
    assert len(random_bytes.take(10_000)) == 10_000


def test_a_process_that_was_forked_has_others() -> None:
    random_bytes = RandomBytes()
    random_bytes.take(16)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, random_bytes.take(16))
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 16) != random_bytes.take(16)
    os.close(reading)
    os.close(writing)
