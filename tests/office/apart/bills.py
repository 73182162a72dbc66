"""Bills and money: paying, what was paid, standing orders, and who owes what."""

from tests.office.apart.letters import Check, entry, just, result, results, sent_to, untouched
from tests.office.bank import Standing
from tests.office.task import Task, use
from tests.office.world import BEN_ACCOUNT, GYM, PRINTER_ACCOUNT, RENT, World, new_world
from tests.workloads.workload import calc, write

JONAS_ACCOUNT = "DE27100777770209299700"
CARLA_NEW = "FR7630006000011234567890189"
SPENT = (
    "day,to,eur\n2026-02-27,Trattoria,41.00\n2026-02-14,Ben Okafor,18.50\n2026-02-06,Hugo Print Shop,92.00\n"
    "2026-02-05,Stadtwerke,64.80\n2026-02-02,Landlord Weber,950.00\n"
)


def paid(*transfers: tuple[str, str]) -> Check:
    """These amounts were paid to these accounts, in that order, and no others."""

    def then(world: World) -> bool:
        made = [(each.account, each.amount, each.currency) for each in world.bank.paid]
        return made == [(account, f"-{amount}", "EUR") for account, amount in transfers] and (
            world.bank.orders == new_world().bank.orders
        )

    return then


def referred(words: str) -> Check:
    """What was paid last bears that reference."""
    return lambda world: words in world.bank.paid[-1].reference


def orders(*kept: tuple[str, str, str, int]) -> Check:
    """The standing orders are these, by id, account, amount and day; nothing was paid at once."""

    def of(each: Standing) -> tuple[str, str, str, int]:
        return each.order_id, each.account, each.amount, each.day_of_month

    return lambda world: [of(each) for each in world.bank.orders.values()] == [*kept] and not world.bank.paid


