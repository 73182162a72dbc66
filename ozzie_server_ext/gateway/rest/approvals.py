"""`approvals`: list, look at one, say yes or no."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import cast

from ozzie_server_ext.domain import ids
from ozzie_server_ext.domain.approvals import ApprovalScope
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.gateway.access import answerer_of
from ozzie_server_ext.gateway.operation import Call
from ozzie_server_ext.gateway.rest import approval_shapes, shapes
from ozzie_server_ext.gateway.rest.approval_shapes import ApprovalId, Binds, Comment
from ozzie_server_ext.gateway.rest.shapes import Done, Limit, Page, SessionId, TaskCursor, TaskId
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tasks.approvals import Approval, Status
from ozzie_server_ext.tasks.rows import above, run_of

_NOTEBOOK = "notebook:"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalsQuery:
    """Of several states where `status` stands several times, of any without it."""

    status: tuple[Status, ...] = ()
    session_id: SessionId | None = None
    task_id: TaskId | None = None
    limit: Limit = 50
    cursor: TaskCursor | None = None


async def list_approvals(call: Call, asked: ApprovalsQuery) -> Page[approval_shapes.Approval]:
    """The approvals, the newest first."""
    found = await call.ozzie.approvals.list(
        limit=asked.limit + 1,
        after=None if asked.cursor is None else ids.ApprovalId(asked.cursor),
        session_id=None if asked.session_id is None else ids.SessionId(asked.session_id),
        task_id=None if asked.task_id is None else ids.TaskId(asked.task_id),
        statuses=asked.status,
    )
    notebooks, steps = await _notebooks(call, found), await _steps(call, found)
    return shapes.page(found, asked.limit, lambda one: _shown(one, notebooks, steps), lambda one: one.approval_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuery:
    approval_id: ApprovalId


async def get_approval(call: Call, asked: ApprovalQuery) -> approval_shapes.Approval:
    """One approval, as it stands."""
    found = await call.ozzie.approvals.get(asked.approval_id)
    return _shown(found, await _notebooks(call, [found]), await _steps(call, [found]))


async def get_approval_card(call: Call, asked: ApprovalQuery) -> approval_shapes.Card:
    """The whole card of an approval that waits, drawn from the recorded call."""
    card = await call.ozzie.cards.of(asked.approval_id)
    return approval_shapes.Card(
        sentence=card.sentence, proof=card.proof, shown=card.shown, undo=card.undo, arguments=card.arguments
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalGrant:
    """`extent`: what the yes is good for, this call or also those that `session_cover` tells of."""

    approval_id: ApprovalId
    extent: ApprovalScope = "once"
    binds: Binds = ""


async def grant_approval(call: Call, asked: ApprovalGrant) -> Done:
    """Say yes to a call. The first answer counts."""
    await call.ozzie.approvals.approve(
        asked.approval_id, answerer_of(call.principal), extent=asked.extent, binds=asked.binds
    )
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalReject:
    approval_id: ApprovalId
    comment: Comment = ""


async def reject_approval(call: Call, asked: ApprovalReject) -> Done:
    """Say no to a call. The first answer counts."""
    await call.ozzie.approvals.reject(asked.approval_id, answerer_of(call.principal), comment=asked.comment)
    return Done()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNamed:
    approval_id: ApprovalId


async def renew_approval(call: Call, asked: ApprovalNamed) -> Done:
    """Ask again for an approval that expired, or whose card is out of date: the task looks again at what the call
    would do."""
    await call.ozzie.approvals.renew(asked.approval_id, answerer_of(call.principal))
    return Done()


async def revoke_approval(call: Call, asked: ApprovalNamed) -> Done:
    """Take back a yes for the session."""
    await call.ozzie.approvals.revoke(asked.approval_id, answerer_of(call.principal))
    return Done()


async def _notebooks(call: Call, found: Sequence[Approval]) -> Mapping[str, str]:
    """The paths of these sessions' notebooks by session, as the caller's pages name them."""
    sessions: list[Json] = [*{approval.session_id for approval in found}]
    rows = await call.ozzie.log.rows("sessions", where={"session_id": sessions}) if sessions else []
    root = call.principal.root or call.ozzie.project
    return {str(row["session_id"]): _below(root, str(row["key"])) for row in rows}


def _below(root: PurePath, key: str) -> str:
    path = PurePath(key.removeprefix(_NOTEBOOK))
    is_there = key.startswith(_NOTEBOOK) and path.is_relative_to(root)
    return path.relative_to(root).as_posix() if is_there else ""


async def _steps(call: Call, found: Sequence[Approval]) -> Mapping[str, tuple[str, str]]:
    """The runs of those of these tasks that carry out a step of one, and what names the step, by task."""
    tasks: list[Json] = [*{approval.task_id for approval in found}]
    rows = await call.ozzie.log.rows("tasks", where={"task_id": tasks}) if tasks else []
    delegated = [row for row in rows if row["parent_id"] is not None]
    chains = await above(call.ozzie.log, delegated)
    return {str(row["task_id"]): (run_of(row, chains), str(row["title"])) for row in delegated}


def _shown(
    approval: Approval, notebooks: Mapping[str, str], steps: Mapping[str, tuple[str, str]]
) -> approval_shapes.Approval:
    asked = approval.asked
    run_id, step = steps.get(approval.task_id, ("", ""))
    return approval_shapes.Approval(
        approval_id=approval.approval_id,
        call_id=asked.call_id,
        session_id=approval.session_id,
        task_id=approval.task_id,
        status=approval.status,
        why=cast(approval_shapes.Why, approval.why),
        sentence=asked.sentence,
        reason=asked.reason,
        rule=asked.rule,
        place=asked.place,
        proof=asked.proof,
        shown=asked.shown,
        whole=asked.whole,
        tool_id=asked.tool_id,
        name=asked.name,
        side_effect=asked.side_effect,
        risk_level=asked.risk_level,
        undo=asked.undo,
        needs=asked.needs,
        binds=asked.binds,
        key=asked.key,
        session_cover=None if asked.cover is None else asked.cover.said,
        requested_at=time_text(approval.requested_at),
        expires_at=time_text(approval.expires_at),
        answered_at=_time(approval.answered_at),
        extent=cast(approval_shapes.GivenExtent, approval.extent),
        by=approval.by,
        way=cast(approval_shapes.GivenWay, approval.way),
        comment=approval.comment,
        in_force_until=_time(approval.in_force_until()),
        notebook=notebooks.get(approval.session_id, ""),
        checked=asked.checked,
        arguments=asked.arguments,
        made_from=asked.made_from,
        run_id=run_id,
        step=step,
        card=asked.card,
    )


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)
