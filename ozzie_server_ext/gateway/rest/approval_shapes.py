"""Types of the REST interface for approvals."""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta

from ozzie_server_ext.domain.approvals import AuthStrength
from ozzie_server_ext.domain.events import CardTarget
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect
from ozzie_server_ext.gateway.rest.shapes import Time
from ozzie_server_ext.tasks.approvals import MAX_COMMENT, Status

Why: TypeAlias = Literal["", "time", "changed", "task", "revoked"]
GivenExtent: TypeAlias = Literal["", "once", "session", "standing"]
GivenWay: TypeAlias = Literal["", "model", "relay", "cli", "browser", "step_up"]
"""States of an answer; empty before it. `domain.approvals` explains the others."""
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


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A call that a person must approve, and the answer.

    `why` explains the `status`: an approval expired because its time was up, the call would now do something else
    ("changed"), or its task ended; a granted one became void because it was "revoked" or the call has "changed".
    `sentence` is the question and `proof` what the call would do, a diff or a text as `shown` says; the artifact
    `whole` has all of it if that is more. `reason`, `rule` and `place` belong to the decision to ask; `undo` is how to
    take the effect back, if known. A yes must come by the way `needs` or a stronger one: model, relay, cli, browser,
    step_up. `session_cover` describes what a yes for the session covers, null if none is offered, and `standing` what a
    standing yes lets through from now on, which the page alone may give, empty if none is offered. `binds` is a SHA-256
    of everything that a yes is for, `key` the call's idempotency key. `by`, `way`, `extent` and `comment` belong to the
    answer, empty before it; `in_force_until` is the end of a yes for the session. `notebook` is the session's notebook
    below the root of the requested server, empty if it is elsewhere. `checked` is why a second model did not say yes,
    empty if none was to check. `arguments` are the call's, as JSON, long ones shortened. `made_from` is a phrase on the
    outside content that the call was made from, empty without any. `run_id` is the run of a skill that the call's step
    belongs to, and `step` names the skill and the step ("sums: gate"); both are empty outside a run. `card`: if
    something that looks like a secret was removed from these texts, the SHA-256 of the full card, which must be read
    before a yes (GET /approvals/{approval_id}/card); else empty. `targets` are what the arguments name, to be shown
    below the sentence; of a long list only the beginning, and the card has all. `known_from` is a sentence that says
    where they stand, such as in the user's own words; empty if that is not known.
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
    targets: tuple[CardTarget, ...]
    known_from: str
    standing: str


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a person must read before answering, complete: the question, all that the call names
    (`targets`), what it would do (`proof`, of the kind `shown`), how to undo it, and all arguments as JSON. Invisible
    characters are escaped."""

    sentence: str
    proof: str
    shown: Literal["diff", "text", ""]
    undo: str
    arguments: str
    targets: tuple[CardTarget, ...]
