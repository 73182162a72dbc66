"""The ledger: what calls of models reserve before they are made, and are settled at after.

What was settled stands in the log. Here is what runs right now: as long as a budget is in use its sum is kept in
memory, so that looking at it and reserving in it is one step, whatever else runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from ozzie_server_ext.domain.budget import NOTHING, Account, Budget, Measure, Need, Spending


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountBalance:
    """What the log has of an account: what was settled, and what was allowed in addition to its budget."""

    settled: Spending = NOTHING
    raised: Spending = NOTHING


Look = Callable[[Account], Awaitable[AccountBalance]]
"""Reads what the log has of an account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetOverrun:
    """A call that does not fit: `limit` with all that was raised, `used` so far, `wanted` by the call at the most,
    `least` by one whose answer is as short as it may be."""

    budget: Budget
    measure: Measure
    limit: int
    used: int
    wanted: int
    least: int

    @property
    def skill(self) -> str:
        """The skill whose file sets this limit; empty where the configuration does."""
        return self.budget.skill if self.measure in self.budget.skill_bounds else ""

    @property
    def ends_a_part(self) -> bool:
        """Whether the limit is that of a skill that runs within something else: then that part ends, and nobody is
        asked, for whatever it is part of goes on and says what to do."""
        return bool(self.skill) and self.budget.is_part


class BudgetBreach(Exception):
    """A budget has no room for the call, even once every other call has ended. The call is not to be made."""

    def __init__(self, breach: BudgetOverrun) -> None:
        super().__init__(f"{breach.measure} of {breach.budget.account.scope}")
        self.breach = breach


@dataclass(slots=True)
class _Open:
    """An account in use."""

    settled: Spending
    raised: Spending
    version: int
    reserved: Spending = NOTHING


@dataclass(frozen=True, slots=True)
class _Room:
    """What is left of a budget, by what was settled; None where it has no such limit."""

    budget: Budget
    open: _Open

    @property
    def cost(self) -> int | None:
        limit = self.budget.cost
        return None if limit is None else limit + self.open.raised.cost - self.open.settled.cost

    @property
    def tokens(self) -> int | None:
        limit = self.budget.tokens
        return None if limit is None else limit + self.open.raised.tokens - self.open.settled.tokens

    @property
    def share(self) -> float:
        """How much of it was used."""
        limits = (self.budget.cost, self.budget.tokens)
        parts = zip(self.open.settled, self.open.raised, limits, strict=True)
        return max((_share(used, limit + raised) for used, raised, limit in parts if limit is not None), default=0.0)

    def affordable(self, need: Need) -> int:
        return need.affordable(cost=self.cost, tokens=self.tokens)

    def is_free(self, spending: Spending) -> bool:
        """Whether it fits beside what other calls have reserved."""
        cost, tokens, reserved = self.cost, self.tokens, self.open.reserved
        return (cost is None or not spending.cost or reserved.cost + spending.cost <= cost) and (
            tokens is None or reserved.tokens + spending.tokens <= tokens
        )

    def holds(self, spending: Spending) -> bool:
        """Whether what is reserved still fits, `spending` being a part of it."""
        cost, tokens, reserved = self.cost, self.tokens, self.open.reserved
        return (cost is None or not spending.cost or reserved.cost <= cost) and (
            tokens is None or reserved.tokens <= tokens
        )

    def breach(self, need: Need) -> BudgetOverrun:
        """By what it bounds `need` the most."""
        limit, raised, used = self.budget, self.open.raised, self.open.settled
        by_cost = limit.cost is not None and need.affordable(cost=self.cost, tokens=None) < need.affordable(
            cost=None, tokens=self.tokens
        )
        if by_cost and limit.cost is not None:
            return BudgetOverrun(
                budget=limit,
                measure="cost",
                limit=limit.cost + raised.cost,
                used=used.cost,
                wanted=need.spending().cost,
                least=need.spending(need.shortest).cost,
            )
        return BudgetOverrun(
            budget=limit,
            measure="tokens",
            limit=(limit.tokens or 0) + raised.tokens,
            used=used.tokens,
            wanted=need.spending().tokens,
            least=need.spending(need.shortest).tokens,
        )


class Reserved:
    """A call that was let through, with `cost` (None for an unknown price) and `tokens` at the most. `written` is how
    many of these its answer may have; None where its model's own limit fits. Once it has ended, `share` is how
    much was used of the budget of which most was: 0 to 1, or above."""

    def __init__(
        self,
        need: Need,
        rooms: Sequence["_Room"],
        cost: int | None,
        tokens: int,
        written: int | None,
        tightest: "_Room | None",
    ) -> None:
        self._need = need
        self._rooms = rooms
        self._tightest = tightest
        self.cost = cost
        self.tokens = tokens
        self.written = written
        self.share = 0.0
        self._settled = NOTHING

    @property
    def spending(self) -> Spending:
        return Spending(self.cost or 0, self.tokens)

    @property
    def settled(self) -> Spending:
        """Nothing before the call has begun, all of it until its end is known."""
        return self._settled

    @property
    def breach(self) -> BudgetOverrun | None:
        """What left no room for a longer answer, by what is used now; None where nothing did."""
        return self._tightest and self._tightest.breach(self._need)

    @property
    def still_fits(self) -> bool:
        """Whether there is room for it yet. Not where others took more meanwhile than they had reserved: a call that
        waited for something else behind this is not to be made then, but reserved anew."""
        return all(room.holds(self.spending) for room in self._rooms)

    def begun(self) -> None:
        self._settled = self.spending

    def settle(self, spending: Spending) -> None:
        """What the call took in fact, as its end was recorded."""
        self._settled = spending


