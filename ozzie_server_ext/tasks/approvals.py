"""Approvals and the answers to them, from a page, the command line or a cell; the first one counts.

Every answer of a person or a program is checked here, whatever a client claims; refused ones are recorded, too, up to a
limit. The yes of a second model is recorded by `agent.turn`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, cast

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.approvals import SESSION_YES_EXPIRES_S, ApprovalScope, AuthStrength, SessionGrant
from ozzie_server_ext.domain.calls import fold_calls
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import (
    Conflict,
    InputError,
    NotFound,
    PolicyError,
    Unavailable,
    VersionConflict,
)
from ozzie_server_ext.domain.events import (
    HUB,
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRejected,
    ApprovalRequested,
    Draft,
    EventBody,
    TaskResumed,
    ToolCallFailed,
)
from ozzie_server_ext.domain.ids import APPROVALS_STREAM, ApprovalId, SessionId, TaskId, is_ulid, task_stream
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.tasks import TaskStatus
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.policy import standing
from ozzie_server_ext.protocol.codec import decode
from ozzie_server_ext.protocol.jsontext import loads
from ozzie_server_ext.render.questions import EXTENTS, OPEN_IN_PAGE
from ozzie_server_ext.render.text import visible_label
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.shielded import expect_not_cancelled, shielded
from ozzie_server_ext.store.tables import Row
from ozzie_server_ext.tasks.rows import find_task, user_recorder
from ozzie_server_ext.tools.base import ToolContext
from ozzie_server_ext.tools.cards import Card, changed, draw
from ozzie_server_ext.tools.registry import ToolRegistry

log = logger(__name__)

MAX_COMMENT = 2000
MOST_NOTED = 1000
"""The number of refused answers that are recorded per session and way while a gateway runs."""
_TRIES = 50
"""How often an answer is tried while other events are recorded for its task."""

Status: TypeAlias = Literal["pending", "granted", "rejected", "expired"]
_Act: TypeAlias = Literal["approve", "reject", "renew", "revoke"]
_Why: TypeAlias = Literal["unknown", "session", "way", "answered", "expired", "extent", "changed"]


class Answerer(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers and how. `session_id` is the only session that they may answer for; None means any."""

    name: str
    way: AuthStrength
    session_id: SessionId | None = None


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of an approval. `status` and `why` are as in the table; `by`, `way`, `extent` and `comment` are
    the answer's."""

    asked: ApprovalRequested
    session_id: SessionId
    task_id: TaskId
    status: Status
    why: str
    requested_at: datetime
    expires_at: datetime
    answered_at: datetime | None
    extent: str
    by: str
    way: str
    comment: str

    @property
    def approval_id(self) -> ApprovalId:
        return self.asked.approval_id

    def in_force_until(self) -> datetime | None:
        """Return when a yes for the session expires; None if it is no such yes, or void."""
        if self.status != "granted" or self.extent != "session" or self.why or self.answered_at is None:
            return None
        return self.answered_at + timedelta(seconds=SESSION_YES_EXPIRES_S)


