"""Approvals and questions of a turn, as front ends show them to a person."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ozzie_server_ext.render.text import cut_middle_columns, inside, visible_label, visible_proof

RISKS = {"low": "Low", "medium": "Medium", "high": "High"}
EFFECTS = {"none": "None", "reversible": "Can be undone", "irreversible": "Cannot be undone"}
"""How a card describes the effects of a call."""
NOT_KNOWN = "Not known"
"""Shown instead of a missing fact, which is never left out."""


def undo_words(undo: str, side_effect: str) -> str:
    """Return how the call can be undone, as its contract says."""
    return undo or ("None" if side_effect == "irreversible" else NOT_KNOWN)


def worst_case(side_effect: str, risk: str, undo: str, rule: str, place: str) -> str:
    """Return what may become of a call at worst, but for what the reason of the floor that asks says already. A floor
    has no `place`: a rule in a file may have the same id and say something else."""
    floor = "" if place else rule
    match side_effect:
        case "irreversible":
            said = undo if floor == "floor.irreversible" else f"It can't be undone. {undo}".rstrip()
        case "reversible":
            said = f"It can be undone: {inside(undo)}." if undo else "It can be undone; how is not known."
        case "none":
            said = "It changes nothing."
        case _:
            said = "Whether it can be undone is not known."
    is_high = risk == "high" and floor != "floor.high_risk"
    return " ".join(filter(None, (said, "Its risk is high." if is_high else "")))


_TARGETS = {
    "recipient": "To",
    "account": "Account",
    "amount": "Amount",
    "person": "Person",
    "calendar": "Calendar",
    "channel": "Channel",
    "object": "Object",
}
_WORD_WIDTH = 32
"""Of the name of an argument, in columns."""


def target_lines(targets: Iterable[Mapping[str, Any]], *, rest_at: str = "") -> tuple[tuple[str, str], ...]:
    """Return what a call names, for each argument: what it is, and the names, as "To" and "a@x.example, b@x.example".
    `rest_at` is the command that shows all if some are left out."""
    targets = tuple(targets)
    kinds = Counter(target["kind"] for target in targets)
    return tuple(
        (_target_word(target, is_alone=kinds[target["kind"]] == 1), _target_text(target, rest_at)) for target in targets
    )


def _target_word(target: Mapping[str, Any], *, is_alone: bool) -> str:
    word, argument = _TARGETS.get(target["kind"], NOT_KNOWN), target["argument"]
    if is_alone or argument in ("", word.lower()):
        return word
    return f"{word} ({cut_middle_columns(visible_label(argument), _WORD_WIDTH)})"


def _target_text(target: Mapping[str, Any], rest_at: str) -> str:
    named = ", ".join(map(_target_name, target["names"]))
    if not target["more"]:
        return named
    where = f" ({rest_at})" if rest_at else ""
    return f"{named} and {target['more']:,} more{where}" if named else f"too long to be shown here{where}"


def _target_name(name: Mapping[str, Any]) -> str:
    text = visible_label(name["text"])
    if name["written"]:
        text += f" (written {visible_label(name['written'])})"
    return text if name["is_read"] else f"{text} (can't be read)"


EFFECTS_AT_LENGTH = {
    "none": "none: it changes nothing",
    "reversible": "can be undone",
    "irreversible": "can't be undone",
}
EXTENTS = {"once": "once", "session": "for the session", "standing": "from now on"}
"""What a yes covers."""
RULINGS = {"ALLOW": "runs", "CHECK": "is checked first", "ASK": "asks first", "DENY": "never runs"}
"""What the rules decide about a call, by the name of the decision."""
REPEATS = {
    "supported": "safe to repeat",
    "required": "needs a key against doubles",
    "not_supported": "not safe to repeat",
}

NEEDS = {
    "model": "",
    "relay": "",
    "cli": "in a terminal or in the page; a kernel's yes is not enough",
    "browser": "in the page",
    "step_up": "in the page, once you have proved who you are",
}
"""Where an approval has to be given, by the weakest authentication that is enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One possible answer: its name in the command line and REST, and the label of its button. `help` is a line about
    it; one that `takes_text` is given in words."""

    name: str
    label: str
    help: str = ""
    takes_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionView:
    """A question to a person that the turn waits for. `notes` are sentences below it; `call_id` is the call that it
    belongs to, or empty."""

    prompt_id: str
    kind: str
    sentence: str
    notes: tuple[str, ...] = ()
    choices: tuple[Choice, ...] = ()
    call_id: str = ""

    @property
    def is_of_server(self) -> bool:
        """Whether a server asks, whose call goes on."""
        return self.kind == "server"


def question_of(payload: Mapping[str, Any]) -> QuestionView:
    """Return the question of a `prompt.requested`."""
    choices = tuple(
        Choice(
            name=str(option.get("name", "")),
            label=str(option.get("label", "")),
            help=str(option.get("help", "")),
            takes_text=bool(option.get("takes_text")),
        )
        for option in payload.get("options") or ()
    )
    return QuestionView(
        prompt_id=str(payload.get("prompt_id", "")),
        kind=str(payload.get("kind", "")),
        sentence=str(payload.get("question", "")),
        notes=tuple(str(note) for note in payload.get("notes") or ()),
        choices=choices,
        call_id=str(payload.get("call_id") or ""),
    )


def way_to_answer(task_id: str, choice: Choice) -> str:
    """Return the command that gives this answer."""
    words = ' "TEXT"' if choice.takes_text else ""
    return f"ozzie tasks answer {task_id} {choice.name}{words}"


SHOWN_LINES = 12
"""Lines of a proof that are shown at first. All of it is shown if the effect can't be undone."""

