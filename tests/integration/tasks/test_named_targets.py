"""What a call names stands on the card of a question, as the rules read it, and a yes is for just that."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ozzie_server_ext.domain.errors import Conflict
from ozzie_server_ext.domain.events import CardTarget, TargetName, ToolCallDecided
from ozzie_server_ext.domain.toolmeta import Category, TargetKind, ToolResult
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use
from ozzie_server_ext.tasks.approvals import Approval
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.cards import MOST_NAMES
from tests.integration.tasks.runs_rig import ANA, Runs, asked, runs_in
from tests.office.contract import acts, money, told
from tests.office.world import World, new_world

EVERYBODY = [f"a{number}@firm.example" for number in range(100)]
IBAN = "AT61 1904 3002 3457 3201"


class Office(Runs):
    """A gateway with the services of an office, and one that pays in any currency."""

    world: World

    async def asks(self, name: str, **args: Any) -> Approval:
        """What is asked when the model calls a tool."""

        def answer(request: ModelRequest) -> Sequence[Step]:
            return [Use(name, json.dumps(args))] if request.messages[-1].role == "user" else [Say(asked(request))]

        self.answers(answer)
        self.task_id = await self.say("Do it.")
        return await self.pending()


def donate(context: ToolContext, *, amount: float, currency: str = "") -> ToolResult:
    """Give money to the poor."""
    return told("bank", {"amount": amount})


@pytest.fixture
async def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Office]:
    async with runs_in(tmp_path, monkeypatch, Office) as office:
        office.world = new_world()
        for tool in (*office.world.tools(), acts("bank", donate, Category.PAYMENT, targets=money("amount"))):
            office.ozzie.projects.own.tools.register(tool)
        yield office


def mail(*to: str, **more: Any) -> dict[str, Any]:
    return {"to": list(to), "subject": "Lunch", "text": "At noon?", **more}


def one(kind: TargetKind, argument: str, *names: TargetName) -> CardTarget:
    return CardTarget(kind=kind, argument=argument, names=names)


async def test_a_mail_is_asked_about_with_everybody_who_gets_it(office: Office) -> None:
    given = mail('"ana@firm.example" <evil@evil.example>', "BEN@firm.example", cc=["Carla <carla@firm.example>"])
    found = await office.asks("send_mail", **given)

    assert found.asked.targets == (
        one(TargetKind.RECIPIENT, "to", TargetName(text="evil@evil.example"), TargetName(text="ben@firm.example")),
        one(TargetKind.RECIPIENT, "cc", TargetName(text="carla@firm.example")),
    )
    card = await office.ozzie.projects.own.cards.of(found.approval_id)
    assert card.targets == found.asked.targets
    await office.ozzie.approvals.approve(found.approval_id, ANA, binds=found.asked.binds)
    assert await office.rests(office.task_id) == "task.succeeded"
    assert office.world.mail.sent[-1].to == tuple(given["to"])


async def test_who_gets_an_answer_stands_on_the_card_and_a_yes_is_for_them(office: Office) -> None:
    found = await office.asks("reply_mail", mail_id="m7", text="Thanks.", to_all=True)

    *_, reached = found.asked.targets
    assert (reached.kind, reached.argument) == (TargetKind.RECIPIENT, "")
    assert [name.text for name in reached.names] == [
        "dimitri@firm.example", "ben@firm.example", "carla@firm.example"
    ]  # fmt: skip
    card = await office.ozzie.projects.own.cards.of(found.approval_id)
    assert card.targets == found.asked.targets
    decided = await office.facts(office.task_id, ToolCallDecided)
    reached = [each.text for each in decided[-1].reaches if not each.of]
    assert reached[1:] == ["ben@firm.example", "carla@firm.example"], "the others are names of the mail itself"

    mails = office.world.mail.mails
    mails["m7"] = replace(mails["m7"], cc=(*mails["m7"].cc, "evil@evil.example"))
    with pytest.raises(Conflict, match="would do something else by now"):
        await office.ozzie.projects.own.cards.of(found.approval_id)
    await office.ozzie.approvals.approve(found.approval_id, ANA, binds=found.asked.binds)
    again = await office.pending()
    assert again.asked.targets[-1].names[-1].text == "evil@evil.example"
    assert office.world.mail.sent == new_world().mail.sent


async def test_who_gets_an_answer_is_compared_with_the_rules(office: Office) -> None:
    """The mail m7 is from a colleague, m11 from a partner."""
    colleagues = {"tools": ["mail.reply_mail"], "recipients": ["*@firm.example"], "objects": ["*"]}
    rule = {"id": "colleagues", "decision": "allow", "reason": "Colleagues may be answered.", "when": colleagues}
    rule |= {"examples": {"match": [{"tool": "a.stranger"}]}}
    (office.ozzie.home.root / "policy.jsonc").write_text(json.dumps({"rules": [rule]}))

    found = await office.asks("reply_mail", mail_id="m11", text="Thanks.")
    assert found.asked.rule == "floor.external_send"
    await office.reject("no")
    office.answers(
        lambda request: (
            [Use("reply_mail", '{"mail_id": "m7", "text": "Thanks."}')]
            if request.messages[-1].role == "user"
            else [Say("Done.")]
        )
    )
    assert await office.rests(await office.say("Answer it.")) == "task.succeeded"
    assert office.world.mail.sent[-1].to == ("Dimitri Petrov <dimitri@firm.example>",)


async def test_of_a_long_list_the_log_has_the_beginning_and_the_card_all(office: Office) -> None:
    pairs = [f"{one}, {two}" for one, two in zip(EVERYBODY[::2], EVERYBODY[1::2], strict=True)]
    found = await office.asks("send_mail", **mail(*pairs))
    card = await office.ozzie.projects.own.cards.of(found.approval_id)

    (stored,), (whole,) = found.asked.targets, card.targets
    assert [name.text for name in stored.names] == EVERYBODY[:MOST_NAMES]
    assert stored.more == len(EVERYBODY) - MOST_NAMES
    assert ([name.text for name in whole.names], whole.more) == (EVERYBODY, 0)
    assert found.asked.card == "", "nothing looks like a secret: shortening alone asks for no other way to answer"


@pytest.mark.parametrize(
    ("name", "args", "target"),
    [
        (
            "send_mail",
            mail("ben@f\u202eirm.example"),
            one(TargetKind.RECIPIENT, "to", TargetName(text='"ben@f\\u202eirm.example"', is_read=False)),
        ),
        (
            "send_mail",
            mail("Ben <ben@f\u0456rm.example>"),
            one(
                TargetKind.RECIPIENT,
                "to",
                TargetName(text="ben@xn--frm-jhd.example", written='"ben@f\u0456rm.example"'),
            ),
        ),
        (
            "change_standing_order",
            {"order_id": "o1", "account": IBAN.replace("61", "62", 1)},
            one(TargetKind.ACCOUNT, "account", TargetName(text='"AT62 1904 3002 3457 3201"', is_read=False)),
        ),
        ("donate", {"amount": 120}, one(TargetKind.AMOUNT, "amount", TargetName(text='"120.0"', is_read=False))),
        (
            "donate",
            {"amount": 120, "currency": "EUR"},
            one(TargetKind.AMOUNT, "amount", TargetName(text="120.00 EUR")),
        ),
    ],
    ids=["another direction", "another alphabet", "a wrong check digit", "no currency", "a currency"],
)
async def test_what_can_not_be_read_or_looks_like_another_is_marked(
    office: Office, name: str, args: dict[str, Any], target: CardTarget
) -> None:
    found = await office.asks(name, **args)

    assert target in found.asked.targets


async def test_a_card_is_void_once_the_contract_says_that_the_call_names_something_else(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await office.asks("send_mail", **mail("ben@firm.example"))
    named: Callable[..., Any] = lambda targets, args: ()  # noqa: E731
    monkeypatch.setattr("ozzie_server_ext.tools.cards.named_by", named)

    with pytest.raises(Conflict, match="would do something else by now"):
        await office.ozzie.projects.own.cards.of(found.approval_id)


async def test_a_secret_among_the_names_is_stored_nowhere(office: Office) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    found = await office.asks("delete_document", doc_id=secret)
    card = await office.ozzie.projects.own.cards.of(found.approval_id)

    assert secret not in str(found.asked)
    assert secret in card.targets[0].names[0].text
    assert card.digest == found.asked.card