class Approvals:
    """All approvals of a log. The driver of tasks hears of `task.resumed`, which the last answer records."""

    def __init__(self, log_: EventLog, clock: Clock, home: Home | None = None) -> None:
        """`home`: where the rules are kept that are made on cards; without one, none is made."""
        self._log = log_
        self._clock = clock
        self._home = home
        self._making_rules = asyncio.Lock()
        self._noted: Counter[tuple[SessionId | None, AuthStrength]] = Counter()

    async def list(
        self,
        *,
        limit: int = 50,
        after: ApprovalId | None = None,
        session_id: SessionId | None = None,
        task_id: TaskId | None = None,
        statuses: Sequence[Status] = (),
    ) -> list[Approval]:
        """Return the newest first. `after` is the last approval of the page before; empty `statuses` mean all."""
        wanted: dict[str, Json] = {"session_id": session_id, "task_id": task_id, "status": list(statuses)}
        where = {name: value for name, value in wanted.items() if value}
        rows = await self._log.rows("approvals", where=where, descending=True, after=after, limit=limit)
        return [_approval(row) for row in rows]

    async def get(self, approval_id: str) -> Approval:
        """Raises NotFound."""
        named = is_ulid(approval_id)
        rows = await self._log.rows("approvals", where={"approval_id": approval_id}, limit=1) if named else []
        if not rows:
            raise NotFound(f"There is no approval {_cut(approval_id)}.", hint="List them with ozzie approvals list.")
        return _approval(rows[0])

    async def approve(self, approval_id: str, by: Answerer, *, extent: ApprovalScope = "once", binds: str = "") -> None:
        """Approve a call. `binds` is that of the request that was shown; if it has changed, the answer is refused.

        Raises NotFound; PolicyError if the way is too weak, or such a yes is not offered; Conflict if it is too late;
        Unavailable if the rule of a standing yes can't be written: then nothing is approved.
        """

        def answer(found: Approval) -> list[EventBody]:
            return [ApprovalGranted(approval_id=found.approval_id, extent=extent, by=by.name, way=by.way)]

        await self._answer(approval_id, by, "approve", answer, extent=extent, binds=binds)

    async def _record_with_rule(self, found: Approval, by: Answerer, facts: Sequence[EventBody], version: int) -> None:
        """Make the rule of a standing yes and record the answer; take the rule away again if that is not recorded, as
        when somebody else's was first. One at a time: nobody takes away a rule that another answer found there. Raises
        Unavailable, and VersionConflict as `_record`."""
        assert self._home is not None
        async with self._making_rules:
            rule_id, is_new = await self._make_rule(self._home, found.asked, by)
            try:
                await self._record(found, facts, version)
            except BaseException:
                if is_new:
                    with suppress(InputError, OSError):  # what is raised matters more
                        await asyncio.to_thread(standing.revoke, self._home, rule_id)
                raise

    async def _make_rule(self, home: Home, asked: ApprovalRequested, by: Answerer) -> tuple[str, bool]:
        try:
            return await asyncio.to_thread(standing.add, home, asked, by.name, self._clock.now())
        except InputError as error:
            raise _not_kept(str(error), error.hint) from None
        except OSError as error:
            why = f"{home.standing_file}: {error.strerror}."
            raise _not_kept(why, hint_for(home.standing_file, error=error)) from None

    async def reject(self, approval_id: str, by: Answerer, *, comment: str = "") -> None:
        """Reject a call; the model gets the comment. Raises like `approve`, and InputError for a too long comment."""
        if len(comment) > MAX_COMMENT:
            raise InputError(f"The comment is longer than {MAX_COMMENT:,} characters.", code="approval.comment")
        comment = comment.strip()

        def answer(found: Approval) -> list[EventBody]:
            failed = ToolCallFailed(
                call_id=found.asked.call_id,
                code="approval.rejected",
                message=f"Rejected by {visible_label(by.name)}" + (f': "{comment}"' if comment else "."),
                duration_ms=0.0,
            )
            rejected = ApprovalRejected(approval_id=found.approval_id, comment=comment, by=by.name, way=by.way)
            return [rejected, failed]

        await self._answer(approval_id, by, "reject", answer)

    async def renew(self, approval_id: str, by: Answerer) -> None:
        """Request an approval again, after the task has planned the call again. It must be expired, or pending, which
        only a person in a page or a terminal may end: they see that its card is out of date. Raises NotFound,
        PolicyError, Conflict."""
        for _ in range(_TRIES):
            found = await self._expect(approval_id, by, "renew")
            version = await self._log.version(task_stream(found.task_id))
            found = await self.get(approval_id)  # see `_answer`
            pending = await self.list(task_id=found.task_id, statuses=["pending"])
            if found.status == "pending" and by.way.strength >= AuthStrength.CLI.strength:
                facts: list[EventBody] = [ApprovalExpired(approval_id=found.approval_id, why="changed")]
                facts += [TaskResumed(by=by.name)] if len(pending) == 1 and await self._waits(found.task_id) else []
                if await self._append(found, facts, version):
                    return
                continue
            if found.status != "expired" or found.why != "time":
                raise await self._refused(found, by, "renew", "answered", self._late(found, by.way))
            if pending or not await self._waits(found.task_id):
                words = "Not requested again: its task waits for another answer, or has gone on."
                raise await self._refused(found, by, "renew", "answered", Conflict(words, code="approval.expired"))
            if await self._append(found, [TaskResumed(by=by.name)], version):
                return
        raise _busy()

    async def revoke(self, approval_id: str, by: Answerer) -> None:
        """Revoke a yes for the session. Raises NotFound, PolicyError, Conflict if it is not in force."""
        for _ in range(_TRIES):
            found = await self._expect(approval_id, by, "revoke")
            version = await self._log.version(task_stream(found.task_id))
            until = (await self.get(approval_id)).in_force_until()
            if until is None or until <= self._clock.now():
                none = Conflict(
                    "This is no yes for the session that is in force.",
                    hint="Take back a rule that was made on a card with ozzie policy revoke.",
                    code="approval.revoke",
                )
                raise await self._refused(found, by, "revoke", "expired", none)
            if await self._append(found, [ApprovalExpired(approval_id=found.approval_id, why="revoked")], version):
                return
        raise _busy()

    async def covering(
        self, session_id: SessionId, fits: Callable[[SessionGrant], bool], needs: AuthStrength
    ) -> ApprovalId | None:
        """See `tools.permissions.Grants`."""
        rows = await self._log.rows(
            "approvals", where={"session_id": session_id, "status": "granted", "extent": "session"}, descending=True
        )
        now = self._clock.now()
        for found in map(_approval, rows):
            until, cover = found.in_force_until(), found.asked.cover
            if until is None or now >= until or AuthStrength(found.way).strength < needs.strength:
                continue
            if cover is not None and fits(cover):
                return found.approval_id
        return None

    async def expire(self) -> float | None:
        """Record which approvals have expired; return the seconds until the next one does, None if none is pending."""
        now = self._clock.now()
        left: list[float] = []
        for found in map(_approval, await self._log.rows("approvals", where={"status": "pending"})):
            if found.expires_at <= now:
                await self._expire(found)
            else:
                left.append((found.expires_at - now).total_seconds())
        return min(left, default=None)

    async def _answer(
        self,
        approval_id: str,
        by: Answerer,
        act: _Act,
        bodies: Callable[[Approval], Sequence[EventBody]],
        *,
        extent: ApprovalScope = "once",
        binds: str = "",
    ) -> None:
        for _ in range(_TRIES):
            found = await self._expect(approval_id, by, act, extent)
            version = await self._log.version(task_stream(found.task_id))
            found = await self.get(approval_id)  # of that version or later; if later, the append below fails
            if found.status != "pending":
                why: _Why = "expired" if found.status == "expired" else "answered"
                raise await self._refused(found, by, act, why, self._late(found, by.way))
            if found.expires_at <= self._clock.now():
                await self._expire(found)
                continue
            if binds and binds != found.asked.binds:
                changed = Conflict("The request changed. Please look again.", code="approval.changed")
                raise await self._refused(found, by, act, "changed", changed)
            if not self._offers(found.asked, extent):
                words = f"Approving {EXTENTS[extent]} is not offered for this: approve it once, or reject it."
                raise await self._refused(found, by, act, "extent", PolicyError(words, code="policy.extent"))
            pending = await self.list(task_id=found.task_id, statuses=["pending"], limit=2)
            # The task goes on if this was its only pending approval.
            then = [TaskResumed(by=by.name)] if len(pending) == 1 and await self._waits(found.task_id) else []
            facts = [*bodies(found), *then]
            with suppress(VersionConflict):
                if extent == "standing":
                    await shielded(self._record_with_rule(found, by, facts, version))
                else:
                    await self._record(found, facts, version)
                return
            expect_not_cancelled()
        raise _busy()

    def _offers(self, asked: ApprovalRequested, extent: ApprovalScope) -> bool:
        match extent:
            case "once":
                return True
            case "session":
                return asked.cover is not None
            case "standing":
                return bool(asked.standing) and self._home is not None

    async def _append(self, found: Approval, facts: Sequence[EventBody], version: int) -> bool:
        """Append facts about an approval; return False if its task has changed since `version`."""
        with suppress(VersionConflict):
            await self._record(found, facts, version)
            return True
        return False

    async def _record(self, found: Approval, facts: Sequence[EventBody], version: int) -> None:
        """Append facts about an approval. Raises VersionConflict if its task has changed since `version`."""
        recorder = user_recorder(self._log, found.session_id, found.task_id)
        await recorder.append(*facts, expected_version=version)

    async def _expect(self, approval_id: str, by: Answerer, act: _Act, extent: ApprovalScope = "once") -> Approval:
        """Return the approval if `by` may answer it so. Raises NotFound, PolicyError."""
        try:
            found = await self.get(approval_id)
        except NotFound as error:
            await self._note(approval_id, by, act, "unknown")
            raise error from None
        if by.session_id not in (None, found.session_id):
            foreign = PolicyError("This approval is not of the kernel's own session.", code="policy.session")
            raise await self._refused(found, by, act, "session", foreign)
        if act == "approve" and by.way.strength < found.asked.needs.strength:
            raise await self._refused(found, by, act, "way", _too_weak(found.asked, by.way))
        if extent == "standing" and by.way.strength < AuthStrength.BROWSER.strength:
            words = "That such calls need not be asked any more can be said in the page alone."
            raise await self._refused(found, by, act, "way", PolicyError(words, code="policy.way"))
        return found

    async def _waits(self, task_id: TaskId) -> bool:
        row = await find_task(self._log, task_id)
        return row is not None and row["status"] == TaskStatus.WAITING_APPROVAL

    async def _expire(self, found: Approval) -> None:
        expired = ApprovalExpired(approval_id=found.approval_id, why="time")
        recorder = user_recorder(self._log, found.session_id, found.task_id)
        for _ in range(_TRIES):
            version = await self._log.version(task_stream(found.task_id))
            if (await self.get(found.approval_id)).status != "pending":
                return
            with suppress(VersionConflict):
                await recorder.append(expired, actor="system", expected_version=version)
                return
        raise _busy()

    async def _refused(self, found: Approval, by: Answerer, act: _Act, why: _Why, error: Exception) -> Exception:
        await self._note(found.approval_id, by, act, why, found)
        return error

    async def _note(self, approval_id: str, by: Answerer, act: _Act, why: _Why, found: Approval | None = None) -> None:
        """Record a refused answer, in another stream so that repeated wrong answers can't block the right one, and only
        so many per session and way, so that they can't fill the log."""
        source = (by.session_id, by.way)
        self._noted[source] += 1
        if self._noted[source] > MOST_NOTED:
            if self._noted[source] == MOST_NOTED + 1:
                log.warning(
                    "more than %s answers by %s did not count: no more of them are recorded", MOST_NOTED, by.way
                )
            return
        refused = ApprovalRefused(approval_id=_cut(approval_id), answer=act, by=by.name, way=by.way, why=why)
        session_id = found.session_id if found else by.session_id
        task_id = found.task_id if found else None
        draft = Draft(body=refused, actor="user", source=HUB, session_id=session_id, task_id=task_id)
        await self._log.append(APPROVALS_STREAM, [draft])

    def _late(self, found: Approval, way: AuthStrength) -> Conflict:
        at = f"{found.answered_at.astimezone():%H:%M}" if found.answered_at else ""
        match found.status:
            case "granted" | "rejected":
                did = "approved" if found.status == "granted" else "rejected"
                what = "click" if way is AuthStrength.BROWSER else "answer"
                words = f"Already answered: {visible_label(found.by)} {did} it at {at}. Your {what} did nothing."
                return Conflict(words, code="approval.late")
            case "expired" if found.why == "time":
                hint = "Request it again with ozzie approvals renew, or with Ask again."
                return Conflict(f"Expired at {at}. Nothing was done.", hint=hint, code="approval.expired")
            case "expired":
                return Conflict("It is not asked any more. Nothing was done.", code="approval.expired")
            case _:
                return Conflict("It still waits for an answer: nothing is to be renewed.", code="approval.waiting")


