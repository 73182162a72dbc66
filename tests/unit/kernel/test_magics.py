"""What commands answer, from what the gateway told: in 80 columns, inert, and never nothing for what is unknown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ozzie_kernel.completion import card_page, inspection_reply
from ozzie_kernel.connect import SessionChoice
from ozzie_kernel.magics import MAGICS, cost_page, magic_page, model_page, run_magic
from ozzie_kernel.parameters import Parameters
from ozzie_kernel.session_magic import session_table
from ozzie_server_ext.domain.json import Json, JsonObject
from ozzie_server_ext.render.page import page_bundle, page_text
from ozzie_server_ext.render.text import columns
from tests.hostile.samples import NAMES, render_sample
from tests.unit.render.test_hostile import assert_inert_source
from tests.unit.render.test_page import UNSAFE

AT = "2026-11-03T14:00:00.000000Z"


def spent(cost: int = 0, *, known: bool = True, tokens: int = 0) -> JsonObject:
    return {"input_tokens": tokens, "output_tokens": 0, "cost": cost, "cost_known": known}


def turn(title: str, cost: JsonObject, **other: Any) -> JsonObject:
    return {"title": title, "status": "SUCCEEDED", "created_at": AT, "models": ["main"], "spent": cost, **other}


def costs(
    *turns: JsonObject, session: JsonObject | None = None, earlier: bool = False, budgets: Sequence[JsonObject] = ()
) -> JsonObject:
    return {
        "turns": list(turns),
        "session": session or spent(),
        "today": spent(),
        "has_earlier": earlier,
        "budgets": list(budgets),
    }


def budget(scope: str, *, money: tuple[int, int] | None, tokens: tuple[int, int] | None, then: str) -> JsonObject:
    used, limit = money or (0, None)
    tokens_used, tokens_limit = tokens or (0, None)
    return {
        "scope": scope,
        "cost_used": used,
        "cost_limit": limit,
        "tokens_used": tokens_used,
        "tokens_limit": tokens_limit,
        "on_breach": then,
    }


def session(title: str, **other: Any) -> JsonObject:
    row: JsonObject = {
        "session_id": "sess_01JD4T0000000000000000SESS",
        "title": title,
        "message_count": 1_234,
        "updated_at": AT,
        "chosen_model": "",
        "status": "active",
    }
    return {**row, **other}


def models(text: str) -> JsonObject:
    return {
        "default": text,
        "models": [
            {
                "name": text,
                "driver": text,
                "model": text,
                "missing": text,
                "is_default": False,
                "health": text,
                "tags": {text: text},
            }
        ],
        "offers": [{"found": text, "choose": text}],
        "config_file": text,
        "config_error": text,
        "ignored_config": [text],
    }


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (spent(), "$0.00"),
        (spent(21_000_000), "$0.021"),
        (spent(1), "<$0.001"),
        (spent(known=False), "unknown"),
        (spent(21_000_000, known=False), "$0.021 + unknown"),
    ],
)
def test_an_unknown_price_is_never_shown_as_nothing(cost: JsonObject, shown: str) -> None:
    lines = page_text(cost_page(costs(turn("hello", cost), session=cost))).splitlines()

    assert lines[1].endswith(shown)
    assert lines[2].endswith(shown)
    assert not cost["cost_known"] or "unknown" not in " ".join(lines)


def test_a_turn_that_did_not_end_well_says_so() -> None:
    page = page_text(cost_page(costs(turn("a", spent(), status="FAILED"), turn("b", spent(), status="CANCELLED"))))

    assert "main, failed" in page
    assert "main, stopped" in page


def test_earlier_turns_are_mentioned() -> None:
    assert "Earlier turns" in page_text(cost_page(costs(turn("a", spent()), earlier=True)))


def test_budgets_are_told_below_the_table_with_what_comes_when_they_are_used_up() -> None:
    shown = [
        budget("session", money=(430_000_000, 5_000_000_000), tokens=(1200, 50_000), then="ask"),
        budget("project", money=(0, 500_000_000), tokens=None, then="stop"),
        budget("day", money=None, tokens=(7, 9), then="degrade"),
    ]

    page = page_text(cost_page(costs(turn("a", spent()), budgets=shown)))

    told = " ".join(page.split())
    assert "Budget: This session used $0.430 of $5.00 and 1,200 of 50,000 tokens; then Ozzie asks." in told
    assert "Budget: This project used $0.00 of $0.50; then turns stop." in told
    assert 'Budget: All sessions today used 7 of 9 tokens; then "cheap" goes on.' in told


@pytest.mark.parametrize("magic", MAGICS.values(), ids=lambda magic: magic.name)
def test_the_help_of_a_command_fits_and_loses_nothing(magic: Any) -> None:
    text = page_text(magic_page(magic))

    assert all(columns(line) <= 80 for line in text.splitlines())
    assert "…" not in text
    assert all(form.text in text for form in magic.forms)


@pytest.mark.parametrize("text", ["x" * 300, "日本語のタイトル" * 20, "", "a|b"])
def test_lists_fit_in_eighty_columns(text: str) -> None:
    for page in (
        [session_table([session(text, chosen_model=text)], "")],
        cost_page(costs(turn(text, spent(123_456_789_000, tokens=12_345_678), models=[text]))),
    ):
        assert all(columns(line) <= 80 for line in page_text(page).splitlines())


@pytest.mark.parametrize("name", NAMES)
def test_what_is_hostile_stays_text_in_every_answer(name: str) -> None:
    text = render_sample(name, "http://127.0.0.1:9")
    card: JsonObject = {"kind": text, "name": text, "about": text, "facts": [[text, text]], "sample": text}
    for page in (
        [session_table([session(text, chosen_model=text, status=text)], "")],
        cost_page(costs(turn(text, spent(), models=[text], status=text))),
        model_page(models(text), {"model": text}),
        card_page(card),
    ):
        bundle = page_bundle(page)
        assert_inert_source(bundle["text/markdown"])
        assert not UNSAFE.search(bundle["text/plain"])
    assert inspection_reply(card_page(card))["found"]


class AskedHost:
    """A kernel whose gateway takes every model, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[JsonObject] = []
        self.variables: dict[str, Any] = {}
        self.parameters = Parameters(self.variables)

    async def link(self) -> Any:
        return self

    async def switch(self, choice: SessionChoice) -> Any:
        return self

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, **how: Any) -> JsonObject:
        assert params is not None
        self.asked.append(dict(params))
        then: list[Json] = ["backup", "local"] if params["model"] == "main" else []
        return {"alias": params["model"], "driver": "openai", "model": "x", "provider": "openai", "then": then}


