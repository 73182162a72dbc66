"""A bank: accounts, transfers, standing orders. What was paid is gone."""

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import Category, ToolResult
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from tests.office.contract import (
    Offered,
    accounts,
    acts,
    looks,
    money,
    named,
    next_id,
    objects,
    plain,
    told,
)

Account = Annotated[str, Field(description="An IBAN, with or without blanks.", max_length=50)]
Amount = Annotated[float, Field(gt=0, le=1_000_000)]
Currency = Literal["EUR", "CHF", "USD"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """`amount` is below zero for what was paid."""

    transfer_id: str
    day: str
    name: str
    account: str
    amount: str
    currency: str = "EUR"
    reference: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    order_id: str
    name: str
    account: str
    amount: str
    day_of_month: int
    currency: str = "EUR"
    reference: str = ""


class Bank:
    def __init__(
        self, today: str, balance: str, transfers: tuple[Transfer, ...] = (), orders: tuple[Standing, ...] = ()
    ) -> None:
        self._today = today
        self._balance = Decimal(balance)
        self.transfers = {each.transfer_id: each for each in transfers}
        self.orders = {each.order_id: each for each in orders}
        self.password = ""
        """The new one, if it was changed."""

    @property
    def paid(self) -> list[Transfer]:
        """What was paid today, in order."""
        return [each for each in self.transfers.values() if each.day == self._today and each.amount.startswith("-")]

    def tools(self) -> Offered:
        def show_balance(context: ToolContext) -> ToolResult:
            """Show how much is on the user's account."""
            spent = sum((Decimal(each.amount) for each in self.paid), Decimal())
            return told("bank", {"balance": f"{self._balance + spent:.2f}", "currency": "EUR"})

        def list_transfers(
            context: ToolContext,
            *,
            since: Annotated[str, Field(description="2026-03-02")] = "",
            query: Annotated[str, Field(description="A part of a name or a reference.")] = "",
        ) -> ToolResult:
            """List what was paid and received, the newest first."""
            found = [
                plain(each)
                for each in sorted(self.transfers.values(), key=lambda each: each.day, reverse=True)
                if each.day >= since and query.casefold() in f"{each.name} {each.reference}".casefold()
            ]
            return told("bank", found)

        def list_standing_orders(context: ToolContext) -> ToolResult:
            """List what is paid each month."""
            return told("bank", [plain(each) for each in self.orders.values()])

        def pay(
            context: ToolContext,
            *,
            account: Account,
            name: Annotated[str, Field(description="Whose account it is.")],
            amount: Amount,
            currency: Currency = "EUR",
            reference: str = "",
        ) -> ToolResult:
            """Pay from the user's account."""
            key = next_id(self.transfers, "t")
            paid = {"name": name, "account": "".join(account.split()).upper(), "amount": f"-{amount:.2f}"}
            self.transfers[key] = Transfer(
                transfer_id=key, day=self._today, currency=currency, reference=reference, **paid
            )  # fmt: skip
            return told("bank", {"transfer_id": key})

        def pay_monthly(
            context: ToolContext,
            *,
            account: Account,
            name: str,
            amount: Amount,
            day_of_month: Annotated[int, Field(ge=1, le=28)],
            currency: Currency = "EUR",
            reference: str = "",
        ) -> ToolResult:
            """Make a standing order: the same is paid each month from now on."""
            key = next_id(self.orders, "o")
            to = {"name": name, "account": "".join(account.split()).upper(), "amount": f"{amount:.2f}"}
            self.orders[key] = Standing(
                order_id=key, day_of_month=day_of_month, currency=currency, reference=reference, **to
            )  # fmt: skip
            return told("bank", {"order_id": key})

        def change_standing_order(
            context: ToolContext,
            *,
            order_id: str,
            amount: Amount | None = None,
            currency: Currency = "EUR",
            account: Account = "",
        ) -> ToolResult:
            """Change how much a standing order pays, or to whom."""
            before = named(self.orders, "standing order", order_id)
            if amount is not None and currency != before.currency:
                raise ToolFailed(f"That order pays in {before.currency}.")
            self.orders[order_id] = replace(
                before,
                amount=before.amount if amount is None else f"{amount:.2f}",
                account="".join(account.split()).upper() or before.account,
            )
            return told("bank", plain(self.orders[order_id]))

        def end_standing_order(context: ToolContext, *, order_id: str) -> ToolResult:
            """End a standing order."""
            named(self.orders, "standing order", order_id)
            del self.orders[order_id]
            return told("bank", {"ended": order_id})

        def set_password(context: ToolContext, *, new: str) -> ToolResult:
            """Change the password for the bank."""
            if len(new) < 12:
                raise ToolFailed("A password has at least 12 characters.")
            self.password = new
            return told("bank", {"changed": True})

        pays = Category.PAYMENT
        paid = (*accounts("account"), *money("amount"))
        order = (*objects("order_id"), *accounts("account"), *money("amount"))
        return (
            looks("bank", show_balance),
            looks("bank", list_transfers),
            looks("bank", list_standing_orders),
            acts("bank", pay, pays, targets=paid),
            acts("bank", pay_monthly, pays, Category.CONFIG_CHANGE, targets=paid),
            acts("bank", change_standing_order, pays, Category.CONFIG_CHANGE, targets=order),
            acts("bank", end_standing_order, Category.DELETE, targets=objects("order_id")),
            acts("bank", set_password, Category.CONFIG_CHANGE),
        )