EACH_ASKS = "Each such call asks."
"""Shown if no yes for the session is offered."""

OPEN_IN_PAGE = "Open it in the page: it contains something that looks like a secret."
"""Shown if only a card without the secret can be shown."""
IN_PAGE = "A yes has to come from the page: from Ozzie's card or sidebar in JupyterLab."


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingApproval:
    """A call that a person is to approve. All texts are visible ones. `sentence` has its arguments in backticks;
    `targets` are lines of what it names (`target_lines`); `worst`: see `worst_case`;
    `cover` says what an approval for the session would cover, empty if none is offered; `by_kernel`: the kernel may
    pass on an approval, `in_page`: only a page may; `checked`: why a second model did not approve, empty if none was
    asked; `made_from`: a phrase for the outside content behind it, or empty; `known_from`: a sentence that says where
    what it names stands, or empty; `expired`: nobody answered in time;
    `is_redacted`: something like a secret was taken out, so this text can't be approved."""

    approval_id: str
    call_id: str
    name: str
    sentence: str
    reason: str
    targets: tuple[tuple[str, str], ...] = ()
    proof: tuple[str, ...] = ()
    is_diff: bool = False
    whole: str = ""
    worst: str = ""
    cover: str = ""
    rule: str = ""
    key: str = ""
    binds: str = ""
    arguments: tuple[str, ...] = ()
    by_kernel: bool = False
    in_page: bool = False
    is_redacted: bool = False
    is_grave: bool = False
    expires_at: datetime | None = None
    expired: bool = False
    checked: str = ""
    made_from: str = ""
    known_from: str = ""

    @property
    def elsewhere(self) -> str:
        """Why it can't be approved here, a sentence; empty if it can."""
        if self.is_redacted:
            return OPEN_IN_PAGE
        return IN_PAGE if self.in_page else ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The lines of the proof that are shown at first."""
        return self.proof if self.is_grave or len(self.proof) <= SHOWN_LINES else self.proof[:SHOWN_LINES]

    @property
    def hidden(self) -> str:
        """What of the proof is not shown, in words; empty if all of it is."""
        left = len(self.proof) - len(self.shown)
        if self.whole:
            return f"There is more: ozzie artifacts get {self.whole}"
        return f"{left:,} more lines: ozzie approvals show {self.approval_id}" if left else ""


def pending_approval_of(payload: Mapping[str, Any]) -> PendingApproval:
    """Return the approval of an `approval.requested`."""

    def text(name: str) -> str:
        return visible_label(str(payload.get(name) or ""))

    cover = payload.get("cover")
    effect, risk = text("side_effect"), text("risk_level")
    proof = visible_proof(str(payload.get("proof") or "")).rstrip("\n")
    return PendingApproval(
        approval_id=text("approval_id"),
        call_id=text("call_id"),
        name=text("name"),
        sentence=text("sentence"),
        reason=text("reason"),
        targets=target_lines(payload.get("targets") or (), rest_at=f"ozzie approvals show {text('approval_id')}"),
        proof=tuple(proof.split("\n")) if proof else (),
        is_diff=payload.get("shown") == "diff",
        whole=text("whole"),
        worst=worst_case(effect, risk, text("undo"), text("rule"), text("place")),
        cover=visible_label(str(cover.get("said", ""))) if isinstance(cover, Mapping) else "",
        rule=" in ".join(filter(None, [text("rule"), text("place")])),
        key=text("key"),
        binds=text("binds"),
        arguments=tuple(visible_proof(str(payload.get("arguments") or "")).splitlines()),
        by_kernel=payload.get("needs") == "relay",
        is_redacted=bool(payload.get("card")),
        in_page=payload.get("needs") in ("browser", "step_up"),
        is_grave=effect == "irreversible" or risk == "high",
        expires_at=_moment(text("expires_at")),
        checked=text("checked"),
        made_from=text("made_from"),
        known_from=text("known_from"),
    )


def answered(payload: Mapping[str, Any], at: datetime | None) -> str:
    """Return who approved: "approved once by Ana, 14:05"."""
    by = visible_label(str(payload.get("by") or "somebody"))
    words = f"approved {EXTENTS.get(str(payload.get('extent')), 'once')} by {by}"
    if payload.get("way") == "model":
        words = f"approved by {second_model(by)}"
    return words + (f", {at.astimezone():%H:%M}" if at else "")


def second_model(by: str) -> str:
    """Return the name of a model that answered: "a second model (cheap)"."""
    return f"a second model ({by.removesuffix(' (model)')})"


def why_asked(asked: PendingApproval) -> str:
    """Return why Ozzie asks, and what may become of it at worst."""
    return f"Ozzie asks because {inside(asked.reason)}. {asked.worst}".rstrip()


def made_from(asked: PendingApproval) -> str:
    """Return a sentence about the outside content behind the call; "" if there is none."""
    return f"Made from {asked.made_from}." if asked.made_from else ""


def ways_to_answer(asked: PendingApproval) -> tuple[tuple[str, str], ...]:
    """Return the possible answers in a terminal, each with the command that gives it."""
    if asked.expired:
        return (("Ask again", f"ozzie approvals renew {asked.approval_id}"),)
    once = ("Approve once", f"ozzie approvals approve {asked.approval_id}")
    session = ("Approve for this session", f"ozzie approvals approve {asked.approval_id} --session")
    reject = ("Reject", f"ozzie approvals reject {asked.approval_id}")
    if asked.in_page:
        return (reject,)
    if asked.is_redacted:
        return (("Read all of it", f"ozzie approvals show {asked.approval_id}"), reject)
    return (once, session, reject) if asked.cover else (once, reject)


def _moment(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