@pytest.mark.parametrize("blank", [" ", "\t", "  \t ", "\u00a0"])
async def test_what_stands_behind_a_models_name_is_never_part_of_it(blank: str) -> None:
    host = AskedHost()

    await run_magic("model", f"openai/x{blank}sk-a-key", host)
    await run_magic("model", "openai/x", host)

    assert host.asked == [{"model": "openai/x", "base_url": "sk-a-key"}, {"model": "openai/x", "base_url": ""}]


async def test_who_answers_where_a_model_can_not_is_said_when_it_is_chosen() -> None:
    alone = page_text(await run_magic("model", "prod", AskedHost()))
    chain = page_text(await run_magic("model", "main", AskedHost()))

    assert " ".join(alone.split()) == "prod answers in this session from now on: x through openai."
    assert " ".join(chain.split()) == (
        "main answers in this session from now on: x through openai; where that can't, backup, then local."
    )


async def test_parameters_are_set_told_and_listed() -> None:
    host = AskedHost()

    none = page_text(await run_magic("parameter", "", host))
    said = page_text(await run_magic("parameter", 'month = "May"', host))
    listed = page_text(await run_magic("parameter", "", host))

    assert "There is no parameter yet." in none
    assert "{month}" in said
    assert "May" in said
    assert listed.splitlines()[-1].split() == ["{month}", "May"]
    assert (host.parameters.values, host.variables) == ({"month": "May"}, {"month": "May"})
    assert host.asked == []
