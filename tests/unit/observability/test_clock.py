"""Clocks and sources of ids."""

from datetime import UTC, datetime

from ozzie_server_ext.domain.ids import is_ulid
from ozzie_server_ext.observability.clock import CountingIds, FakeClock, SystemClock, UlidSource


def test_the_machines_time_is_aware_and_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_a_fake_clock_stands_still_until_it_is_told_to_go_on() -> None:
    clock = FakeClock(datetime(2026, 3, 1, tzinfo=UTC))
    before = (clock.now(), clock.monotonic())

    clock.advance(90.5)

    assert before == (datetime(2026, 3, 1, tzinfo=UTC), 0.0)
    assert (clock.now(), clock.monotonic()) == (datetime(2026, 3, 1, 0, 1, 30, 500_000, tzinfo=UTC), 90.5)


def test_ulids_sort_as_they_were_made_even_within_a_millisecond_and_when_the_clock_steps_back() -> None:
    clock = FakeClock()
    source = UlidSource(clock)

    made = [source.new() for _ in range(500)]
    clock.advance(-3600)
    made += [source.new() for _ in range(500)]
    clock.advance(7200)
    made.append(source.new())

    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(map(is_ulid, made))


def test_two_sources_at_the_same_moment_give_different_ids() -> None:
    clock = FakeClock()

    assert UlidSource(clock).new() != UlidSource(clock).new()


def test_counting_ids_are_the_same_in_every_run() -> None:
    first, second = CountingIds(), CountingIds()

    assert [first.new() for _ in range(3)] == [second.new() for _ in range(3)]
    assert first.new() == "00000000000000000000000004"
