"""`approvals`: list, show, approve, reject, renew, revoke."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import PurePath
from typing import cast

import msgspec

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


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`status` may be repeated; without it, approvals of any status."""

    status: tuple[Status, ...] = ()
    session_id: SessionId | None = None
    task_id: TaskId | None = None
    limit: Limit = 50
    cursor: TaskCursor | None = None


async def list_approvals(call: Call, request: ApprovalsQuery) -> Page[approval_shapes.Approval]:
    """List approvals, newest first."""
    found = await call.ozzie.approvals.list(
        limit=request.limit + 1,
        after=None if request.cursor is None else ids.ApprovalId(request.cursor),
        session_id=None if request.session_id is None else ids.SessionId(request.session_id),
        task_id=None if request.task_id is None else ids.TaskId(request.task_id),
        statuses=request.status,
    )
    notebooks, steps = await _notebooks(call, found), await _steps(call, found)
    return shapes.page(found, request.limit, lambda one: _shown(one, notebooks, steps), lambda one: one.approval_id)


class ApprovalQuery(msgspec.Struct, frozen=True, kw_only=True):
    approval_id: ApprovalId


async def get_approval(call: Call, request: ApprovalQuery) -> approval_shapes.Approval:
    """Show one approval."""
    found = await call.ozzie.approvals.get(request.approval_id)
    return _shown(found, await _notebooks(call, [found]), await _steps(call, [found]))


async def get_approval_card(call: Call, request: ApprovalQuery) -> approval_shapes.Card:
    """Show the whole card of a pending approval, drawn from the recorded call."""
    approval = await call.ozzie.approvals.get(request.approval_id)
    card = await (await call.project(approval.session_id)).cards.of(request.approval_id)
    return approval_shapes.Card(
        sentence=card.sentence,
        proof=card.proof,
        shown=card.shown,
        undo=card.undo,
        arguments=card.arguments,
        targets=card.targets,
    )


class ApprovalGrant(msgspec.Struct, frozen=True, kw_only=True):
    """`extent`: this call only, or also those that `session_cover` or `standing` describes."""

    approval_id: ApprovalId
    extent: ApprovalScope = "once"
    binds: Binds = ""


async def grant_approval(call: Call, request: ApprovalGrant) -> Done:
    """Approve a call. The first answer counts."""
    await call.ozzie.approvals.approve(
        request.approval_id, answerer_of(call.principal), extent=request.extent, binds=request.binds
    )
    return Done()


class ApprovalReject(msgspec.Struct, frozen=True, kw_only=True):
    approval_id: ApprovalId
    comment: Comment = ""


async def reject_approval(call: Call, request: ApprovalReject) -> Done:
    """Reject a call. The first answer counts."""
    await call.ozzie.approvals.reject(request.approval_id, answerer_of(call.principal), comment=request.comment)
    return Done()


class ApprovalNamed(msgspec.Struct, frozen=True, kw_only=True):
    approval_id: ApprovalId


async def renew_approval(call: Call, request: ApprovalNamed) -> Done:
    """Ask again for an approval that expired or whose card is out of date: the task plans the call again."""
    await call.ozzie.approvals.renew(request.approval_id, answerer_of(call.principal))
    return Done()


async def revoke_approval(call: Call, request: ApprovalNamed) -> Done:
    """Revoke a yes for the session."""
    await call.ozzie.approvals.revoke(request.approval_id, answerer_of(call.principal))
    return Done()


async def _notebooks(call: Call, found: Sequence[Approval]) -> Mapping[str, str]:
    """Return the paths of these sessions' notebooks, as the caller's pages name them."""
    sessions: list[Json] = [*{approval.session_id for approval in found}]
    rows = await call.ozzie.log.rows("sessions", where={"session_id": sessions}) if sessions else []
    root = call.principal.root or call.ozzie.projects.own.root
    return {str(row["session_id"]): _below(root, str(row["key"])) for row in rows}


def _below(root: PurePath, key: str) -> str:
    path = PurePath(key.removeprefix(_NOTEBOOK))
    is_there = key.startswith(_NOTEBOOK) and path.is_relative_to(root)
    return path.relative_to(root).as_posix() if is_there else ""


async def _steps(call: Call, found: Sequence[Approval]) -> Mapping[str, tuple[str, str]]:
    """Return the run of each task that carries out a step, and the step's name."""
    tasks: list[Json] = [*{approval.task_id for approval in found}]
    rows = await call.ozzie.log.rows("tasks", where={"task_id": tasks}) if tasks else []
    delegated = [row for row in rows if row["parent_id"] is not None]
    chains = await above(call.ozzie.log, delegated)
    return {str(row["task_id"]): (run_of(row, chains), str(row["title"])) for row in delegated}


def _shown(
    approval: Approval, notebooks: Mapping[str, str], steps: Mapping[str, tuple[str, str]]
) -> approval_shapes.Approval:
    request = approval.asked
    run_id, step = steps.get(approval.task_id, ("", ""))
    return approval_shapes.Approval(
        approval_id=approval.approval_id,
        call_id=request.call_id,
        session_id=approval.session_id,
        task_id=approval.task_id,
        status=approval.status,
        why=cast(approval_shapes.Why, approval.why),
        sentence=request.sentence,
        reason=request.reason,
        rule=request.rule,
        place=request.place,
        proof=request.proof,
        shown=request.shown,
        whole=request.whole,
        tool_id=request.tool_id,
        name=request.name,
        side_effect=request.side_effect,
        risk_level=request.risk_level,
        undo=request.undo,
        needs=request.needs,
        binds=request.binds,
        key=request.key,
        session_cover=None if request.cover is None else request.cover.said,
        requested_at=time_text(approval.requested_at),
        expires_at=time_text(approval.expires_at),
        answered_at=_time(approval.answered_at),
        extent=cast(approval_shapes.GivenExtent, approval.extent),
        by=approval.by,
        way=cast(approval_shapes.GivenWay, approval.way),
        comment=approval.comment,
        in_force_until=_time(approval.in_force_until()),
        notebook=notebooks.get(approval.session_id, ""),
        checked=request.checked,
        arguments=request.arguments,
        made_from=request.made_from,
        run_id=run_id,
        step=step,
        card=request.card,
        targets=request.targets,
        known_from=request.known_from,
        standing=request.standing,
    )


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else time_text(moment)
