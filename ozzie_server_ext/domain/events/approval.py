"""Facts about approvals (TL-4)."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from ozzie_server_ext.domain.approvals import Cover, Extent, Way
from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.ids import ApprovalId, ArtifactId, CallId
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(Fact):
    """A person, or before them a second model, is asked whether a call may be made.

    `sentence` is the question, and `proof` what the call would do, of the kind `shown`: both come from the tool's
    contract and the checked arguments, never from the model. Where the proof is long, the whole of it is `whole`.
    `reason`, `rule` and `place` are those of the decision. `undo`: how it can be taken back; empty where nothing is
    known. `binds` is a SHA-256 of all that the yes is for (DESIGN §2.6); with another one, it is void. `needs` is the
    weakest way that a yes may come by; `cover`, what one for the session would cover, null where none is offered.
    `expires_at` is RFC 3339 in UTC. `checked`: why a second model did not say yes, a sentence; empty where none was to.
    `arguments`: those that are carried out, as JSON without secrets, the long ones shortened. `made_from`: where from
    outside the content came that the call is made from, a phrase; empty where nothing did. `card`: if something that
    looks like a secret was taken out of these texts, the SHA-256 of the card that has it, which is drawn from the
    recorded call for whoever may answer; else empty. `brought` are the sources outside that these texts may quote,
    such as those of a marked file that would be changed.
    """

    type: ClassVar[str] = "approval.requested"
    approval_id: ApprovalId
    call_id: CallId
    tool_id: str
    name: str
    sentence: str
    proof: str
    shown: Literal["diff", "text", ""]
    whole: ArtifactId | None
    reason: str
    rule: str
    place: str
    side_effect: SideEffect
    risk_level: RiskLevel
    undo: str
    binds: str
    needs: Way
    cover: Cover | None
    key: str
    expires_at: str
    checked: str = ""
    arguments: str = ""
    made_from: str = ""
    card: str = ""
    brought: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGranted(Fact):
    """The first answer, a yes."""

    type: ClassVar[str] = "approval.granted"
    approval_id: ApprovalId
    extent: Extent
    by: str
    way: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRejected(Fact):
    """The first answer, a no. The model gets the comment."""

    type: ClassVar[str] = "approval.rejected"
    approval_id: ApprovalId
    comment: str
    by: str
    way: Way


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalExpired(Fact):
    """Nobody may answer any more, or the yes is void: its time is up, the call would do something else by now, or a
    person took back what they had allowed for the session."""

    type: ClassVar[str] = "approval.expired"
    approval_id: ApprovalId
    why: Literal["time", "changed", "revoked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRefused(Fact):
    """An answer that did not count, kept for the audit. `approval_id` is what was asked for, cut where it is none."""

    type: ClassVar[str] = "approval.refused"
    approval_id: str
    answer: Literal["approve", "reject", "renew", "revoke"]
    by: str
    way: Way
    why: Literal["unknown", "session", "way", "answered", "expired", "extent", "changed"]
