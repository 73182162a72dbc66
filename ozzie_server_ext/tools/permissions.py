"""Whether a call that a person has to be asked for may be made, and what they are asked.

What is asked comes from the tool's plan and the checked arguments; a yes is good for exactly that plan.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Protocol

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.approvals import EXPIRES_S, GRANT_S, AuthStrength, SessionGrant, weakest_way
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import ApprovalExpired, ApprovalRequested, EventBody
from ozzie_server_ext.domain.ids import ApprovalId, ArtifactId, CallId, SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.approvals import binding, cover_of, covers
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Verdict
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.policy.rules import told
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import InvalidArguments, Plan, Preview, Tool, ToolContext
from ozzie_server_ext.tools.cards import Card, preview_of, real_card, redacted, shortened, stored_card
from ozzie_server_ext.tools.offering import FIND_ID, OFFERED_AT_MOST
from ozzie_server_ext.tools.registry import ToolRegistry


def unknown_tool(name: str, registry: ToolRegistry) -> OzzieError:
    """Names of an outsider's making are not told: nobody may have been offered them."""
    names = [tool.meta.name for tool in registry.all() if not tool.meta.told_by and tool.meta.tool_id != FIND_ID]
    there = "there are"
    if len(names) > OFFERED_AT_MOST:
        names, there = get_close_matches(name[:64], names, n=10, cutoff=0.0), "the nearest are"
    return InvalidArguments(f"There is no tool {name[:64]}; {there}: {', '.join(names)}.", code="tool.unknown")


def asks_anew() -> PolicyError:
    return PolicyError("It was cut off, and you would have to allow it to be made again.")


def has_no_key() -> PolicyError:
    return PolicyError(
        "It was cut off, and its tool does not take the key any more with which it was to be made again."
    )


def refusal(meta: ToolMeta, verdict: Verdict, caller: Caller) -> PolicyError | None:
    """Why the call does not run, whatever anybody says; None where it may, or may once somebody said yes."""
    if verdict.decision is Decision.DENY:
        return PolicyError(verdict.refusal)
    if verdict.decision is Decision.ASK and not caller.attended:
        return unattended(meta)
    return None


def unattended(meta: ToolMeta) -> PolicyError:
    return PolicyError(f"Not done: nobody was there to ask ({meta.name}).", code="policy.unattended")


def not_for_skill(meta: ToolMeta) -> PolicyError:
    return PolicyError(f"Not done: the skill that is run does not have the tool {meta.name}.", code="policy.skill")