def _approval(row: Row) -> Approval:
    """Return the approval in a row of the table `approvals`."""
    text = {name: str(value) for name, value in row.items()}
    return Approval(
        asked=decode(ApprovalRequested, loads(text["request"])),
        session_id=SessionId(text["session_id"]),
        task_id=TaskId(text["task_id"]),
        status=cast(Status, text["status"]),
        why=text["why"],
        requested_at=datetime.fromisoformat(text["requested_at"]),
        expires_at=datetime.fromisoformat(text["expires_at"]),
        answered_at=None if row["answered_at"] is None else datetime.fromisoformat(text["answered_at"]),
        extent=text["extent"],
        by=text["by"],
        way=text["way"],
        comment=text["comment"],
    )


def _cut(approval_id: str) -> str:
    """Return a given id, which may be anything, for a message."""
    return visible_label(approval_id[:40])


def _too_weak(asked: ApprovalRequested, way: AuthStrength) -> PolicyError:
    needs = asked.needs
    if asked.card and way.strength < AuthStrength.CLI.strength:
        return PolicyError(OPEN_IN_PAGE, hint=f"Or run ozzie approvals show {asked.approval_id}.", code="policy.way")
    where = {AuthStrength.CLI: "in the page, or with ozzie approvals approve", AuthStrength.BROWSER: "in the page"}
    return PolicyError(
        "A yes to this may not come through a kernel: code that runs there could say it too."
        if needs is AuthStrength.CLI
        else "A yes to this has to come from a page under your own name.",
        hint=f"Answer it {where.get(needs, 'where you can prove who you are')}.",
        code="policy.way",
    )


