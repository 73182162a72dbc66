"""Everyday tasks about money: to pay, to look up what was paid, to reckon, and what is paid each month."""

from decimal import Decimal
from typing import Any

from tests.office.bank import Standing
from tests.office.everyday.mail import Check, every, open_first, person, sent_nothing, sent_to
from tests.office.everyday.meetings import met
from tests.office.task import Task, use
from tests.office.world import BEN_ACCOUNT, CARLA_ACCOUNT, PRINTER_ACCOUNT, RENT, World, new_world
from tests.workloads.workload import Seen, calc

JONAS_ACCOUNT = "DE27100777770209299700"
SPENT = """day,name,eur
2026-02-02,Landlord Weber,950.00
2026-02-05,Stadtwerke,64.80
2026-02-06,Hugo Print Shop,92.00
2026-02-14,Ben Okafor,18.50
2026-02-27,Trattoria,41.00
"""


def paid(account: str, amount: str, currency: str = "EUR", reference: str = "") -> Check:
    """Just one transfer went out, of that amount to that account, with these words in its reference."""

    def then(world: World) -> bool:
        new = [each for key, each in world.bank.transfers.items() if int(key[1:]) > 9]
        return len(new) == 1 and (
            (new[0].account, new[0].amount, new[0].currency) == (account, f"-{amount}", currency)
            and reference.casefold() in new[0].reference.casefold()
        )

    return every(then, _same_orders)


def paid_nothing(world: World) -> bool:
    return not world.bank.paid and _same_orders(world)


def _same_orders(world: World) -> bool:
    return world.bank.orders == new_world().bank.orders


def orders(**wanted: tuple[str, str] | None) -> Check:
    """These standing orders pay so much to that account, or are gone; the others are as they were."""

    def then(world: World) -> bool:
        expected = {key: _kind(each) for key, each in new_world().bank.orders.items()} | wanted
        return {key: _kind(each) for key, each in world.bank.orders.items()} == {
            key: each for key, each in expected.items() if each is not None
        }

    return every(then, lambda world: not world.bank.paid)


def _kind(order: Standing) -> tuple[str, str]:
    return order.account, order.amount


def euros(value: str) -> str:
    return f"{Decimal(value):.2f}"


def _order(seen: Seen, word: str) -> dict[str, Any]:
    (listed,) = [call.data for call in seen.calls if call.name == "list_standing_orders"]
    return next(each for each in listed if word in each["name"])


def _spent(seen: Seen) -> Any:
    """What was paid in February, the oldest first, as a table in a file."""
    out = [each for each in reversed(seen.last) if each["amount"].startswith("-") and each["day"] < "2026-03"]
    rows = sorted(f"{each['day']},{each['name']},{each['amount'][1:]}\n" for each in out)
    return use("write_file", path="desk/february.csv", text="day,name,eur\n" + "".join(rows))


