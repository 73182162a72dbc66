"""The shapes that the REST interface answers of approvals, and the kinds of values in its requests of them."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect
from ozzie_server_ext.gateway.rest.shapes import Time
from ozzie_server_ext.tasks.approvals import MAX_COMMENT, Status

Why: TypeAlias = Literal["", "time", "changed", "task", "revoked"]
GivenExtent: TypeAlias = Literal["", "once", "session"]
GivenWay: TypeAlias = Literal["", "model", "relay", "cli", "browser", "step_up"]
"""Those of an answer; empty before it. What else they are is in `domain.approvals`."""
ApprovalId: TypeAlias = Annotated[
    str, Meta(pattern="^[0-7][0-9A-HJKMNP-TV-Z]{25}$", title="the id of an approval, a ULID")
]
Binds: TypeAlias = Annotated[
    str,
    Meta(
        pattern="^([0-9a-f]{64})?$",
        title="the binds of an approval, or empty",
        description="That of the request that was seen: another one is not answered then. Empty: whatever it asks.",
    ),
]
Comment: TypeAlias = Annotated[
    str,
    Meta(
        max_length=MAX_COMMENT,
        title=f"text of at most {MAX_COMMENT:,} characters",
        description="Why not, for the model to read.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A call that a person was asked for, and the answer.

    `why` says more of the `status`: an expired one's time was up, the call would do something else by now ("changed"),
    or its task ended; a granted one that is void was "revoked" or has "changed". `sentence` is the question and
    `proof` what the call would do, a diff or a text as `shown` says; the artifact `whole` is all of it where that is
    more. `reason`, `rule` and `place` are those of the decision to ask, `undo` how it can be taken back where that is
    known. A yes has to come by the way `needs`, or by a stronger one: model, relay, cli, browser, step_up.
    `session_cover` tells what one for the session would cover; null where none is offered. `binds` is a SHA-256 of all
    that a yes is for, `key` the call's idempotency key. `by`, `way`, `extent` and `comment` are those of the answer,
    empty before it; `in_force_until` is the end of a yes for the session. `notebook` is the path of the session's
    notebook below the root of the server that was asked; empty where it has none there. `checked` is why a second model
    did not say yes, a sentence; empty where none was to. `arguments` are those that are carried out, as JSON, the long
    ones shortened. `made_from`: where from outside the content came that the call is made from, a phrase; empty where
    nothing did. `run_id` is the task of the run of a skill that a step asks for, and `step` names the skill and the
    step: "sums: gate"; empty where no step does. `card`: if something that looks like a secret was taken out of these
    texts, the SHA-256 of the card that has it, which is to be read before a yes (GET /approvals/{approval_id}/card);
    else empty.
    """

    approval_id: str
    call_id: str
    session_id: str
    task_id: str
    status: Status
    why: Why
    sentence: str
    reason: str
    rule: str
    place: str
    proof: str
    shown: Literal["diff", "text", ""]
    whole: str | None
    tool_id: str
    name: str
    side_effect: SideEffect
    risk_level: RiskLevel
    undo: str
    needs: AuthStrength
    binds: str
    key: str
    session_cover: str | None
    requested_at: Time
    expires_at: Time
    answered_at: Time | None
    extent: GivenExtent
    by: str
    way: GivenWay
    comment: str
    in_force_until: Time | None
    notebook: str
    checked: str
    arguments: str
    made_from: str
    run_id: str
    step: str
    card: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """All that a person has to read before they answer, with nothing taken out of it: the question, what the call
    would do (`proof`, of the kind `shown`), how it can be taken back, and all arguments as JSON. Characters that nobody
    sees are escaped."""

    sentence: str
    proof: str
    shown: Literal["diff", "text", ""]
    undo: str
    arguments: str
