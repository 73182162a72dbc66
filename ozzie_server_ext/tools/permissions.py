"""Whether a call may run now: finds a valid yes to it, or makes the request for one.

The request comes from the tool's plan and the checked arguments; a yes is valid for exactly that plan. Whether one is
needed is decided in this order, once the running skill has the tool.

1. `policy.engine.explain`: the strictest rule that applies, or the default, and the floors that no general rule lowers.
2. `policy.engine.tightened`, by the broker's `ruling_on`: stricter for outside content and for what a skill asks first.
   The broker asks again if the plan reveals more.
3. `refusal`: nobody's yes would help, as where a rule denies or the rules can't be read, or nobody is there to give it.
4. `Permissions.find`: an earlier yes, or one for the session, of the strength that is needed.
5. `agent.turn`: a second model, where a check is enough, before a person.

`tasks.approvals` records a person's answer and refuses one that is too weak.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Protocol

import msgspec

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.domain.approvals import REQUEST_EXPIRES_S, YES_EXPIRES_S, AuthStrength, SessionGrant, weakest_way
from ozzie_server_ext.domain.clock import Clock, IdSource
from ozzie_server_ext.domain.content import CLEAN, Content
from ozzie_server_ext.domain.errors import OzzieError, PolicyError
from ozzie_server_ext.domain.events import ApprovalExpired, ApprovalRequested, EventBody
from ozzie_server_ext.domain.ids import ApprovalId, ArtifactId, CallId, EventId, SessionId
from ozzie_server_ext.domain.json import JsonObject
from ozzie_server_ext.domain.messages import Channel
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.approvals import binding, cover_of, covers
from ozzie_server_ext.policy.decision import Action, Caller, Decision, Verdict
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.policy.sources import origin_text
from ozzie_server_ext.policy.standing import offered
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.tools.base import InvalidArguments, Plan, Preview, Tool, ToolContext
from ozzie_server_ext.tools.cards import Card, fewer, preview_of, real_card, redacted, shortened, stored_card
from ozzie_server_ext.tools.offering import FIND_ID, OFFERED_AT_MOST
from ozzie_server_ext.tools.origins import names_to_find, origins_of, sentence
from ozzie_server_ext.tools.registry import ToolRegistry


def unknown_tool(name: str, registry: ToolRegistry) -> OzzieError:
    """Return the error for an unknown tool. Names made by outsiders are not listed: they may not have been offered."""
    names = [
        tool.meta.name
        for tool in registry.all()
        if not (tool.meta.told_by or tool.meta.for_messages or tool.meta.for_clients or tool.meta.tool_id == FIND_ID)
    ]
    there = "there are"
    if len(names) > OFFERED_AT_MOST:
        names, there = get_close_matches(name[:64], names, n=10, cutoff=0.0), "the nearest are"
    return InvalidArguments(f"There is no tool {name[:64]}; {there}: {', '.join(names)}.", code="tool.unknown")


def refusal(meta: ToolMeta, verdict: Verdict, caller: Caller, *, by_message: bool = True) -> PolicyError | None:
    """Return why the call can't run whatever anybody answers; None if it may, perhaps after a yes. `by_message`: a
    message of the user's makes it, and no model."""
    if meta.for_messages and not by_message:
        words = f"Not done: only a message of the user's calls {meta.name}."
        return PolicyError(words, code="policy.for_messages")
    if meta.for_clients and caller.channel != Channel.MCP:
        return PolicyError(f"Not done: only an MCP client calls {meta.name}.")
    if verdict.decision is Decision.DENY:
        return PolicyError(verdict.refusal)
    if verdict.decision is Decision.ASK and not caller.attended:
        return unattended(meta)
    return None


def unattended(meta: ToolMeta) -> PolicyError:
    return PolicyError(f"Not done: nobody was there to ask ({meta.name}).", code="policy.unattended")


MOST_SHOWN = 32_000
"""Characters of a proof within the request itself. A longer one is kept whole as an artifact."""
_UNCHECKED = "No second model was asked: the call contains something that looks like a secret."


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """An approval, with how and when it came, and the event that gave it."""

    way: AuthStrength
    at: datetime
    event_id: EventId | None = None


class EarlierRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An earlier approval request for a call. `grant`: the yes, if any; `is_open`: it can still be answered;
    `has_ended`: that call ended, and the present one is another."""

    asked: ApprovalRequested
    grant: Grant | None = None
    is_open: bool = True
    has_ended: bool = False


class Grants(Protocol):
    """The approvals for a session that are in force."""

    async def covering(
        self, session_id: SessionId, fits: Callable[[SessionGrant], bool], needs: AuthStrength
    ) -> ApprovalId | None:
        """Return the approval for the session that covers a call and came with strength `needs` or more, if any."""
        return None


class NoGrants(Grants):
    """For callers that ask every time."""


class Permission(msgspec.Struct, frozen=True, kw_only=True):
    """A `request`: somebody has to be asked first, and `void` are the events that end an earlier request. Without one,
    the call may run, by the approval `approval_id` if it needed any."""

    approval_id: ApprovalId | None = None
    request: ApprovalRequested | None = None
    void: tuple[EventBody, ...] = ()


class Permissions:
    """Looks for an approval of a call, and makes the request if there is none."""

    def __init__(
        self,
        artifacts: ArtifactStore,
        clock: Clock,
        ids: IdSource,
        grants: Grants | None = None,
        expires_s: Callable[[], float] = lambda: REQUEST_EXPIRES_S,
        known_secrets: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """`expires_s` returns how long a question stays open. `known_secrets`: see `OutcomeWriter`."""
        self._artifacts = artifacts
        self._clock = clock
        self._ids = ids
        self._grants = grants or NoGrants()
        self._expires_s = expires_s
        self._known_secrets = known_secrets

    async def find(
        self,
        tool: Tool,
        plan: Plan,
        ruling: Ruling,
        call_id: CallId,
        context: ToolContext,
        recorder: Recorder,
        earlier: EarlierRequest | None,
        quoted: Content = CLEAN,
    ) -> Permission:
        """Return the approval of the planned call, or the request for one. `quoted` are labels of content that only the
        request may quote. Raises as `ArtifactStore.record`, and OzzieError if the tool can't say what it would do."""
        meta, content = plan.of(tool.meta), context.reading.content
        binds = binding(meta, plan.args, plan.effect, ruling, context.caller, content)
        # A second model must not see what strangers wrote: it might obey it.
        is_checked = ruling.verdict.decision is Decision.CHECK and not quoted
        person = _strongest(weakest_way(meta, labelled=bool(content)), ruling.verdict.needs)
        needs = AuthStrength.MODEL if is_checked else person
        if earlier is not None and self._is_good(earlier, binds, needs):
            return Permission(approval_id=earlier.asked.approval_id)
        action = Action.of(meta, plan.args, context.caller, context.reading)
        covering = await self._covering(action, ruling.verdict.rule, recorder, needs)
        if covering is not None:
            return Permission(approval_id=covering)
        preview = await preview_of(tool, plan, context)
        real, stored = await asyncio.to_thread(_cards, meta, preview, plan.args, self._known_secrets())
        is_redacted = stored != real
        if is_redacted:  # only who sees the real card may answer, and a second model does not
            needs = _strongest(person, AuthStrength.CLI)
        if needs is not AuthStrength.MODEL and not context.caller.attended:
            raise unattended(meta)
        proof, whole = await self._proof(stored, meta.name, call_id, recorder.made_from(content | quoted))
        cover = cover_of(action, ruling.verdict.rule)
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
            rule=ruling.verdict.rule,
            place=ruling.verdict.place,
            side_effect=meta.side_effect,
            risk_level=meta.risk_level,
            undo=stored.undo,
            arguments=shortened(stored),
            binds=binds,
            needs=needs,
            cover=cover,
            standing="" if is_redacted else offered(cover, ruling.verdict),
            checked=_UNCHECKED if is_checked and is_redacted else "",
            made_from=origin_text(content),
            known_from="" if is_redacted else await _known_from(action, ruling, context),
            key=context.key,
            card=real.digest if is_redacted else "",
            brought=quoted.sources,
            targets=fewer(stored.targets),
            expires_at=time_text(self._clock.now() + timedelta(seconds=self._expires_s())),
        )
        return Permission(request=requested, void=_void(earlier, binds))

    async def _covering(self, action: Action, rule: str, recorder: Recorder, needs: AuthStrength) -> ApprovalId | None:
        """Return the yes for the session that covers a call. A kernel's covers none with something like a secret."""
        args = dict(action.args)
        hides = await asyncio.to_thread(redacted, args, self._known_secrets()) != args
        return await self._grants.covering(
            recorder.session_id,
            lambda cover: covers(cover, action, rule),
            _strongest(needs, AuthStrength.CLI) if hides else needs,
        )

    def _is_good(self, earlier: EarlierRequest, binds: str, needs: AuthStrength) -> bool:
        """Whether a recent yes to exactly this exists, of sufficient strength."""
        grant = earlier.grant
        if grant is None or earlier.asked.binds != binds or grant.way.strength < needs.strength:
            return False
        return self._clock.now() - grant.at <= timedelta(seconds=YES_EXPIRES_S)

    async def _proof(self, card: Card, name: str, call_id: CallId, recorder: Recorder) -> tuple[str, ArtifactId | None]:
        """Return what is shown at once, and the artifact with the whole proof if that is longer."""
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


async def _known_from(action: Action, ruling: Ruling, context: ToolContext) -> str:
    """Return a sentence about where stands what a call names; "" if that is not known."""
    if context.passages is None:
        return ""
    names = names_to_find(action.named)
    passages = context.passages() if names else []
    words = context.reading.words.named
    return sentence(await asyncio.to_thread(origins_of, names, words, ruling.contacts, passages))


def _cards(meta: ToolMeta, preview: Preview, args: JsonObject, known: Sequence[str]) -> tuple[Card, Card]:
    return real_card(meta, preview, args), stored_card(meta, preview, args, known)


def _strongest(*ways: AuthStrength) -> AuthStrength:
    return max(ways, key=lambda way: way.strength)


def _void(earlier: EarlierRequest | None, binds: str) -> tuple[EventBody, ...]:
    """Close the previous question: it can't be answered any more, and a yes to it is void."""
    if earlier is None or not (earlier.is_open or earlier.grant is not None):
        return ()
    why = "time" if earlier.grant is not None and earlier.asked.binds == binds else "changed"
    return (ApprovalExpired(approval_id=earlier.asked.approval_id, why=why),)
