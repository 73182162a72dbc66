"""What is said where a budget has no room for the next call."""

import dataclasses

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.questions import budget_exceeded, budget_question, describe, limit_exceeded, suggested
from ozzie_server_ext.domain.budget import Account, Budget, Measure, Scope
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.models.ledger import BudgetOverrun

USD = 1_000_000_000


def breach(scope: Scope, measure: Measure, limit: int, used: int, wanted: int = 0, *, least: int = 0) -> BudgetOverrun:
    cost, tokens = (limit if measure == kind else None for kind in ("cost", "tokens"))
    budget = Budget(account=Account(scope, "k"), cost=cost, tokens=tokens)
    return BudgetOverrun(budget=budget, measure=measure, limit=limit, used=used, wanted=wanted, least=least)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (breach("task", "cost", USD, USD), "This task has used its $1.00."),
        (breach("task", "cost", USD, 2 * USD), "This task has used its $1.00."),
        (breach("task", "cost", USD // 2, USD // 3), "This task has used $0.333 of its $0.50."),
        (breach("task", "cost", 1500, 700), "This task has used <$0.001 of its <$0.001."),
        (breach("session", "tokens", 9000, 8400), "This session has used 8,400 tokens of its 9,000 tokens."),
        (breach("project", "cost", 20 * USD, 19 * USD), "This project has used $19.00 of its $20.00."),
        (breach("day", "cost", 10 * USD, 10 * USD), "This day has used its $10.00."),
        (breach("task", "time", 1500, 1500), "This task has worked for its 1.5 s."),
        (breach("task", "time", 90_000, 90_000), "This task has worked for its 1 min 30 s."),
    ],
)
def test_the_sentence_says_what_was_used_of_what(found: BudgetOverrun, said: str) -> None:
    assert describe(found) == said


@pytest.mark.parametrize(
    ("found", "more"),
    [
        (breach("task", "cost", USD, USD), USD // 2),
        (breach("task", "cost", USD, USD - 5, 9 * USD, least=USD + 10), USD + USD // 100),
        (breach("task", "cost", 7, 7), USD // 100),
        (breach("task", "cost", USD, 3 * USD, least=USD), 3 * USD),
        (breach("task", "tokens", 5000, 4500, 65_000, least=3100), 3000),
        (breach("task", "time", 5000, 5000), 3000),
    ],
)
def test_what_is_offered_is_half_of_what_there_was_and_at_least_lets_the_next_call_through(
    found: BudgetOverrun, more: int
) -> None:
    assert suggested(found) == more


def test_the_question_has_what_the_next_call_takes_what_is_lost_and_the_answers() -> None:
    prompt, waiting = budget_question(
        breach("task", "cost", USD, USD, USD // 25), PromptId("p"), said="main", cheaper="cheap"
    )

    assert waiting.question == prompt.question == "This task has used its $1.00."
    assert prompt.notes == (
        'The next step takes $0.04 at the most, with "main".',
        "What was done so far stays. Without more money, the answer does not come.",
    )
    assert [(option.name, option.label, option.amount, option.unit) for option in prompt.options] == [
        ("allow", "Allow $0.50 more", USD // 2, "cost"),
        ("cheap", 'Go on with "cheap"', 0, ""),
        ("stop", "Stop here", 0, ""),
    ]


def test_time_has_no_next_step_and_no_cheaper_model() -> None:
    prompt, _ = budget_question(breach("task", "time", 60_000, 60_000), PromptId("p"), said="main", cheaper="")

    assert [option.label for option in prompt.options] == ["Allow 30 s more", "Stop here"]
    assert prompt.notes == ("What was done so far stays. Without more time, the answer does not come.",)


@pytest.mark.parametrize(
    ("found", "code", "setting"),
    [
        (breach("day", "cost", USD, USD), "budget.exceeded", "budgets.day.max_cost_usd"),
        (breach("session", "tokens", 9, 9), "budget.exceeded", "budgets.session.max_tokens"),
        (breach("task", "time", 9, 9), "limit.deadline", "budgets.task.deadline_s"),
    ],
)
def test_the_end_names_the_setting(found: BudgetOverrun, code: str, setting: str) -> None:
    error = limit_exceeded(found, alone=False)

    assert (error.code, setting in error.hint, "Nobody" in str(error)) == (code, True, False)
    assert str(limit_exceeded(found, alone=True)).endswith(" Nobody was there to ask.")


def test_the_budget_of_a_skill_is_named_where_it_is_the_one_that_bounds() -> None:
    whole = breach("task", "tokens", 9000, 8400)
    of_skill = dataclasses.replace(whole.budget, skill="scout", skill_bounds=("tokens",), is_part=True)
    bound, free = (
        replace(whole, budget=of_skill),
        replace(whole, budget=dataclasses.replace(of_skill, skill_bounds=("cost",))),
    )

    assert describe(bound) == 'The skill "scout" has used 8,400 tokens of its 9,000 tokens.'
    assert limit_exceeded(bound, alone=False).hint == 'Raise max_tokens in the budget of the skill "scout".'
    assert (bound.ends_a_part, free.ends_a_part, whole.ends_a_part) == (True, False, False)
    assert not replace(bound, budget=dataclasses.replace(of_skill, is_part=False)).ends_a_part
    assert describe(free) == describe(whole)


def test_the_fact_holds_the_figures() -> None:
    fact = budget_exceeded(breach("day", "tokens", 9000, 8400, 1500), "stop")

    assert (fact.scope, fact.key, fact.measure, fact.action) == ("day", "k", "tokens", "stop")
    assert (fact.limit, fact.used, fact.wanted) == (9000, 8400, 1500)
