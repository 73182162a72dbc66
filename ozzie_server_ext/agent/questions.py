"""The questions that a turn itself asks a person: about a full budget, an uncertain call, or too many approvals."""

from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.domain.approvals import MOST_ASKS
from ozzie_server_ext.domain.budget import NANO_USD_PER_USD, Budget, Measure, OnBreach
from ozzie_server_ext.domain.events import BudgetExceeded, PromptOption, PromptRequested, TaskWaitingInput
from ozzie_server_ext.domain.ids import PromptId
from ozzie_server_ext.models.ledger import BudgetOverrun
from ozzie_server_ext.render.text import amount_of_money, elapsed, money, token_count

EXCEEDED, TOO_LATE = "budget.exceeded", "limit.deadline"
"""The error codes of a budget's end."""

ALLOW, CHEAPER, STOP = "allow", "cheap", "stop"
"""The options of `budget_question`."""

_CENT = NANO_USD_PER_USD // 100
_SETTING: dict[Measure, str] = {"cost": "max_cost_usd", "tokens": "max_tokens", "time": "deadline_s"}


def budget_exceeded(breach: BudgetOverrun, action: OnBreach) -> BudgetExceeded:
    """Return the event about a full budget."""
    return BudgetExceeded(
        scope=breach.budget.account.scope,
        key=breach.budget.account.key,
        measure=breach.measure,
        limit=breach.limit,
        used=breach.used,
        wanted=breach.wanted,
        action=action,
    )


def budget_question(
    breach: BudgetOverrun, prompt_id: PromptId, *, said: str, cheaper: str
) -> tuple[PromptRequested, TaskWaitingInput]:
    """Return the question about a full budget. `said` names the next call's model, `cheaper` is the alias of a cheaper
    model, or empty if there is none or no room for it."""
    more = suggested(breach)
    options = [
        PromptOption(name=ALLOW, label=f"Allow {_amount(breach.measure, more)} more", amount=more, unit=breach.measure)
    ]
    if cheaper:
        options.append(PromptOption(name=CHEAPER, label=f'Go on with "{cheaper}"'))
    options.append(PromptOption(name=STOP, label="Stop here"))
    notes = [f"What was done so far stays. Without more {_NEEDED[breach.measure]}, the answer does not come."]
    if breach.measure != "time":
        notes.insert(0, f'The next step takes {_amount(breach.measure, breach.wanted)} at the most, with "{said}".')
    prompt = PromptRequested(
        prompt_id=prompt_id, kind="budget", question=describe(breach), notes=tuple(notes), options=tuple(options)
    )
    return prompt, TaskWaitingInput(question=prompt.question)


_NEEDED: dict[Measure, str] = {"cost": "money", "tokens": "tokens", "time": "time"}


def limit_exceeded(breach: BudgetOverrun, *, alone: bool) -> LimitExceeded:
    """Return the error that ends a turn. `alone`: it would have asked, but nobody was there."""
    scope, setting = breach.budget.account.scope, _SETTING[breach.measure]
    nobody = " Nobody was there to ask." if alone else ""
    return LimitExceeded(
        f"{describe(breach)}{nobody}",
        hint=f'Raise {setting} in the budget of the skill "{breach.skill}".'
        if breach.skill
        else f"Ask for a smaller step, or raise budgets.{scope}.{setting} in the configuration.",
        code=TOO_LATE if breach.measure == "time" else EXCEEDED,
    )


def describe(breach: BudgetOverrun) -> str:
    """Return a sentence about the use of a budget: "This task has used $0.98 of its $1.00." """
    limit = _amount(breach.measure, breach.limit)
    whose = f'The skill "{breach.skill}"' if breach.skill else f"This {breach.budget.account.scope}"
    if breach.measure == "time":
        return f"{whose} has worked for its {limit}."
    if breach.used >= breach.limit:
        return f"{whose} has used its {limit}."
    used = money(breach.used) if breach.measure == "cost" else token_count(breach.used)
    return f"{whose} has used {used} of its {limit}."


def time_overrun(budget: Budget, limit_s: float) -> BudgetOverrun:
    """Return the overrun of a budget whose time is used up."""
    limit = round(limit_s * 1000)
    return BudgetOverrun(budget=budget, measure="time", limit=limit, used=limit, wanted=0, least=0)


def suggested(breach: BudgetOverrun) -> int:
    """Return how much more to offer: half of the limit, and at least enough for the next call."""
    more = max(breach.limit // 2, 1, breach.used + breach.least - breach.limit)
    step = {"cost": _CENT, "tokens": 1000, "time": 1000}[breach.measure]
    return -(-more // step) * step


def _amount(measure: Measure, value: int) -> str:
    """Return an amount in words: "$0.50", "2,000 tokens", "10 min 0 s"."""
    match measure:
        case "cost":
            return amount_of_money(value)
        case "tokens":
            return token_count(value)
        case "time":
            return f"{value / 1000:g} s" if value < 60_000 else elapsed(value / 1000)


DONE, AGAIN, LEAVE = "done", "again", "leave"
"""The options of `uncertain_question`."""


def uncertain_question(prompt_id: PromptId, question: str) -> tuple[PromptRequested, TaskWaitingInput]:
    """Return the question about calls that may or may not have taken effect."""
    prompt = PromptRequested(
        prompt_id=prompt_id,
        kind="uncertain",
        question=question,
        notes=("Find out whether it did, then say so here. If it is tried again, you are asked as before.",),
        options=(
            PromptOption(name=DONE, label="It was done"),
            PromptOption(name=AGAIN, label="It was not: try again"),
            PromptOption(name=LEAVE, label="Leave it, and end here"),
        ),
    )
    return prompt, TaskWaitingInput(question=question)


GO_ON = "go_on"
"""The option of `ask_limit_question` besides `STOP`."""


def ask_limit_question(prompt_id: PromptId) -> tuple[PromptRequested, TaskWaitingInput]:
    """Return the question whether a turn may ask more often. It replaces the next request for an approval."""
    prompt = PromptRequested(
        prompt_id=prompt_id,
        kind="asks",
        question=f"This turn has asked you {MOST_ASKS} times already, and wants to ask again.",
        notes=(
            "What it asks next is shown in full, as before; nothing is done without your yes.",
            "A rule can allow what you would approve each time: ozzie policy explain shows why it asks.",
        ),
        options=(
            PromptOption(name=GO_ON, label=f"Let it ask {MOST_ASKS} more times"),
            PromptOption(name=STOP, label="Stop here"),
        ),
    )
    return prompt, TaskWaitingInput(question=prompt.question)
