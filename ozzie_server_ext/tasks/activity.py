"""What tasks do, as lines of the application's log: turns, calls, approvals and failures, never their texts."""

import logging
from collections import OrderedDict
from itertools import groupby
from operator import itemgetter

from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    BudgetExceeded,
    Event,
    Fact,
    ModelCallCompleted,
    ModelCallFailed,
    PromptAnswered,
    PromptRequested,
    SkillStarted,
    StepFailed,
    TaskCancelled,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskResumed,
    TaskRetried,
    TaskStalled,
    TaskStarted,
    TaskSucceeded,
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallUncertain,
    WorkerLost,
)
from ozzie_server_ext.domain.ids import CallId, task_stream
from ozzie_server_ext.observability.logs import Line, log_lines, logger
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.rows import open_tasks, task_of

log = logger(__name__)

AGENT = "ozzie"
"""The agent of a turn. That of a skill has the skill's name."""
MOST_KNOWN = 10_000
"""The size of the caches of names."""

Told = tuple[str, str, bool]
"""The id of the action, a sentence, and whether something went wrong."""


class Activity:
    """Follows a log and writes a line for each fact that an operator looks for."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._agents: OrderedDict[str, str] = OrderedDict()
        self._tools: OrderedDict[str, str] = OrderedDict()
        self._silent: set[type[Fact]] = set()
        """The classes of facts that are neither noted nor written, found as they come: runs record thousands of facts a
        second."""
        event_log.on_commit(self._follow)

    async def load(self) -> None:
        """Take up the names of what an earlier gateway left open. Call it before any task is recovered."""
        for row in await open_tasks(self._log):
            for event in await self._log.read_stream(task_stream(task_of(row))):
                self._note(event)

    def _follow(self, events: tuple[Event, ...]) -> None:
        lines: list[tuple[int, Line]] = []
        for event in events:
            if type(event.body) in self._silent:
                continue
            is_noted, found = self._note(event), self._line(event.body)
            if found is None:
                if not is_noted:
                    self._silent.add(type(event.body))
                continue
            action_id, sentence, is_failure = found
            ids = {
                "agent_id": self._agents.get(event.task_id) if event.task_id else None,
                "session_id": event.session_id,
                "task_id": event.task_id,
                "action_id": action_id or event.event_id,
                "trace_id": event.trace_id,
            }
            lines.append((logging.WARNING if is_failure else logging.INFO, Line(sentence, ids)))
        for level, of_level in groupby(lines, key=itemgetter(0)):
            log_lines(log, level, [line for _, line in of_level])

    def _note(self, event: Event) -> bool:
        """Keep the names that later lines need; return whether the fact is of a class that has one."""
        match event.body:
            case TaskCreated(brief=brief):
                _keep(self._agents, str(event.task_id), (brief and brief.skill) or AGENT)
            case SkillStarted(skill=skill):
                _keep(self._agents, str(event.task_id), skill)
            case ToolCallRequested(call_id=call_id, name=name):
                _keep(self._tools, call_id, name)
            case _:
                return False
        return True

    def _line(self, body: object) -> Told | None:
        if isinstance(body, ToolCallRequested):  # thousands come in a second; the line follows with the end
            return None
        return self._call_line(body) or _task_line(body) or _question_line(body)

    def _call_line(self, body: object) -> Told | None:
        match body:
            case ModelCallCompleted(call_id=call_id, alias=alias, provider=provider, model=model, usage=usage) as done:
                tokens = usage.input_tokens + usage.output_tokens
                sentence = f"model {alias} ({provider}/{model}) answered: {tokens} tokens, {done.latency_ms:.0f} ms"
                return call_id, sentence, False
            case ModelCallFailed(call_id=call_id, code=code, latency_ms=latency_ms):
                after = "" if latency_ms is None else f", {latency_ms:.0f} ms"  # unknown if it was cut off
                return call_id, f"model call failed: {code}{after}", True
            case ToolCallCompleted(call_id=call_id, ok=ok, duration_ms=duration_ms):
                ended = "completed" if ok else "completed with an error"
                return call_id, f"tool {self._tool(call_id)} {ended}: {duration_ms:.0f} ms", not ok
            case ToolCallFailed(call_id=call_id, code=code):
                return call_id, f"tool {self._tool(call_id)} failed: {code}", True
            case ToolCallCancelled(call_id=call_id):
                return call_id, f"tool {self._tool(call_id)} cancelled", False
            case ToolCallUncertain(call_id=call_id):
                return call_id, f"tool {self._tool(call_id)}: unknown whether it took effect", True
            case _:
                return None

    def _tool(self, call_id: CallId) -> str:
        return self._tools.get(call_id, "of an earlier process")


def _task_line(body: object) -> Told | None:
    match body:
        case TaskCreated(mode=mode, channel=channel, parent=parent):
            kind = "run" if mode == "GRAPH" else "turn"
            return "", f"{kind} created" + (f" by task {parent}" if parent else f" from {channel}"), False
        case TaskStarted(attempt=attempt):
            return "", f"started, attempt {attempt}", False
        case TaskPaused(by=by):
            return "", f"paused by {by}", False
        case TaskResumed(by=by):
            return "", f"goes on, by {by}", False
        case TaskRetried(attempt=attempt):
            return "", f"retried as attempt {attempt}", False
        case TaskSucceeded(rounds=rounds):
            return "", f"succeeded after {rounds} rounds", False
        case TaskFailed(kind=kind, code=code):
            return "", f"failed: {code} ({kind})", True
        case TaskCancelled(by=by):
            return "", f"cancelled by {by}", False
        case TaskStalled(action=action, quiet_s=quiet_s):
            return "", f"no progress for {quiet_s:.0f} s: {action}", True
        case StepFailed(step_id=step_id, code=code):
            return "", f"step {step_id} failed: {code}", True
        case BudgetExceeded(scope=scope, measure=measure, action=action):
            return "", f"budget of the {scope} ({measure}) has no room: {action}", True
        case WorkerLost(plane=plane, pid=pid):
            return "", f"process {pid} of the {plane} plane ended", True
        case _:
            return None


def _question_line(body: object) -> Told | None:
    match body:
        case ApprovalRequested(approval_id=approval_id, name=name, rule=rule):
            return approval_id, f"approval asked for {name} by rule {rule}", False
        case ApprovalGranted(approval_id=approval_id, by=by, way=way, extent=extent):
            return approval_id, f"approved by {by} ({way}), {extent}", False
        case ApprovalRejected(approval_id=approval_id, by=by):
            return approval_id, f"rejected by {by}", False
        case ApprovalExpired(approval_id=approval_id, why=why):
            return approval_id, f"approval void: {why}", False
        case PromptRequested(prompt_id=prompt_id, kind=kind):
            return prompt_id, f"question asked: {kind}", False
        case PromptAnswered(prompt_id=prompt_id, by=by):
            return prompt_id, f"question answered by {by}", False
        case _:
            return None


def _keep(cache: OrderedDict[str, str], key: str, value: str) -> None:
    cache[key] = value
    while len(cache) > MOST_KNOWN:
        cache.popitem(last=False)
