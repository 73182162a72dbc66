"""Reservations: what is let through, what waits, what is refused, and that no sum is ever beyond its budget."""

import asyncio
import contextlib
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.budget import PRICED_TOKENS, SHORTEST_ANSWER, Account, Budget, Need, Spending, TokenPrices
from ozzie_server_ext.models.ledger import AccountBalance, BudgetBreach, Ledger

SESSION, DAY = Account("session", "s"), Account("day", "2026-01-31")
PRICES = TokenPrices(read=1 * PRICED_TOKENS, written=2 * PRICED_TOKENS)
"""1 and 2 nano-USD a token."""


class Books:
    """What the log has of each account, and how often it was read."""

    def __init__(self) -> None:
        self.standings: dict[Account, AccountBalance] = {}
        self.looks: list[Account] = []

    async def look(self, account: Account) -> AccountBalance:
        self.looks.append(account)
        await asyncio.sleep(0)
        return self.standings.get(account, AccountBalance())


class Rig:
    def __init__(self) -> None:
        self.books = Books()
        self.ledger = Ledger(self.books.look)
        self.stack = AsyncExitStack()

    async def reserve(self, need: Need, *budgets: Budget, waiting: Callable[[], None] = lambda: None):
        return await self.stack.enter_async_context(self.ledger.reserve(budgets, need, waiting=waiting))