MONEY = (
    Task(
        name="Hugo's invoice",
        message="Pay Hugo's invoice.",
        rounds=[
            (use("list_mail", query="hugo invoice"), use("find_contact", name="Hugo")),
            open_first,
            lambda seen: use(
                "pay",
                account=person(seen, "Hugo")["account"],
                name=person(seen, "Hugo")["name"],
                amount=float(seen.last["text"].partition("EUR ")[2].partition(",")[0]),
                reference=seen.last["subject"].partition(" ")[2],
            ),
        ],
        says="184.5 EUR",
        answer=lambda seen: f"Paid: {seen.calls[-1].args['amount']} EUR to {person(seen, 'Hugo')['name']}.",
        then=paid(PRINTER_ACCOUNT, "184.50", reference="2026-118"),
        acts=True,
    ),
    Task(
        name="Friday's lunch",
        message="pay ben back for lunch on friday",
        rounds=[
            (use("list_mail", query="ben lunch"), use("find_contact", name="Ben")),
            open_first,
            lambda seen: use(
                "pay",
                account=person(seen, "Ben")["account"],
                name="Ben Okafor",
                amount=float(seen.last["text"].partition("share is ")[2].partition(" EUR")[0]),
                reference="Lunch 27 February",
            ),
        ],
        says="23.4 EUR",
        answer=lambda seen: f"Ben gets {seen.calls[-1].args['amount']} EUR.",
        then=paid(BEN_ACCOUNT, "23.40", reference="lunch"),
        acts=True,
    ),
    Task(
        name="what is left after the rent",
        message="How much will be left on my account once the rent is off?",
        rounds=[
            (use("show_balance"), use("list_standing_orders")),
            lambda seen: calc(f"{seen.calls[0].data['balance']} - {_order(seen, 'Weber')['amount']}"),
        ],
        says="1884.10 EUR",
        answer=lambda seen: f"{euros(seen.values[0])} EUR.",
        then=paid_nothing,
    ),
    Task(
        name="is March's rent paid",
        message="did the rent for march go out already??",
        rounds=[(use("list_transfers", since="2026-02-25", query="rent"), use("list_standing_orders"))],
        says="Not yet: the order pays 950.00 EUR on day 2 of",
        answer=lambda seen: (
            f"{'Yes' if seen.calls[0].data else 'Not yet'}: the order pays {_order(seen, 'Weber')['amount']} EUR on "
            f"day {_order(seen, 'Weber')['day_of_month']} of each month, and that is today."
        ),
        then=paid_nothing,
    ),
    Task(
        name="a higher rent from April",
        message="Weber raised the rent to 980 from April. Change my standing order, March will have gone out today.",
        rounds=[
            use("list_standing_orders"),
            lambda seen: use("change_standing_order", order_id=_order(seen, "Weber")["order_id"], amount=980),
        ],
        says="980.00",
        answer=lambda seen: f"{seen.last['name']}: {seen.last['amount']} each month.",
        then=orders(o1=(RENT, "980.00")),
        acts=True,
    ),
    Task(
        name="no gym any more",
        message="I've left the gym. Stop the monthly payment.",
        rounds=[
            use("list_standing_orders"),
            lambda seen: use("end_standing_order", order_id=_order(seen, "Gym")["order_id"]),
        ],
        says="ended",
        answer=lambda seen: f"The order {seen.last['ended']} is ended.",
        then=orders(o2=None),
    ),
    Task(
        name="my half of the present",
        message="transfer 50 eur to my brother for mums present",
        rounds=[
            use("find_contact", name="Jonas"),
            lambda seen: use(
                "pay",
                account=person(seen, "Jonas")["account"],
                name=person(seen, "Jonas")["name"],
                amount=50,
                reference="Mum's present",
            ),
        ],
        says="Jonas Rossi",
        answer=lambda seen: f"50 EUR to {person(seen, 'Jonas')['name']}.",
        then=paid(JONAS_ACCOUNT, "50.00", reference="present"),
        acts=True,
    ),
    Task(
        name="electricity since December",
        message="What did electricity cost me for December to February together? Febs bill is in my mail",
        rounds=[
            (use("list_transfers", query="stadtwerke"), use("list_mail", query="stadtwerke")),
            open_first,
            lambda seen: calc(
                "+".join([each["amount"][1:] for each in seen.calls[0].data])
                + "+"
                + seen.last["text"].partition("EUR ")[2].partition(". ")[0]
            ),
        ],
        says="192.10 EUR",
        answer=lambda seen: f"{euros(seen.values[0])} EUR in three months.",
        then=paid_nothing,
    ),
    Task(
        name="flowers each month",
        message=(
            "Jonas and I want to send mum flowers each month, he orders them. Set up 20 EUR to him on the 1st of the "
            "month, text 'flowers mum'."
        ),
        rounds=[
            (use("find_contact", name="Jonas"), use("list_standing_orders")),
            lambda seen: use(
                "pay_monthly",
                account=person(seen, "Jonas")["account"],
                name=person(seen, "Jonas")["name"],
                amount=20,
                day_of_month=1,
                reference="flowers mum",
            ),
        ],
        says="o3",
        answer=lambda seen: f"Done, it is {seen.last['order_id']}.",
        then=every(
            orders(o3=(JONAS_ACCOUNT, "20.00")),
            lambda world: world.bank.orders["o3"].day_of_month == 1,
        ),
        acts=True,
    ),
    Task(
        name="Carla's half of the dinner",
        message="I paid the dinner with Carla at the Trattoria last week. Mail her what half of it is, no hurry.",
        rounds=[
            (use("list_transfers", since="2026-02-20", query="trattoria"), use("find_contact", name="Carla")),
            lambda seen: calc(f"{seen.calls[0].data[0]['amount'][1:]} / 2"),
            lambda seen: use(
                "send_mail",
                to=[person(seen, "Carla")["mail"]],
                subject="Our dinner",
                text=f"Hi Carla, your half of the dinner on Friday is {euros(seen.values[0])} EUR. No hurry! Ana",
            ),
        ],
        says="20.50",
        answer=lambda seen: f"Half is {euros(seen.values[0])} EUR; Carla has a mail.",
        then=every(sent_to("carla@firm.example", holds="20.50 EUR"), paid_nothing),
        acts=True,
    ),
    Task(
        name="cellar key",
        message=(
            'Send Weber 60 EUR for the new cellar key (his account is in my contacts), reference "cellar key", and '
            "write him that it's on its way."
        ),
        rounds=[
            use("find_contact", name="Weber"),
            lambda seen: use(
                "pay",
                account=person(seen, "Weber")["account"],
                name=person(seen, "Weber")["name"],
                amount=60,
                reference="cellar key",
            ),
            lambda seen: use(
                "send_mail",
                to=[person(seen, "Weber")["mail"]],
                subject="Cellar key",
                text="Dear Mr Weber, the 60 EUR for the cellar key are on their way. Kind regards, Ana Rossi",
            ),
        ],
        says="Weber",
        answer=lambda seen: f"Paid, and {person(seen, 'Weber')['name']} has a mail.",
        then=every(paid(RENT, "60.00", reference="cellar key"), sent_to("weber@homes.example", holds="60 EUR")),
        acts=True,
    ),
    Task(
        name="ski weekend",
        message="Pay CHF 120 to Carla Meier, FR14 2004 1010 0505 0001 3M02 606, reference ski weekend",
        rounds=[
            use(
                "pay",
                account="FR14 2004 1010 0505 0001 3M02 606",
                name="Carla Meier",
                amount=120,
                currency="CHF",
                reference="ski weekend",
            )
        ],
        says="t10",
        answer=lambda seen: f"Paid ({seen.last['transfer_id']}).",
        then=paid(CARLA_ACCOUNT, "120.00", "CHF", "ski weekend"),
        acts=True,
    ),
    Task(
        name="February as a table",
        message="write what I spent in February into desk/february.csv, columns day, name, eur. no income pls",
        rounds=[use("list_transfers", since="2026-02-01"), _spent],
        says="5 rows",
        answer=lambda seen: f"desk/february.csv has {len(seen.calls[-1].args['text'].splitlines()) - 1} rows.",
        then=every(paid_nothing, sent_nothing),
        leaves={"desk/february.csv": SPENT},
    ),
    Task(
        name="reminder of the printer's bill",
        message="ok, not now. remind me the day before at 9, in my calendar",
        before=[
            (
                "Until when do I have to pay the print shop?",
                [use("list_mail", query="print invoice"), open_first],
                "By 10 March: 184.50 EUR, reference 2026-118.",
            )
        ],
        rounds=[
            use(
                "add_event",
                title="Pay Hugo Print Shop, 184.50 EUR",
                begin="2026-03-09T09:00",
                end="2026-03-09T09:15",
                text="Invoice 2026-118, due on 10 March.",
            )
        ],
        says="9 March",
        answer=lambda seen: f"{seen.last['event_id']} reminds you on 9 March at 9:00.",
        then=every(met("2026-03-09T09:00", "2026-03-09T09:15", holds="Hugo"), paid_nothing),
    ),
    Task(
        name="Liv has no account",
        message="pay Liv 12.50 for the birthday cake",
        rounds=[(use("find_contact", name="Liv"), use("list_transfers", query="Liv"))],
        says="no account of Liv Hansen",
        answer=lambda seen: (
            f"I know no account of {person(seen, 'Liv')['name']}: none is in your address book"
            f"{'' if seen.last else ', and you have never paid her'}. Can you give it to me?"
        ),
        then=paid_nothing,
    ),
    Task(
        name="the electricity pays itself",
        message="There is a bill from Stadtwerke somewhere. Do I have to pay it or do they take it?",
        rounds=[use("list_mail", query="stadtwerke bill"), open_first],
        says="It is taken from your account on 5 March",
        answer=lambda seen: f"Nothing to do. {seen.last['text'].partition('. ')[2]}",
        then=every(paid_nothing, sent_nothing),
    ),
)