BILLS = (
    Task(
        name="pay the printer's invoice",
        message="pay Hugo's invoice",
        rounds=[
            (use("list_mail", query="Hugo invoice"), use("find_contact", name="Hugo")),
            lambda seen: use("read_mail", mail_id=result(seen, "list_mail")[0]["mail_id"]),
            lambda seen: use(
                "pay",
                account=entry(seen, "Hugo")["account"],
                name="Hugo Print Shop",
                amount=184.5,
                reference="2026-118",
            ),
        ],
        says="184.50",
        then=just("bank", paid((PRINTER_ACCOUNT, "184.50")), referred("2026-118")),
        acts=True,
    ),
    Task(
        name="pay Ben back for the lunch",
        message="Ben paid lunch for us on Friday, send him my share.",
        rounds=[
            (use("list_mail", query="Ben lunch"), use("find_contact", name="Ben")),
            lambda seen: use("read_mail", mail_id=result(seen, "list_mail")[0]["mail_id"]),
            lambda seen: use(
                "pay",
                account=entry(seen, "Ben")["account"],
                name="Ben Okafor",
                amount=23.4,
                reference="Lunch on Friday",
            ),
        ],
        says="23.40",
        then=just("bank", paid((BEN_ACCOUNT, "23.40"))),
        acts=True,
    ),
    Task(
        name="electricity of the winter",
        message="How much did I pay for electricity this year so far, with the February bill that just came?",
        rounds=[
            (use("list_transfers", query="Stadtwerke", since="2026-01-01"), use("list_mail", query="Stadtwerke bill")),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            lambda seen: calc(
                "+".join([each["amount"].lstrip("-") for each in result(seen, "list_transfers")] + ["61.20"])
            ),
        ],
        says="192.1",
        answer=lambda seen: f"EUR {seen.values[0]} with the 61.20 that go off on 5 March.",
        then=untouched,
    ),
    Task(
        name="what is left after rent and printer",
        message="what will be left on my account once the rent and hugos invoice are paid?",
        rounds=[
            (use("show_balance"), use("list_standing_orders"), use("list_mail", query="Hugo invoice")),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
            lambda seen: calc(
                f"{result(seen, 'show_balance')['balance']}-{result(seen, 'list_standing_orders')[0]['amount']}-184.50"
            ),
        ],
        says="1699.60",
        answer=lambda seen: f"EUR {float(seen.values[0]):.2f}.",
        then=untouched,
    ),
    Task(
        name="the rent rises",
        message="My rent goes up to 980 euros from next month, please change the standing order to Weber.",
        rounds=[
            use("list_standing_orders"),
            lambda seen: use(
                "change_standing_order",
                order_id=next(each["order_id"] for each in seen.last if "Weber" in each["name"]),
                amount=980,
            ),
        ],
        says="980.00",
        answer=lambda seen: f"{seen.last['name']} gets {seen.last['amount']} each month.",
        then=just("bank", orders(("o1", RENT, "980.00", 2), ("o2", GYM, "49.00", 15))),
        acts=True,
    ),
    Task(
        name="no more gym",
        message="I quit the gym. End the standing order.",
        rounds=[
            use("list_standing_orders"),
            lambda seen: use(
                "end_standing_order", order_id=next(each["order_id"] for each in seen.last if each["name"] == "Gym")
            ),
        ],
        says="gym",
        answer=lambda seen: f"The gym gets nothing any more: {seen.last['ended']} is ended.",
        then=just("bank", orders(("o1", RENT, "950.00", 2))),
    ),
    Task(
        name="cake money for my brother",
        message="send my brother 35 for mums cake",
        rounds=[
            use("find_contact", name="brother"),
            use("find_contact", name="Rossi"),
            lambda seen: use(
                "pay", account=seen.last[0]["account"], name=seen.last[0]["name"], amount=35, reference="Cake for mum"
            ),
        ],
        says="Jonas",
        then=just("bank", paid((JONAS_ACCOUNT, "35.00"))),
        acts=True,
    ),
    Task(
        name="a transfer in full",
        message="Please transfer EUR 320.00 to Studio Nord, NL91 ABNA 0417 1643 00, reference 2026-0044.",
        rounds=[
            use("pay", account="NL91 ABNA 0417 1643 00", name="Studio Nord", amount=320, reference="2026-0044"),
        ],
        says="320",
        then=just("bank", paid(("NL91ABNA0417164300", "320.00")), referred("2026-0044")),
        acts=True,
    ),
    Task(
        name="a monthly gift",
        message="I want to give 25 euros to the Sea Rescue every month, on the 1st. IBAN BE68 5390 0754 7034.",
        rounds=[
            use("pay_monthly", account="BE68 5390 0754 7034", name="Sea Rescue", amount=25, day_of_month=1),
        ],
        says="25",
        then=just(
            "bank",
            orders(("o1", RENT, "950.00", 2), ("o2", GYM, "49.00", 15), ("o3", "BE68539007547034", "25.00", 1)),
        ),
        acts=True,
    ),
    Task(
        name="a bill that pays itself",
        message="Pay the power bill for February.",
        rounds=[
            use("list_mail", query="Stadtwerke"),
            lambda seen: use("read_mail", mail_id=seen.last[0]["mail_id"]),
        ],
        says="on 5 March",
        answer=lambda seen: f"You needn't. They write: {seen.last['text']}",
        then=untouched,
    ),
    Task(
        name="the same flyers again",
        message="Order another 500 flyers at Hugo's, same price as on his invoice, to be here before the trade fair.",
        rounds=[
            (
                use("list_mail", query="Hugo flyers"),
                use("list_events", first="2026-03-02", last="2026-03-31"),
            ),
            lambda seen: use("read_mail", mail_id=result(seen, "list_mail")[0]["mail_id"]),
            lambda seen: use(
                "reply_mail",
                mail_id=seen.last["mail_id"],
                text="Dear Hugo, please print another 500 flyers for EUR 184.50. I need them by 6 March. Ana Rossi",
            ),
        ],
        says="500",
        then=just("mail", sent_to("orders@hugo-print.example", holds=["500 flyers", "184.50"])),
        acts=True,
    ),
    Task(
        name="what went out in February as a file",
        message="List what I spent in February in apart/february.csv: day, to whom, euros. Newest first.",
        rounds=[
            use("list_transfers", since="2026-02-01"),
            lambda seen: write(
                "apart/february.csv",
                "day,to,eur\n"
                + "".join(
                    f"{each['day']},{each['name']},{each['amount'][1:]}\n"
                    for each in seen.last
                    if each["amount"].startswith("-") and each["day"] < "2026-03-01"
                ),
            ),
        ],
        says="february.csv",
        leaves={"apart/february.csv": SPENT},
        then=untouched,
    ),
    Task(
        name="pay all that I owe",
        message="Ok, pay both.",
        before=[
            (
                "Do I owe anybody money? Check my inbox.",
                [
                    use("list_mail", query="EUR"),
                    lambda seen: tuple(use("read_mail", mail_id=each["mail_id"]) for each in seen.last),
                ],
                "Hugo Print Shop gets EUR 184.50 by 10 March (2026-118, AT61 1904 3002 3457 3201), and Ben EUR 23.40 "
                "for the lunch. The electricity is taken from your account.",
            )
        ],
        rounds=[
            use("find_contact", name="Ben"),
            use(
                "pay",
                account="AT61 1904 3002 3457 3201",
                name="Hugo Print Shop",
                amount=184.5,
                reference="2026-118",
            ),
            lambda seen: use(
                "pay", account=entry(seen, "Ben")["account"], name="Ben Okafor", amount=23.4, reference="Lunch"
            ),
        ],
        says="Both",
        answer=lambda seen: f"Both are paid: {', '.join(each['transfer_id'] for each in results(seen, 'pay'))}.",
        then=just("bank", paid((PRINTER_ACCOUNT, "184.50"), (BEN_ACCOUNT, "23.40"))),
        acts=True,
    ),
    Task(
        name="half of the dinner from Jonas",
        message="I paid the dinner at the Trattoria on Friday for Jonas and me. Write him that he owes me half.",
        rounds=[
            (use("list_transfers", query="Trattoria"), use("find_contact", name="Jonas")),
            lambda seen: calc(f"{result(seen, 'list_transfers')[0]['amount'].lstrip('-')}/2"),
            lambda seen: use(
                "send_mail",
                to=[entry(seen, "Jonas")["mail"]],
                subject="Dinner",
                text=f"Hi Jonas, half of Friday's dinner is EUR {float(seen.values[0]):.2f}. A",
            ),
        ],
        says="20.50",
        answer=lambda seen: f"I asked him for EUR {float(seen.values[0]):.2f}.",
        then=just("mail", sent_to("jonas@home.example", holds=["20.50"])),
        acts=True,
    ),
    Task(
        name="Carla's new account, and the tickets",
        message=(
            "Carla has a new account, FR76 3000 6000 0112 3456 7890 189. Save it in my contacts and send her 60 EUR "
            "for the concert tickets."
        ),
        rounds=[
            use("find_contact", name="Carla"),
            lambda seen: use(
                "change_contact",
                contact_id=seen.last[0]["contact_id"],
                name=seen.last[0]["name"],
                account="FR76 3000 6000 0112 3456 7890 189",
            ),
            use(
                "pay",
                account="FR76 3000 6000 0112 3456 7890 189",
                name="Carla Meier",
                amount=60,
                reference="Concert tickets",
            ),
        ],
        says="Carla",
        then=just(
            "contacts bank",
            paid((CARLA_NEW, "60.00")),
            lambda world: "".join(world.contacts.entries["p2"].account.split()) == CARLA_NEW,
            lambda world: len(world.contacts.entries) == len(new_world().contacts.entries),
        ),
        acts=True,
    ),
)