@dataclass(slots=True)
class _Entry:
    """One account's place in the ledger. Who waits for room is let through in `order`: a call that needs much is not
    overtaken for ever by those that need little."""

    order: asyncio.Lock = field(default_factory=asyncio.Lock)
    open: _Open | None = None
    users: int = 0


class Ledger:
    """`look` reads an account whose calls have all ended."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._entries: dict[Account, _Entry] = {}
        self._version = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def reserve(
        self, budgets: Sequence[Budget], need: Need, *, waiting: Callable[[], None] = lambda: None
    ) -> AsyncIterator[Reserved]:
        """Let a call through once it fits into all `budgets`, which stand from the narrowest to the widest, beside what
        other calls have reserved; `waiting` is told once, where it has to wait for their ends. Where less is left than
        the model's longest answer takes, what is left is reserved, and the answer bounded to it.

        Raises BudgetBreach where a call does not fit, whatever the others come to.
        """
        budgets = [budget for budget in budgets if _binds(budget, need)]
        entries = [self._entries.setdefault(budget.account, _Entry()) for budget in budgets]
        for entry in entries:
            entry.users += 1
        try:
            reserved = await self._let_through(budgets, entries, need, waiting)
            try:
                yield reserved
            finally:
                self._settle(budgets, entries, reserved)
        finally:
            for budget, entry in zip(budgets, entries, strict=True):
                entry.users -= 1
                if not entry.users:  # whoever needs it next reads it from the log, which has all of it
                    self._entries.pop(budget.account, None)

    async def fits(self, budgets: Sequence[Budget], need: Need) -> bool:
        """Whether a call would be let through, sooner or later."""
        rooms = [_Room(budget, await self._read(budget.account)) for budget in budgets]
        return all(room.affordable(need) >= need.shortest for room in rooms)

    def raised(self) -> None:
        """A person allowed more, and the log has it: those who wait look again."""
        self._version += 1
        self._wake()

    async def _let_through(
        self, budgets: Sequence[Budget], entries: Sequence[_Entry], need: Need, waiting: Callable[[], None]
    ) -> Reserved:
        told = False

        def tell() -> None:
            nonlocal told
            if not told:
                waiting()
                told = True

        async with AsyncExitStack() as turn:
            # All take the accounts in the same order, from the narrowest to the widest, so nobody waits in a circle.
            for entry in entries:
                if entry.order.locked():
                    tell()
                await turn.enter_async_context(entry.order)
            while True:
                await self._bring_up_to_date(budgets, entries)
                # From here to the reservation nothing else runs.
                changed = self._changed
                rooms = [
                    _Room(budget, entry.open) for budget, entry in zip(budgets, entries, strict=True) if entry.open
                ]
                reserved = _bounded(rooms, need)
                if all(room.is_free(reserved.spending) for room in rooms):
                    for room in rooms:
                        room.open.reserved = room.open.reserved.plus(reserved.spending)
                    return reserved
                tell()
                await changed.wait()

    def _settle(self, budgets: Sequence[Budget], entries: Sequence[_Entry], reserved: Reserved) -> None:
        for budget, entry in zip(budgets, entries, strict=True):
            assert entry.open is not None
            entry.open.reserved = entry.open.reserved.minus(reserved.spending)
            entry.open.settled = entry.open.settled.plus(reserved.settled)
            reserved.share = max(reserved.share, _Room(budget, entry.open).share)
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _bring_up_to_date(self, budgets: Sequence[Budget], entries: Sequence[_Entry]) -> None:
        """Read what is not known yet, and what was raised meanwhile, until nothing is raised while it is read."""
        while stale := [
            (budget.account, entry)
            for budget, entry in zip(budgets, entries, strict=True)
            if entry.open is None or entry.open.version != self._version
        ]:
            for account, entry in stale:
                version, standing = self._version, await self._look(account)
                if entry.open is None:
                    entry.open = _Open(standing.settled, standing.raised, version)
                else:
                    entry.open.raised, entry.open.version = standing.raised, version

    async def _read(self, account: Account) -> _Open:
        entry = self._entries.get(account)
        if entry is not None and entry.open is not None:
            return entry.open
        standing = await self._look(account)
        return _Open(standing.settled, standing.raised, self._version)


def _bounded(rooms: Sequence[_Room], need: Need) -> Reserved:
    """What may be reserved for `need` by what was settled. Raises BudgetBreach where its answer would break off."""
    written: int = need.written
    tightest: _Room | None = None
    for room in rooms:
        affordable = room.affordable(need)
        if affordable < need.shortest:
            raise BudgetBreach(room.breach(need))
        if affordable < written:
            written, tightest = affordable, room
    # A model whose own limit nobody knows is told one, or nothing would hold it to what was reserved.
    is_told = tightest is not None or (need.is_guess and bool(rooms))
    spending = need.spending(written)
    return Reserved(need, rooms, need.cost(written), spending.tokens, written if is_told else None, tightest)


def _share(used: int, limit: int) -> float:
    """Of a limit of nothing, whatever was used is all of it, and what is free is none."""
    return used / limit if limit else float(used > 0)


def _binds(budget: Budget, need: Need) -> bool:
    """Whether it has anything to say to such a call: one of money does not, where the price is unknown or nothing."""
    is_priced = need.prices is not None and not need.prices.are_nothing
    return budget.tokens is not None or (budget.cost is not None and is_priced)
