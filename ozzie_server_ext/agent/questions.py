"""What a turn asks a person by itself: where a budget has no room, and where nobody knows what a call did."""

from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.domain.budget import NANO_USD_PER_USD, Budget, Measure, OnBreach
from ozzie_server_ext.domain.events import BudgetExceeded, PromptOption, PromptRequested, TaskWaitingInput
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.models.ledger import BudgetOverrun
from ozzie_server_ext.render.text import amount_of_money, elapsed, money, token_count

EXCEEDED, TOO_LATE = "budget.exceeded", "limit.deadline"
"""The codes of what ends by a budget."""

ALLOW, CHEAPER, STOP = "allow", "cheap", "stop"
"""The answers to the question of a budget."""

_CENT = NANO_USD_PER_USD // 100
_SETTING: dict[Measure, str] = {"cost": "max_cost_usd", "tokens": "max_tokens", "time": "deadline_s"}


def exceeded(breach: BudgetOverrun, action: OnBreach) -> BudgetExceeded:
    """The fact that says so."""
    return BudgetExceeded(
        scope=breach.budget.account.scope,
        key=breach.budget.account.key,
        measure=breach.measure,
        limit=breach.limit,
        used=breach.used,
        wanted=breach.wanted,
        action=action,
    )


def question(
    breach: BudgetOverrun, prompt_id: PromptId, *, said: str, cheaper: str
) -> tuple[PromptRequested, TaskWaitingInput]:
    """What a person is asked. `said` is what the next call's model is called, `cheaper` the alias that a cheaper one
    may be asked by; empty where there is none, or no room for it either."""
    more = suggested(breach)
    options = [
        PromptOption(name=ALLOW, label=f"Allow {amount(breach.measure, more)} more", amount=more, unit=breach.measure)
    ]
    if cheaper:
        options.append(PromptOption(name=CHEAPER, label=f'Go on with "{cheaper}"'))
    options.append(PromptOption(name=STOP, label="Stop here"))
    notes = [f"What was done so far stays. Without more {_NEEDED[breach.measure]}, the answer does not come."]
    if breach.measure != "time":
        notes.insert(0, f'The next step takes {amount(breach.measure, breach.wanted)} at the most, with "{said}".')
    prompt = PromptRequested(
        prompt_id=prompt_id, kind="budget", question=sentence(breach), notes=tuple(notes), options=tuple(options)
    )
    return prompt, TaskWaitingInput(question=prompt.question)


_NEEDED: dict[Measure, str] = {"cost": "money", "tokens": "tokens", "time": "time"}


def end(breach: BudgetOverrun, *, alone: bool) -> LimitExceeded:
    """The error that a turn ends with. `alone`: it would have asked, and nobody was there."""
    scope, setting = breach.budget.account.scope, _SETTING[breach.measure]
    nobody = " Nobody was there to ask." if alone else ""
    return LimitExceeded(
        f"{sentence(breach)}{nobody}",
        hint=f'Raise {setting} in the budget of the skill "{breach.skill}".'
        if breach.skill
        else f"Ask for a smaller step, or raise budgets.{scope}.{setting} in the configuration.",
        code=TOO_LATE if breach.measure == "time" else EXCEEDED,
    )


def sentence(breach: BudgetOverrun) -> str:
    """That the budget is used up, or how nearly: "This task has used $0.98 of its $1.00." """
    limit = amount(breach.measure, breach.limit)
    whose = f'The skill "{breach.skill}"' if breach.skill else f"This {breach.budget.account.scope}"
    if breach.measure == "time":
        return f"{whose} has worked for its {limit}."
    if breach.used >= breach.limit:
        return f"{whose} has used its {limit}."
    used = money(breach.used) if breach.measure == "cost" else token_count(breach.used)
    return f"{whose} has used {used} of its {limit}."


def too_late(budget: Budget, limit_s: float) -> BudgetOverrun:
    """That all of the time of a budget is used up."""
    limit = round(limit_s * 1000)
    return BudgetOverrun(budget=budget, measure="time", limit=limit, used=limit, wanted=0, least=0)


def suggested(breach: BudgetOverrun) -> int:
    """How much more is offered: half of what there was, and at least what lets the next call through."""
    more = max(breach.limit // 2, 1, breach.used + breach.least - breach.limit)
    step = {"cost": _CENT, "tokens": 1000, "time": 1000}[breach.measure]
    return -(-more // step) * step


def amount(measure: Measure, value: int) -> str:
    """An amount in words: "$0.50", "2,000 tokens", "10 min 0 s"."""
    match measure:
        case "cost":
            return amount_of_money(value)
        case "tokens":
            return token_count(value)
        case "time":
            return f"{value / 1000:g} s" if value < 60_000 else elapsed(value / 1000)


DONE, AGAIN, LEAVE = "done", "again", "leave"
"""The answers to it."""


def doubt(prompt_id: PromptId, said: str) -> tuple[PromptRequested, TaskWaitingInput]:
    """The question."""
    prompt = PromptRequested(
        prompt_id=prompt_id,
        kind="uncertain",
        question=said,
        notes=("Find out whether it did, then say so here. Where it is tried again, you are asked as before.",),
        options=(
            PromptOption(name=DONE, label="It was done"),
            PromptOption(name=AGAIN, label="It was not: try again"),
            PromptOption(name=LEAVE, label="Leave it, and end here"),
        ),
    )
    return prompt, TaskWaitingInput(question=said)