def _not_kept(why: str, hint: str) -> Unavailable:
    words = f"Not approved: that it need not be asked again could not be written. {why}"
    return Unavailable(words, hint=hint or "You can still approve it once.", code="approval.standing")


def _busy() -> Conflict:
    return Conflict("The task is busy. Your answer did nothing; give it again.", code="conflict")


LOOK_S = 60.0
"""The longest time between checks while approvals are pending or the log fails. A timer stops while the machine sleeps,
but approvals expire."""


class Expiry:
    """Records expired approvals while a gateway runs."""

    def __init__(self, log_: EventLog, approvals: Approvals) -> None:
        self._approvals = approvals
        self._again = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        log_.on_commit(lambda events: self._again.set(), types={ApprovalRequested.type})

    def start(self) -> None:
        self._work = asyncio.create_task(self._run(), name="approvals expire")

    def stop(self) -> None:
        """Cancel without waiting, because turns would go on meanwhile."""
        if self._work is not None:
            self._work.cancel()

    async def _run(self) -> None:
        while True:
            self._again.clear()
            try:
                left = await self._approvals.expire()
            except Exception:
                log.exception("it can't be recorded that an approval expired")
                left = LOOK_S
            try:
                async with asyncio.timeout(None if left is None else min(left, LOOK_S)):
                    await self._again.wait()
            except TimeoutError:
                pass


class ApprovalCards(msgspec.Struct, frozen=True):
    """Draws the cards of approvals in one project. `context_of` returns the context of a task's calls."""

    log: EventLog
    approvals: Approvals
    registry: ToolRegistry
    context_of: Callable[[Row, Recorder], ToolContext]

    async def of(self, approval_id: str) -> Card:
        """Return everything that a person must read before answering. It is never recorded.

        Raises NotFound, and Conflict if the approval is not pending, or the call would now do something else.
        """
        approval = await self.approvals.get(approval_id)
        asked = approval.asked
        if approval.status != "pending":
            raise Conflict("It waits for no answer, so there is nothing to read.", code="approval.ended")
        tool = self.registry.find(asked.tool_id)
        row = await find_task(self.log, approval.task_id)
        events = await self.log.read_stream(task_stream(approval.task_id))
        call = fold_calls(event.body for event in events).get(asked.call_id)
        if tool is None or call is None or call.requested is None or row is None:
            raise changed("The call, or its tool, is gone.")
        recorder = Recorder(log=self.log, session_id=approval.session_id, task_id=approval.task_id)
        context = msgspec.structs.replace(self.context_of(row, recorder), key=asked.key)
        return await draw(tool, call.requested.args, asked, context)
