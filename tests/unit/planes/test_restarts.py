"""Pauses between restarts, and the circuit that ends them."""

from ozzie_server_ext.planes.supervisor import Pace, Restarts


def test_the_pauses_grow_and_the_fifth_death_in_two_minutes_opens_the_circuit() -> None:
    restarts = Restarts(Pace())
    assert [restarts.death(now, lived_s=1) for now in (0, 1, 2, 5, 20)] == [0.1, 0.5, 2.0, 10.0, None]
    assert restarts.circuit_open(119)
    assert not restarts.circuit_open(121)


def test_deaths_further_apart_keep_the_circuit_closed_at_the_longest_pause() -> None:
    restarts = Restarts(Pace())
    assert [restarts.death(now, lived_s=1) for now in range(0, 400, 50)][-1] == 30.0


def test_a_child_that_lived_long_starts_the_count_anew() -> None:
    restarts = Restarts(Pace())
    restarts.death(0, lived_s=1)
    restarts.death(1, lived_s=1)
    assert restarts.death(1000, lived_s=999) == 0.1
