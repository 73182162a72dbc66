"""The ledger: what model calls reserve before they are made, and are settled at afterwards.

Settled amounts are in the log; this holds what runs right now. While a budget is in use its sum is kept in memory, so
that checking it and reserving from it is one step, whatever else runs.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec

from ozzie_server_ext.domain.budget import NOTHING, Account, Budget, Measure, Need, Spending


class AccountBalance(msgspec.Struct, frozen=True, kw_only=True):
    """What the log has of an account: settled amounts, and what was allowed in addition to its budget."""

    settled: Spending = NOTHING
    raised: Spending = NOTHING


Look = Callable[[Account], Awaitable[AccountBalance]]
"""Reads an account from the log."""


class BudgetOverrun(msgspec.Struct, frozen=True, kw_only=True):
    """A call that does not fit: `limit` with all raises, `used` so far, `wanted` by the call at the most, `least` by
    one with the shortest possible answer."""

    budget: Budget
    measure: Measure
    limit: int
    used: int
    wanted: int
    least: int

    @property
    def skill(self) -> str:
        """The skill whose file sets this limit; "" if the configuration does."""
        return self.budget.skill if self.measure in self.budget.skill_bounds else ""

    @property
    def ends_a_part(self) -> bool:
        """Whether the limit is that of a skill that runs within another task: only that part ends, and nobody is asked,
        as the task around it goes on and says what to do."""
        return bool(self.skill) and self.budget.is_part


class BudgetBreach(Exception):
    """A budget has no room for the call, even after all other calls have ended. The call must not be made."""

    def __init__(self, breach: BudgetOverrun) -> None:
        super().__init__(f"{breach.measure} of {breach.budget.account.scope}")
        self.breach = breach


class _Open(msgspec.Struct):
    """An account in use."""

    settled: Spending
    raised: Spending
    version: int
    reserved: Spending = NOTHING


class _Room(msgspec.Struct, frozen=True):
    """What is left of a budget after the settled calls; None if it has no such limit."""

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
        """The share of the budget that was used."""
        return self.share_with(NOTHING)

    def share_with(self, spending: Spending) -> float:
        """Return the share of the budget that is used once `spending` is settled too."""
        limits = (self.budget.cost, self.budget.tokens)
        parts = zip(self.open.settled.plus(spending), self.open.raised, limits, strict=True)
        return max((_share(used, limit + raised) for used, raised, limit in parts if limit is not None), default=0.0)

    def affordable(self, need: Need) -> int:
        return need.affordable(cost=self.cost, tokens=self.tokens)

    def has_room(self, spending: Spending, *, reserved: Spending) -> bool:
        """Whether all that is `reserved`, of which `spending` is a part, fits."""
        cost, tokens = self.cost, self.tokens
        return (cost is None or not spending.cost or reserved.cost <= cost) and (
            tokens is None or reserved.tokens <= tokens
        )

    def breach(self, need: Need) -> BudgetOverrun:
        """Return the overrun of the measure that limits `need` the most."""
        limit, raised, used = self.budget, self.open.raised, self.open.settled
        measure: Measure = "tokens"
        if limit.cost is not None and need.affordable(cost=self.cost, tokens=None) < need.affordable(
            cost=None, tokens=self.tokens
        ):
            measure = "cost"
        return BudgetOverrun(
            budget=limit,
            measure=measure,
            limit=(getattr(limit, measure) or 0) + getattr(raised, measure),
            used=getattr(used, measure),
            wanted=getattr(need.spending(), measure),
            least=getattr(need.spending(need.shortest), measure),
        )


class Reserved:
    """A call that was admitted, with `cost` (None for an unknown price) and `tokens` at the most. `written` limits the
    tokens of its answer; None if its model's own limit fits. Once it has ended, `share` is the used share of the most
    used budget: 0 to 1, or above."""

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
        """Nothing before the call has begun, the whole reservation until its end is known."""
        return self._settled

    @property
    def breach(self) -> BudgetOverrun | None:
        """The budget that leaves no room for a longer answer, by what is used now; None if none does."""
        return self._tightest and self._tightest.breach(self._need)

    @property
    def still_fits(self) -> bool:
        """Whether there is still room for it. If others have used more than they had reserved, a call that waited for
        something else after this must not be made, but reserved again."""
        return all(room.has_room(self.spending, reserved=room.open.reserved) for room in self._rooms)

    def share_with(self, spending: Spending) -> float:
        """Return what `share` becomes if the call ends with this spending."""
        return max((room.share_with(spending) for room in self._rooms), default=0.0)

    def begun(self) -> None:
        self._settled = self.spending

    def settle(self, spending: Spending) -> None:
        """Record what the call really used, as its end says."""
        self._settled = spending


class _Entry(msgspec.Struct):
    """One account in the ledger. Waiting calls are admitted in `order`: a call that needs much is not overtaken for
    ever by those that need little."""

    order: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    open: _Open | None = None
    users: int = 0


class Ledger:
    """`look` reads an account that no running call uses."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._entries: dict[Account, _Entry] = {}
        self._version = 0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def reserve(
        self, budgets: Sequence[Budget], need: Need, *, waiting: Callable[[], None] = lambda: None
    ) -> AsyncIterator[Reserved]:
        """Admit a call once it fits into all `budgets`, given from the narrowest to the widest, beside what other calls
        have reserved; `waiting` is called once if it has to wait for them. If less is left than the model's longest
        answer takes, the rest is reserved, and the answer limited to it.

        Raises BudgetBreach if the call does not fit, whatever the others use.
        """
        budgets = [budget for budget in budgets if _constrains(budget, need)]
        entries = [self._entries.setdefault(budget.account, _Entry()) for budget in budgets]
        for entry in entries:
            entry.users += 1
        try:
            reserved = await self._admit(budgets, entries, need, waiting)
            try:
                yield reserved
            finally:
                self._settle(budgets, entries, reserved)
        finally:
            for budget, entry in zip(budgets, entries, strict=True):
                entry.users -= 1
                if not entry.users:  # the next user reads it from the log, which has all of it
                    self._entries.pop(budget.account, None)

    async def fits(self, budgets: Sequence[Budget], need: Need) -> bool:
        """Whether a call would be admitted, sooner or later."""
        rooms = [_Room(budget, await self._read(budget.account)) for budget in budgets]
        return all(room.affordable(need) >= need.shortest for room in rooms)

    def raised(self) -> None:
        """Have waiting calls look again: a person allowed more, which is in the log."""
        self._version += 1
        self._wake()

    async def _admit(
        self, budgets: Sequence[Budget], entries: Sequence[_Entry], need: Need, waiting: Callable[[], None]
    ) -> Reserved:
        notified = False

        def notify() -> None:
            nonlocal notified
            if not notified:
                waiting()
                notified = True

        async with AsyncExitStack() as turn:
            # All calls lock accounts in the same order, from the narrowest to the widest, so that there is no deadlock.
            for entry in entries:
                if entry.order.locked():
                    notify()
                await turn.enter_async_context(entry.order)
            while True:
                await self._bring_up_to_date(budgets, entries)
                # Nothing else runs from here to the reservation.
                changed = self._changed
                rooms = [
                    _Room(budget, entry.open) for budget, entry in zip(budgets, entries, strict=True) if entry.open
                ]
                reserved = _bounded(rooms, need)
                if all(
                    room.has_room(reserved.spending, reserved=room.open.reserved.plus(reserved.spending))
                    for room in rooms
                ):
                    for room in rooms:
                        room.open.reserved = room.open.reserved.plus(reserved.spending)
                    return reserved
                notify()
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
        """Read the balances that are unknown or outdated, until none is raised during a read."""
        while stale := [
            (budget.account, entry)
            for budget, entry in zip(budgets, entries, strict=True)
            if entry.open is None or entry.open.version != self._version
        ]:
            for account, entry in stale:
                version, balance = self._version, await self._look(account)
                if entry.open is None:
                    entry.open = _Open(balance.settled, balance.raised, version)
                else:
                    entry.open.raised, entry.open.version = balance.raised, version

    async def _read(self, account: Account) -> _Open:
        entry = self._entries.get(account)
        if entry is not None and entry.open is not None:
            return entry.open
        balance = await self._look(account)
        return _Open(balance.settled, balance.raised, self._version)


def _bounded(rooms: Sequence[_Room], need: Need) -> Reserved:
    """Reserve for `need` what the settled calls leave. Raises BudgetBreach if its answer would break off."""
    written: int = need.written
    tightest: _Room | None = None
    for room in rooms:
        affordable = room.affordable(need)
        if affordable < need.shortest:
            raise BudgetBreach(room.breach(need))
        if affordable < written:
            written, tightest = affordable, room
    # A model whose own limit is unknown is given one, or it could use more than was reserved.
    is_limited = tightest is not None or (need.is_guess and bool(rooms))
    spending = need.spending(written)
    return Reserved(need, rooms, need.cost(written), spending.tokens, written if is_limited else None, tightest)


def _share(used: int, limit: int) -> float:
    """Return the used share of a limit; with a limit of 0: 1.0 if anything was used, else 0.0."""
    return used / limit if limit else float(used > 0)


def _constrains(budget: Budget, need: Need) -> bool:
    """Whether this budget constrains the call; a cost budget does not if the price is unknown or 0."""
    is_priced = need.prices is not None and not need.prices.are_nothing
    return budget.tokens is not None or (budget.cost is not None and is_priced)
