"""Slots to run in: never more than there are, none lost, the group with the fewest next."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack, suppress

from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.tasks.concurrency import MOST_NOTIFIED, FairSlots


class Wanting:
    """Tasks that want places, by number; a test says when each goes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.slots = FairSlots(lambda: self.most)
        self.holding: dict[int, str] = {}
        self.order: list[str] = []
        self.ahead: dict[int, int] = {}
        self.groups: list[str] = []
        self._works: dict[int, asyncio.Task[None]] = {}
        self._go: dict[int, asyncio.Event] = {}

    def want(self, group: str) -> int:
        number = len(self._works)
        self.groups.append(group)
        self._go[number] = asyncio.Event()
        self._works[number] = asyncio.create_task(self._run(number, group))
        return number

    async def _run(self, number: int, group: str) -> None:
        async with self.slots.slot(group, lambda ahead: self.ahead.__setitem__(number, ahead)):
            self.holding[number] = group
            self.order.append(group)
            try:
                await self._go[number].wait()
            finally:
                del self.holding[number]

    async def settle(self) -> None:
        """Until all that can go on has."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def leave(self, number: int) -> None:
        self._go[number].set()
        await self.settle()

    async def cancel(self, number: int) -> None:
        self._works[number].cancel()
        await self.settle()

    def next_of(self, waiting: set[int]) -> list[int]:
        """Return those who wait in the order in which they are to come."""
        taken = Counter(self.holding.values())
        turns: dict[int, int] = {}
        for number in sorted(waiting):
            turns[number] = taken[self.groups[number]]
            taken[self.groups[number]] += 1
        return sorted(waiting, key=lambda number: (turns[number], number))

    async def end(self) -> None:
        for number, work in self._works.items():
            self._go[number].set()
            with suppress(asyncio.CancelledError):
                await work


async def test_those_of_one_group_come_in_their_order_and_are_told_how_many_are_before() -> None:
    wanting = Wanting(1)
    first, second, third = (wanting.want("a") for _ in range(3))
    await wanting.settle()
    assert list(wanting.holding) == [first]
    assert (wanting.ahead[second], wanting.ahead[third]) == (0, 1)
    await wanting.leave(first)
    assert list(wanting.holding) == [second]
    assert wanting.ahead[third] == 0
    await wanting.end()


async def test_a_group_that_came_later_does_not_wait_for_all_of_the_first() -> None:
    wanting = Wanting(2)
    for _ in range(6):
        wanting.want("long")
    for _ in range(2):
        wanting.want("short")
    await wanting.settle()
    assert wanting.order == ["long", "long"]
    await wanting.leave(0)
    assert wanting.order == ["long", "long", "short"]
    await wanting.leave(1)
    assert Counter(wanting.holding.values()) == {"long": 1, "short": 1}
    await wanting.end()
    assert Counter(wanting.order) == {"long": 6, "short": 2}


async def test_more_places_are_given_as_soon_as_one_is_left() -> None:
    wanting = Wanting(1)
    for _ in range(4):
        wanting.want("a")
    await wanting.settle()
    wanting.most = 3
    await wanting.leave(0)
    assert len(wanting.holding) == 3
    await wanting.end()


_STEP = st.tuples(st.sampled_from(["want", "leave", "cancel"]), st.integers(0, 30), st.sampled_from("abc"))


@given(st.integers(1, 4), st.lists(_STEP, max_size=30))
def test_none_is_lost_or_given_twice_whoever_comes_leaves_or_is_stopped(
    most: int, steps: list[tuple[str, int, str]]
) -> None:
    async def play() -> None:
        async with AsyncExitStack() as stack:
            wanting = Wanting(most)
            stack.push_async_callback(wanting.end)
            wanted: list[int] = []
            open_: set[int] = set()
            for step, which, group in steps:
                if step == "want":
                    wanted.append(wanting.want(group))
                    open_.add(wanted[-1])
                elif wanted and (number := wanted[which % len(wanted)]) in open_:
                    if step == "leave" and number in wanting.holding:
                        await wanting.leave(number)
                        open_.discard(number)
                    elif step == "cancel":
                        await wanting.cancel(number)
                        open_.discard(number)
                await wanting.settle()
                assert len(wanting.holding) == min(most, len(open_)), "no place stays empty while anybody waits"
                following = wanting.next_of(open_ - wanting.holding.keys())[:MOST_NOTIFIED]
                assert [wanting.ahead[number] for number in following] == [*range(len(following))]

    asyncio.run(play())
