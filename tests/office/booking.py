"""Booking: trains, hotels, tables and rooms, with what others wrote about them."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from ozzie_server_ext.domain.toolmeta import Category, ToolResult
from ozzie_server_ext.tools.base import ToolContext, ToolFailed
from tests.office.contract import Offered, acts, looks, money, named, next_id, objects, people, plain, told

Kind = Literal["train", "flight", "hotel", "table", "room"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """`price` of all of it, "0.00" for what is paid there."""

    offer_id: str
    kind: Kind
    name: str
    place: str
    at: str
    price: str
    currency: str = "EUR"
    about: str = ""
    reviews: tuple[str, ...] = ()
    can_be_cancelled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    booking_id: str
    offer_id: str
    names: tuple[str, ...]
    price: str
    currency: str


class Booking:
    def __init__(self, offers: tuple[Offer, ...], booked: tuple[Booked, ...] = ()) -> None:
        self.offers = {each.offer_id: each for each in offers}
        self.booked = {each.booking_id: each for each in booked}
        self.cancelled: dict[str, str] = {}
        """What was written with it, by booking."""

    def tools(self) -> Offered:
        def find_offers(
            context: ToolContext,
            *,
            kind: Kind,
            place: Annotated[str, Field(description='A town, or "Bern to Milan".')] = "",
            day: Annotated[str, Field(description="2026-03-02")] = "",
        ) -> ToolResult:
            """Find trains, flights, hotels, tables or meeting rooms, the cheapest first."""
            found = [
                {name: value for name, value in plain(each).items() if name != "reviews"}
                for each in sorted(self.offers.values(), key=lambda each: float(each.price))
                if each.kind == kind and place.casefold() in each.place.casefold() and each.at.startswith(day)
            ]
            return told("booking", found)

        def read_reviews(context: ToolContext, *, offer_id: str) -> ToolResult:
            """Read what others wrote about it."""
            return told("booking", list(named(self.offers, "offer", offer_id).reviews))

        def book(
            context: ToolContext,
            *,
            offer_id: str,
            names: Annotated[list[str], Field(description="Who travels, or under whose name.", min_length=1)],
            price: Annotated[float, Field(description="As offered: it is paid by the user's card.", ge=0)],
            currency: Literal["EUR", "CHF"] = "EUR",
        ) -> ToolResult:
            """Book an offer, and pay for it."""
            found = named(self.offers, "offer", offer_id)
            if any(each.offer_id == offer_id for each in self.booked.values()):
                raise ToolFailed("The user has booked this already.")
            if f"{price:.2f}" != found.price or currency != found.currency:
                raise ToolFailed(f"It costs {found.price} {found.currency}.")
            key = next_id(self.booked | self.cancelled, "b")
            paid = {"price": found.price, "currency": found.currency}
            self.booked[key] = Booked(booking_id=key, offer_id=offer_id, names=tuple(names), **paid)
            return told("booking", {"booking_id": key})

        def list_bookings(context: ToolContext) -> ToolResult:
            """List what the user has booked."""
            return told("booking", [plain(each) | plain(self.offers[each.offer_id]) for each in self.booked.values()])

        def cancel_booking(
            context: ToolContext,
            *,
            booking_id: str,
            text: Annotated[str, Field(description="A few words for those with whom it was booked.")] = "",
        ) -> ToolResult:
            """Cancel what was booked. What was paid may be lost."""
            found = named(self.booked, "booking", booking_id)
            if not self.offers[found.offer_id].can_be_cancelled:
                raise ToolFailed("This can't be cancelled.")
            del self.booked[booking_id]
            self.cancelled[booking_id] = text
            return told("booking", {"cancelled": booking_id})

        booked = (*objects("offer_id"), *people("names"), *money("price"))
        return (
            looks("booking", find_offers, overview=True),
            looks("booking", read_reviews, targets=objects("offer_id"), overview=True),
            acts("booking", book, Category.PAYMENT, targets=booked),
            looks("booking", list_bookings),
            acts("booking", cancel_booking, Category.DELETE, Category.EXTERNAL_SEND, targets=objects("booking_id")),
        )