async def everybody_ran() -> None:
    """Until all that can go on without anybody else has done so."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
def rig() -> Rig:
    return Rig()


def tokens(limit: int, account: Account = SESSION) -> Budget:
    return Budget(account=account, tokens=limit)


def money(limit: int, account: Account = SESSION) -> Budget:
    return Budget(account=account, cost=limit)


def need(read: int, written: int, prices: TokenPrices | None = PRICES) -> Need:
    return Need(read=read, written=written, prices=prices)


async def test_without_a_budget_everything_goes_and_nothing_is_read(rig: Rig) -> None:
    async with rig.ledger.reserve((), need(10**9, 10**9)) as reserved:
        assert reserved.written is None
    assert rig.books.looks == []


async def test_a_call_that_fits_goes_at_once_with_what_it_may_take(rig: Rig) -> None:
    reserved = await rig.reserve(need(1000, 2000), tokens(3000), money(5000, DAY))

    assert (reserved.tokens, reserved.cost, reserved.written) == (3000, 5000, None)


async def test_an_answer_is_bounded_to_what_is_left(rig: Rig) -> None:
    rig.books.standings[SESSION] = AccountBalance(settled=Spending(cost=0, tokens=500))

    reserved = await rig.reserve(need(1000, 64_000), tokens(10_000))

    assert reserved.written == 8500
    assert (reserved.tokens, reserved.cost) == (9500, 1000 + 2 * 8500)


async def test_the_tightest_of_several_budgets_bounds_it(rig: Rig) -> None:
    reserved = await rig.reserve(need(1000, 64_000), tokens(10_000), money(5001, DAY))

    assert reserved.written == 2000, "of 5,001 nano-USD, 1,000 are for the request, and 2 for each token of the answer"
    assert reserved.cost == 5000


@pytest.mark.parametrize(
    ("budget", "measure", "limit"), [(tokens(2023), "tokens", 2023), (money(1000 + 2 * 1023), "cost", 1000 + 2 * 1023)]
)
async def test_a_call_is_refused_where_its_answer_would_break_off(
    rig: Rig, budget: Budget, measure: str, limit: int
) -> None:
    with pytest.raises(BudgetBreach) as refused:
        await rig.reserve(need(1000, 64_000), budget)

    breach = refused.value.breach
    assert (breach.measure, breach.limit, breach.used, breach.budget) == (measure, limit, 0, budget)
    assert breach.wanted == (65_000 if measure == "tokens" else 1000 + 2 * 64_000)


async def test_a_short_answer_needs_no_more_than_it_is_long(rig: Rig) -> None:
    assert (await rig.reserve(need(1000, 20), tokens(1020))).written is None


async def test_an_unknown_price_counts_against_tokens_only(rig: Rig) -> None:
    reserved = await rig.reserve(need(1000, 2000, None), money(1), tokens(9000, DAY))
    assert (reserved.cost, reserved.tokens) == (None, 3000)

    with pytest.raises(BudgetBreach):
        await rig.reserve(need(8000, 2000, None), tokens(9000, Account("task", "t")))


async def test_what_costs_nothing_goes_on_when_the_money_is_used_up(rig: Rig) -> None:
    rig.books.standings[SESSION] = AccountBalance(settled=Spending(cost=2000, tokens=0))
    free = TokenPrices(read=0, written=0)

    assert (await rig.reserve(need(1000, 2000, free), money(1000))).cost == 0


async def test_what_was_allowed_in_addition_counts(rig: Rig) -> None:
    rig.books.standings[SESSION] = AccountBalance(
        settled=Spending(cost=0, tokens=1000), raised=Spending(cost=0, tokens=5000)
    )

    assert (await rig.reserve(need(1000, 4000), tokens(1000))).written is None


async def test_who_does_not_fit_beside_the_others_waits_for_their_end_and_is_told_so_once(rig: Rig) -> None:
    told: list[str] = []
    first, second = AsyncExitStack(), AsyncExitStack()
    budget = tokens(7000)
    one = await first.enter_async_context(rig.ledger.reserve((budget,), need(1000, 2000)))
    two = await second.enter_async_context(rig.ledger.reserve((budget,), need(1000, 2000)))
    third = asyncio.ensure_future(rig.reserve(need(1000, 2000), budget, waiting=lambda: told.append("waits")))
    await everybody_ran()
    assert not third.done()

    one.begun()
    one.settle(Spending(cost=0, tokens=2500))
    await first.aclose()
    await everybody_ran()
    assert not third.done(), "2,500 are gone and 3,000 reserved, which leaves 1,500"

    two.begun()
    two.settle(Spending(cost=0, tokens=100))
    await second.aclose()
    assert (await asyncio.wait_for(third, 5)).tokens == 3000
    assert told == ["waits"]


async def test_a_call_that_took_more_than_was_reserved_counts_with_all_of_it(rig: Rig) -> None:
    keep = await rig.reserve(need(1, 1), tokens(10_000))  # keeps the account in use
    async with rig.ledger.reserve((tokens(10_000),), need(1000, 2000)) as reserved:
        reserved.begun()
        reserved.settle(Spending(cost=0, tokens=12_000))

    with pytest.raises(BudgetBreach) as refused:
        await rig.reserve(need(1000, 2000), tokens(10_000))

    assert refused.value.breach.used == 12_000
    assert keep.tokens == 2


async def test_a_reservation_no_longer_fits_once_others_took_more_than_theirs(rig: Rig) -> None:
    budgets = tokens(10_000), money(100_000, DAY)
    async with rig.ledger.reserve(budgets, need(1000, 2000)) as other:
        waiting = await rig.reserve(need(1000, 2000), *budgets)
        unpriced = await rig.reserve(need(1000, 2000, None), money(100_000, DAY))
        other.begun()
        assert waiting.still_fits
        other.settle(Spending(cost=98_000, tokens=7000))
    assert not waiting.still_fits, "of the money, 95,000 + 5,000 would have"
    assert unpriced.still_fits, "it takes none of it"


async def test_a_reservation_still_fits_where_what_others_took_leaves_room_for_it(rig: Rig) -> None:
    async with rig.ledger.reserve((tokens(10_000),), need(1000, 2000)) as other:
        waiting = await rig.reserve(need(1000, 2000), tokens(10_000))
        other.begun()
        other.settle(Spending(cost=0, tokens=7000))
    assert waiting.still_fits


async def test_who_waits_is_refused_once_the_others_have_used_it_up(rig: Rig) -> None:
    first = AsyncExitStack()
    one = await first.enter_async_context(rig.ledger.reserve((tokens(4000),), need(1000, 2000)))
    waits = asyncio.ensure_future(rig.reserve(need(1000, 2000), tokens(4000)))
    await everybody_ran()

    one.begun()
    one.settle(Spending(cost=0, tokens=4000))
    await first.aclose()

    with pytest.raises(BudgetBreach):
        await asyncio.wait_for(waits, 5)


async def test_who_waits_goes_on_when_more_is_allowed(rig: Rig) -> None:
    await rig.reserve(need(1000, 2000), tokens(4000))
    waits = asyncio.ensure_future(rig.reserve(need(1000, 2000), tokens(4000)))
    await everybody_ran()
    assert not waits.done()

    rig.books.standings[SESSION] = AccountBalance(raised=Spending(cost=0, tokens=2000))
    rig.ledger.raised()

    assert (await asyncio.wait_for(waits, 5)).tokens == 3000


async def test_a_call_that_never_began_took_nothing(rig: Rig) -> None:
    keep = await rig.reserve(need(1, 1), tokens(3002))
    async with rig.ledger.reserve((tokens(3002),), need(1000, 2000)):
        pass

    assert (await rig.reserve(need(1000, 2000), tokens(3002))).written is None
    assert keep.tokens == 2


async def test_a_call_without_an_end_took_all_that_it_had_reserved(rig: Rig) -> None:
    await rig.reserve(need(1, 1), tokens(5000))
    with contextlib.suppress(OSError):
        async with rig.ledger.reserve((tokens(5000),), need(1000, 2000)) as reserved:
            reserved.begun()
            raise OSError("the disk is full")

    with pytest.raises(BudgetBreach) as refused:
        await rig.reserve(need(1000, 2000), tokens(5000))
    assert refused.value.breach.used == 3000


async def test_who_gives_up_waiting_leaves_nothing_behind(rig: Rig) -> None:
    first = AsyncExitStack()
    await first.enter_async_context(rig.ledger.reserve((tokens(3000),), need(1000, 2000)))
    waits = asyncio.ensure_future(rig.reserve(need(1000, 2000), tokens(3000)))
    await everybody_ran()
    waits.cancel()
    await asyncio.wait([waits])
    await first.aclose()

    assert (await rig.reserve(need(1000, 2000), tokens(3000))).written is None


async def test_the_share_is_that_of_the_budget_of_which_most_was_used(rig: Rig) -> None:
    rig.books.standings[SESSION] = AccountBalance(
        settled=Spending(cost=700, tokens=100), raised=Spending(cost=400, tokens=0)
    )
    rig.books.standings[DAY] = AccountBalance(settled=Spending(cost=0, tokens=100))
    budgets = (Budget(account=SESSION, cost=600, tokens=1000), tokens(5000, DAY))
    async with rig.ledger.reserve(budgets, need(10, 20)) as reserved:
        reserved.begun()
        reserved.settle(Spending(cost=100, tokens=20))

    assert reserved.share == 0.8


@pytest.mark.parametrize(("cost", "share"), [(0, 0.0), (5, 1.0)], ids=["nothing", "something after all"])
async def test_of_a_budget_of_nothing_all_or_nothing_was_used(rig: Rig, cost: int, share: float) -> None:
    async with rig.ledger.reserve((money(0),), need(0, 0)) as reserved:
        reserved.begun()
        reserved.settle(Spending(cost=cost, tokens=20))

    assert reserved.share == share


async def test_an_account_that_nobody_uses_is_read_anew(rig: Rig) -> None:
    async with rig.ledger.reserve((tokens(9000),), need(1000, 2000)):
        pass
    rig.books.standings[SESSION] = AccountBalance(settled=Spending(cost=0, tokens=9000))

    with pytest.raises(BudgetBreach):
        await rig.reserve(need(1000, 2000), tokens(9000))
    assert rig.books.looks == [SESSION, SESSION]


async def test_whether_it_fits_reserves_nothing(rig: Rig) -> None:
    assert await rig.ledger.fits([tokens(3000)], need(1000, 2000))
    assert not await rig.ledger.fits([tokens(3000), money(999, DAY)], need(1000, 2000))
    assert (await rig.reserve(need(1000, 2000), tokens(3000))).written is None


async def test_a_call_that_needs_much_is_not_overtaken_by_those_that_need_little(rig: Rig) -> None:
    first, large, small = AsyncExitStack(), AsyncExitStack(), AsyncExitStack()
    order: list[str] = []

    async def call(name: str, stack: AsyncExitStack, wanted: Need) -> None:
        await stack.enter_async_context(rig.ledger.reserve((tokens(6000),), wanted))
        order.append(name)

    await call("first", first, need(1000, 2000))
    waits = [asyncio.ensure_future(call("large", large, need(1000, 4000)))]
    await everybody_ran()
    waits.append(asyncio.ensure_future(call("small", small, need(500, 500))))
    await everybody_ran()
    assert order == ["first"], "there is room for the small one, and yet it is not its turn"

    await first.aclose()
    await asyncio.wait_for(asyncio.gather(*waits), 5)

    assert order == ["first", "large", "small"]


async def test_those_of_other_accounts_do_not_wait_for_the_one_that_waits(rig: Rig) -> None:
    await rig.reserve(need(1000, 2000), tokens(3000))
    waits = asyncio.ensure_future(rig.reserve(need(1000, 2000), tokens(3000)))
    await everybody_ran()

    other = await rig.reserve(need(1000, 2000), tokens(3000, Account("session", "other")))

    assert other.tokens == 3000
    waits.cancel()


@pytest.mark.parametrize("prices", [None, TokenPrices(read=0, written=0)], ids=["unknown", "nothing"])
async def test_what_a_budget_of_money_says_nothing_to_does_not_wait_for_it(
    rig: Rig, prices: TokenPrices | None
) -> None:
    await rig.reserve(need(1000, 2000), money(5000))
    waits = asyncio.ensure_future(rig.reserve(need(1000, 2000), money(5000)))
    await everybody_ran()
    assert not waits.done()

    local = asyncio.ensure_future(rig.reserve(need(1000, 2000, prices), money(5000)))
    assert (await asyncio.wait_for(local, 5)).tokens == 3000
    waits.cancel()


async def test_what_bounded_an_answer_is_told_by_what_is_used_behind_it(rig: Rig) -> None:
    async with rig.ledger.reserve((tokens(6000),), need(1000, 8000)) as reserved:
        reserved.begun()
        reserved.settle(Spending(cost=0, tokens=5990))

    assert reserved.breach is not None
    assert (reserved.breach.used, reserved.breach.limit, reserved.breach.wanted) == (5990, 6000, 9000)


async def test_what_is_raised_while_an_account_is_read_counts(rig: Rig) -> None:
    reading, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(account: Account) -> AccountBalance:
        found = rig.books.standings.get(account, AccountBalance())
        reading.set()
        await go_on.wait()
        return found

    ledger = Ledger(slowly)
    stack = AsyncExitStack()
    waits = asyncio.ensure_future(stack.enter_async_context(ledger.reserve((tokens(1000),), need(1000, 2000))))
    await reading.wait()
    rig.books.standings[SESSION] = AccountBalance(raised=Spending(cost=0, tokens=2000))
    ledger.raised()
    go_on.set()

    assert (await asyncio.wait_for(waits, 5)).written is None
    await stack.aclose()


@pytest.mark.parametrize(
    ("budget", "prices", "told"),
    [
        (tokens(10**9), PRICES, 4096),
        (money(10**12), PRICES, 4096),
        (money(10**12), None, None),
        (money(10**12), TokenPrices(read=0, written=0), None),
    ],
)
async def test_a_model_whose_limit_nobody_knows_is_told_the_one_that_was_reserved(
    rig: Rig, budget: Budget, prices: TokenPrices | None, told: int | None
) -> None:
    guess = Need(read=1000, written=4096, prices=prices, is_guess=True)

    assert (await rig.reserve(guess, budget)).written == told
    async with rig.ledger.reserve((), guess) as free:
        assert free.written is None, "nothing is at stake"


amounts = st.integers(min_value=0, max_value=20_000)


@given(
    limit_tokens=st.none() | amounts,
    limit_cost=st.none() | amounts,
    calls=st.lists(st.tuples(amounts, amounts, st.floats(0, 1), st.booleans()), max_size=12),
)
def test_what_was_reserved_and_settled_never_goes_beyond_a_budget_while_estimates_hold(
    limit_tokens: int | None, limit_cost: int | None, calls: list[tuple[int, int, float, bool]]
) -> None:
    """Against the plain rule: of what runs and what is settled, the sum of the most that it takes is within limits.
    All calls are begun together, and end in any order, each with a part of what it had reserved."""

    async def check() -> None:
        ledger = Ledger(Books().look)
        budget = Budget(account=SESSION, tokens=limit_tokens, cost=limit_cost)
        running = settled = Spending()
        refusals: list[bool] = []

        async def call(read: int, written: int, part: float, priced: bool) -> None:
            nonlocal running, settled
            wanted = need(read, written, PRICES if priced else None)
            try:
                async with ledger.reserve((budget,), wanted) as reserved:
                    running = running.plus(reserved.spending)
                    total = running.plus(settled)
                    assert limit_tokens is None or total.tokens <= limit_tokens
                    assert limit_cost is None or total.cost <= limit_cost
                    least = min(wanted.written, SHORTEST_ANSWER)
                    assert reserved.written is None or least <= reserved.written < wanted.written
                    reserved.begun()
                    for _ in range(read % 3):
                        await asyncio.sleep(0)
                    used = Spending(int(reserved.spending.cost * part), int(reserved.tokens * part))
                    reserved.settle(used)
                    running, settled = running.minus(reserved.spending), settled.plus(used)
            except BudgetBreach:
                left = None if limit_tokens is None else limit_tokens - settled.tokens
                money_left = None if limit_cost is None else limit_cost - settled.cost
                least = min(wanted.written, SHORTEST_ANSWER)
                needlessly = wanted.affordable(cost=money_left, tokens=left) >= least
                refusals.append(needlessly)

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for each in calls:
                group.create_task(call(*each))
        assert running == Spending()
        assert not any(refusals)

    asyncio.run(check())
