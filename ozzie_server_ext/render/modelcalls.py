"""What a person sees of a turn's calls of models: who answers, and what that takes; pure, as `turn`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from ozzie_server_ext.render.turnview import Delegated, TurnView


def started(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    call_id = str(payload.get("call_id", ""))
    if call_id in view.counted_calls:
        return view
    if payload.get("purpose", "answer") != "answer":
        return replace(view, open_calls=view.open_calls | {call_id})
    return replace(
        view,
        alias=str(payload.get("alias") or view.alias),
        provider=str(payload.get("provider") or view.provider),
        model=str(payload.get("model") or view.model),
        instead_of=str(payload.get("instead_of") or ""),
        open_calls=view.open_calls | {call_id},
    )


def completed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    call_id = str(payload.get("call_id", ""))
    if call_id in view.counted_calls:
        return view
    usage = payload.get("usage") or {}
    cost = payload.get("cost")
    return replace(
        view,
        input_tokens=view.input_tokens + int(usage.get("input_tokens") or 0),
        output_tokens=view.output_tokens + int(usage.get("output_tokens") or 0),
        cost=view.cost + (cost if isinstance(cost, int) else 0),
        cost_known=view.cost_known and isinstance(cost, int),
        open_calls=view.open_calls - {call_id},
        counted_calls=view.counted_calls | {call_id},
    )


def failed(view: TurnView, payload: Mapping[str, Any], ts: datetime | None) -> TurnView:
    call_id = str(payload.get("call_id", ""))
    view = replace(view, open_calls=view.open_calls - {call_id})
    may_be_billed = (
        payload.get("partial_blob") is not None or payload.get("latency_ms") is None or payload.get("settled_tokens")
    )
    if may_be_billed and payload.get("settled_cost") != 0:
        # What a provider began to answer it also bills, and says how much only at the end.
        return replace(view, cost_known=False)
    return replace(view, counted_calls=view.counted_calls | {call_id})


def with_delegated(view: TurnView, payload: Mapping[str, Any]) -> TurnView:
    """The view at the turn's end, with what it has delegated: instead of what the end before a retry said of that."""
    told = payload.get("delegated")
    if told is None:
        return view
    now, before = _delegated(told), view.delegated or Delegated()
    return replace(
        view,
        delegated=now,
        input_tokens=view.input_tokens - before.input_tokens + now.input_tokens,
        output_tokens=view.output_tokens - before.output_tokens + now.output_tokens,
        cost=view.cost - before.cost + now.cost,
        cost_known=view.cost_known and now.cost_known,
    )


def _delegated(told: Mapping[str, Any]) -> Delegated:
    return Delegated(
        models=tuple((str(each["alias"]), str(each["provider"]), str(each["model"])) for each in told["models"]),
        input_tokens=int(told["usage"]["input_tokens"]),
        output_tokens=int(told["usage"]["output_tokens"]),
        cost=int(told["cost"]),
        cost_known=bool(told["cost_known"]),
    )