MOST_SHOWN = 32_000
"""In characters, of a proof within the request itself. Of a longer one, the whole is an artifact."""
_UNCHECKED = "No second model was asked: the call contains something that looks like a secret."


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A yes, and how and when it came."""

    way: AuthStrength
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """What a call was asked for before. `grant`: the yes, where there was one; `is_open`: nobody has answered, and
    somebody still could; `has_ended`: that call came to an end, and what is made now is another one."""

    asked: ApprovalRequested
    grant: Grant | None = None
    is_open: bool = True
    has_ended: bool = False


class Grants(Protocol):
    """The yeses for the session that are in force."""

    async def covering(
        self, session_id: SessionId, fits: Callable[[SessionGrant], bool], needs: AuthStrength
    ) -> ApprovalId | None:
        """The approval whose yes for the session covers a call, if one does that came by `needs` or a stronger way."""
        ...


class NoGrants:
    """Where everything is asked for each time."""

    async def covering(
        self, session_id: SessionId, fits: Callable[[SessionGrant], bool], needs: AuthStrength
    ) -> ApprovalId | None:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Permission:
    """`approval_id` is the yes by which the call may be made. Without one, `facts` are what asks a person."""

    approval_id: ApprovalId | None = None
    facts: tuple[EventBody, ...] = ()


class Permissions:
    """Looks for a yes to a call, and words the question where there is none."""

    def __init__(
        self,
        artifacts: ArtifactStore,
        clock: Clock,
        ids: IdSource,
        grants: Grants | None = None,
        expires_s: Callable[[], float] = lambda: EXPIRES_S,
        known_secrets: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`expires_s` tells how long a question waits. `known_secrets`: see `Telling`."""
        self._artifacts = artifacts
        self._clock = clock
        self._ids = ids
        self._grants = grants or NoGrants()
        self._expires_s = expires_s
        self._known_secrets = known_secrets

    async def of(
        self,
        tool: Tool,
        plan: Plan,
        ruling: Ruling,
        call_id: CallId,
        context: ToolContext,
        recorder: Recorder,
        earlier: Earlier | None,
        quoted: Content = CLEAN,
    ) -> Permission:
        """Whether the planned call may be made, or what asks for it. `quoted` is what the question may quote from
        outside, beside what the call is made from. Raises as `ArtifactStore.record`, and OzzieError where the tool
        can't say what it would do."""
        meta, rule = plan.of(tool.meta), ruling.verdict.rule
        content = context.reading.content
        binds = binding(meta, plan.args, plan.effect, ruling, context.caller, content)
        # A second model looks at nothing that strangers wrote: it may speak to it.
        is_checked = ruling.verdict.decision is Decision.CHECK and not quoted
        person = _strongest(weakest_way(meta, labelled=bool(content)), ruling.verdict.needs)
        needs = AuthStrength.MODEL if is_checked else person
        if earlier is not None and self._is_good(earlier, binds, needs):
            return Permission(approval_id=earlier.asked.approval_id)
        known = self._known_secrets()
        hides = await asyncio.to_thread(redacted, plan.args, known) != plan.args
        action = Action.of(meta, plan.args, context.caller, context.reading)
        covering = await self._grants.covering(
            recorder.session_id,
            lambda cover: covers(cover, action, rule),
            _strongest(needs, AuthStrength.CLI) if hides else needs,
        )
        if covering is not None:
            return Permission(approval_id=covering)
        preview = await preview_of(tool, plan)
        real, stored = await asyncio.to_thread(_cards, preview, plan.args, known)
        is_redacted = stored != real
        if is_redacted:  # only who draws the real card may answer, and no second model does
            needs = _strongest(person, AuthStrength.CLI)
        if needs is not AuthStrength.MODEL and not context.caller.attended:
            raise unattended(meta)
        proof, whole = await self._proof(stored, meta.name, call_id, recorder.made_from(content | quoted))
        requested = ApprovalRequested(
            approval_id=ApprovalId(self._ids.new()),
            call_id=call_id,
            tool_id=meta.tool_id,
            name=meta.name,
            sentence=stored.sentence,
            proof=proof,
            shown=stored.shown,
            whole=whole,
            reason=ruling.verdict.reason,
            rule=rule,
            place=ruling.verdict.place,
            side_effect=meta.side_effect,
            risk_level=meta.risk_level,
            undo=stored.undo,
            arguments=shortened(stored),
            binds=binds,
            needs=needs,
            cover=cover_of(action, rule),
            checked=_UNCHECKED if is_checked and is_redacted else "",
            made_from=told(content),
            key=context.key,
            card=real.digest if is_redacted else "",
            brought=quoted.sources,
            expires_at=time_text(self._clock.now() + timedelta(seconds=self._expires_s())),
        )
        return Permission(facts=(*_void(earlier, binds), requested))

    def _is_good(self, earlier: Earlier, binds: str, needs: AuthStrength) -> bool:
        """Whether there was a yes to exactly this, lately, by a way that is strong enough now too."""
        grant = earlier.grant
        if grant is None or earlier.asked.binds != binds or grant.way.strength < needs.strength:
            return False
        return self._clock.now() - grant.at <= timedelta(seconds=GRANT_S)

    async def _proof(self, card: Card, name: str, call_id: CallId, recorder: Recorder) -> tuple[str, ArtifactId | None]:
        """What is shown at once, and the artifact with all of it where that is more. `name` is the tool's."""
        proof = card.proof
        if len(proof) <= MOST_SHOWN:
            return proof, None
        mime = "text/x-diff" if card.shown == "diff" else "text/plain"
        kept = await self._artifacts.keep(
            proof.encode(), kind="log", name=f"what {name} would do, {call_id}", mime=mime, call_id=call_id
        )
        await self._artifacts.record(recorder, kept)
        whole_lines = proof.rfind("\n", MOST_SHOWN // 2, MOST_SHOWN)
        return proof[: whole_lines if whole_lines > 0 else MOST_SHOWN], kept.artifact_id


def _cards(preview: Preview, args: JsonObject, known: Sequence[str]) -> tuple[Card, Card]:
    return real_card(preview, args), stored_card(preview, args, known)


def _strongest(*ways: AuthStrength) -> AuthStrength:
    return max(ways, key=lambda way: way.strength)


def _void(earlier: Earlier | None, binds: str) -> tuple[EventBody, ...]:
    """What becomes of the question before: nobody may answer it any more, and a yes to it is void."""
    if earlier is None or not (earlier.is_open or earlier.grant is not None):
        return ()
    why = "time" if earlier.grant is not None and earlier.asked.binds == binds else "changed"
    return (ApprovalExpired(approval_id=earlier.asked.approval_id, why=why),)
