"""Random but legal histories of sessions and tasks, the same for the same seed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from ozzie_server_ext.domain.approvals import ApprovalScope, AuthStrength, SessionGrant
from ozzie_server_ext.domain.artifacts import storage_ref
from ozzie_server_ext.domain.budget import Usage
from ozzie_server_ext.domain.events import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRejected,
    ApprovalRequested,
    ArtifactCreated,
    ArtifactErased,
    ArtifactSuperseded,
    BudgetRaised,
    CheckpointSaved,
    Draft,
    EventBody,
    LabelsCleared,
    Limits,
    MessageCompleted,
    MessageReceived,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    Origin,
    SessionCreated,
    SessionRenamed,
    StepCompleted,
    StepFailed,
    StepSkipped,
    StepStarted,
    TaskCancelled,
    TaskCreated,
    TaskFact,
    TaskFailed,
    TaskPaused,
    TaskPauseRequested,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskStarted,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
    ToolCallCompleted,
    ToolCallRequested,
    WorkerLost,
    WorkerStarted,
)
from ozzie_server_ext.domain.ids import (
    ApprovalId,
    ArtifactId,
    BlobRef,
    CallId,
    MessageId,
    ReplyId,
    SessionId,
    TaskId,
    session_stream,
    task_stream,
    worker_stream,
)
from ozzie_server_ext.domain.tasks import TaskStatus, create, fold, may_become
from ozzie_server_ext.domain.toolmeta import RiskLevel, SideEffect

SESSION = SessionId("sess_01AAAAAAAAAAAAAAAAAAAAAAAA")
TASK = TaskId("01BBBBBBBBBBBBBBBBBBBBBBBB")

_WORDS = ("plot", "größe", "数据", "a\nb", "🙂", "<script>", "")


def draft(
    body: EventBody,
    *,
    session_id: SessionId | None = SESSION,
    task_id: TaskId | None = None,
    key: str | None = None,
    labels: tuple[str, ...] = (),
) -> Draft:
    """A draft where only the fact matters."""
    return Draft(
        body=body,
        actor="user",
        source="test",
        session_id=session_id,
        task_id=task_id,
        idempotency_key=key,
        labels=labels,
    )


def session_created(key: str = "notebook.ipynb") -> SessionCreated:
    return SessionCreated(key=key, title="Notebook", channel="jupyter")


def renamed(title: str) -> Draft:
    """The simplest fact that may follow anything."""
    return draft(SessionRenamed(title=title))


def received(text: str, *, message_id: str = "01MMMMMMMMMMMMMMMMMMMMMMMM") -> MessageReceived:
    return MessageReceived(message_id=MessageId(message_id), text=text, origin=Origin(channel="jupyter"))


def completed(reply_id: str, text: str) -> MessageCompleted:
    return MessageCompleted(reply_id=ReplyId(reply_id), text=text, finish="stop")


def task_created(title: str = "Plot it") -> TaskCreated:
    return TaskCreated(
        title=title, mode="FREE", message_id=MessageId("01MMMMMMMMMMMMMMMMMMMMMMMM"), limits=Limits(max_cost=5)
    )


def task_draft(body: EventBody, *, task_id: TaskId = TASK, key: str | None = None) -> Draft:
    return draft(body, task_id=task_id, key=key)


def call_started(
    call_id: str, *, model: str = "small", number: int = 1, reserved: tuple[int | None, int] = (None, 0)
) -> ModelCallStarted:
    return ModelCallStarted(
        call_id=CallId(call_id),
        reply_id=ReplyId("01RRRRRRRRRRRRRRRRRRRRRRRR"),
        round=number,
        alias="default",
        provider="local",
        model=model,
        request_blob=BlobRef("sha256:" + "0" * 64),
        config="c",
        prompt="p",
        tools="t",
        reserved_cost=reserved[0],
        reserved_tokens=reserved[1],
        project="/p",
        day=f"2026-01-0{number}",
    )


def call_completed(
    call_id: str, *, model: str = "small", tokens: int = 10, cost: int | None = 1000
) -> ModelCallCompleted:
    return ModelCallCompleted(
        call_id=CallId(call_id),
        alias="default",
        provider="local",
        model=model,
        response_blob=BlobRef("sha256:" + "1" * 64),
        finish="stop",
        tool_uses=(),
        usage=Usage(input_tokens=tokens, output_tokens=2 * tokens, cached_tokens=1),
        cost=cost,
        latency_ms=12.5,
        ttft_ms=None,
    )


def call_failed(call_id: str, *, partial: bool = False, settled: tuple[int | None, int] = (None, 0)) -> ModelCallFailed:
    blob = BlobRef("sha256:" + "2" * 64) if partial else None
    return ModelCallFailed(
        call_id=CallId(call_id),
        code="model.down",
        message="gone",
        latency_ms=3.0,
        partial_blob=blob,
        settled_cost=settled[0],
        settled_tokens=settled[1],
    )


def artifact_created(artifact_id: str, *, name: str = "plot.txt", version: int = 1, size: int = 3) -> ArtifactCreated:
    return ArtifactCreated(
        artifact_id=ArtifactId(artifact_id),
        kind="log",
        name=name,
        version=version,
        storage_ref=storage_ref(BlobRef("sha256:" + "3" * 64)),
        mime="text/plain",
        size=size,
        hash="3" * 64,
        meta={"tool_id": "fs.read"},
    )


def approval_requested(approval_id: str, call_id: str, *, sentence: str = "Write `a.md`?") -> ApprovalRequested:
    return ApprovalRequested(
        approval_id=ApprovalId(approval_id),
        call_id=CallId(call_id),
        tool_id="fs.write",
        name="write_file",
        sentence=sentence,
        proof="@@ -0,0 +1,1 @@\n+hi",
        shown="diff",
        whole=None,
        reason="It changes something of yours.",
        rule="default.changes",
        place="",
        side_effect=SideEffect.REVERSIBLE,
        risk_level=RiskLevel.MEDIUM,
        undo="Nothing is replaced.",
        binds="4" * 64,
        needs=AuthStrength.RELAY,
        cover=SessionGrant(
            tool_id="fs.write",
            version="1",
            project="/p",
            rule="default.changes",
            below=(("notes",),),
            labels=(),
            said="`write_file` in `notes/`",
        ),
        key="t-1-0",
        expires_at="2026-01-01T01:00:00.000000Z",
    )


@dataclass
class Histories:
    """Goes on for ever; each item is one append that the log has to take."""

    seed: int
    prefix: str = ""
    """Keeps the ids and keys of several histories in one log apart."""
    _artifacts: list[ArtifactCreated] = field(default_factory=list["ArtifactCreated"], init=False)
    _count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def take(self, appends: int) -> list[tuple[str, list[Draft]]]:
        source = iter(self)
        return [next(source) for _ in range(appends)]

    def __iter__(self) -> Iterator[tuple[str, list[Draft]]]:
        sessions = [SessionId(f"sess_{self._id('S')}") for _ in range(3)]
        for number, session_id in enumerate(sessions):
            body = SessionCreated(key=f"{self.prefix}k{number}", title=self._word(), channel="jupyter")
            yield session_stream(session_id), [draft(body, session_id=session_id)]
        for pid in (1, 2):
            body = WorkerStarted(plane=f"{self.prefix}model", pid=pid, started=f"{pid}00", boot="b")
            yield worker_stream("model"), [draft(body, session_id=None)]
        yield (
            worker_stream("model"),
            [draft(WorkerLost(plane=f"{self.prefix}model", pid=1, reason=""), session_id=None)],
        )
        running: list[Iterator[tuple[str, list[Draft]]]] = []
        while True:
            if len(running) < 4:
                running.append(self._task(self._random.choice(sessions)))
            source = self._random.choice(running)
            try:
                yield next(source)
            except StopIteration:
                running.remove(source)

    def _task(self, session_id: SessionId) -> Iterator[tuple[str, list[Draft]]]:
        task_id = TaskId(self._id("T"))
        stream = task_stream(task_id)

        def drafts(*bodies: EventBody) -> tuple[str, list[Draft]]:
            return stream, [
                draft(body, session_id=session_id, task_id=task_id, labels=self._labels()) for body in bodies
            ]

        begun = task_created(self._word())
        yield drafts(received(self._word(), message_id=self._id("M")), begun)
        task = create(task_id, session_id, begun)
        for _ in range(self._random.randint(3, 14)):
            legal = [fact for fact in self._transitions(bool(task.pause_by)) if may_become(task.status, type(fact))]
            fact = self._random.choice(legal) if legal else None
            if task.status is TaskStatus.RUNNING and self._random.random() < 0.6:
                yield drafts(*self._work())
            elif fact is None:
                return
            else:
                task = fold(task, fact)
                yield drafts(fact)

    def _work(self) -> list[EventBody]:
        call = self._id("C")
        kind = self._random.randrange(9)
        reserved = (self._random.choice([None, 0, 5_000_000]), self._random.randint(0, 9000))
        if kind == 0:
            requested = ToolCallRequested(
                call_id=CallId(call),
                use_id="u1",
                tool_id="calc.eval",
                name="calculator",
                version="1",
                args={"expression": self._word(), "deep": [1, 2.5, None, True]},
                round=1,
                index=0,
            )
            path = f"/p/{self.prefix}{self._random.randint(1, 9)}.md"
            done = ToolCallCompleted(
                call_id=CallId(call), ok=True, data={"value": 7}, summary="7", duration_ms=0.5, wrote=(path,)
            )
            cleared = LabelsCleared(by="ana", way=AuthStrength.BROWSER, path=self._random.choice(["", path]))
            return [requested, done, *([cleared] if self._random.random() < 0.3 else [])]
        if kind == 1:
            partial = self._random.random() < 0.5
            return [call_started(call, reserved=reserved), call_failed(call, partial=partial, settled=reserved)]
        if kind == 2:
            return [completed(self._id("R"), self._word() * 3)]
        if kind == 3:
            return [BudgetRaised(scope="project", key="/p", measure="tokens", amount=reserved[1], by="user")]
        if kind == 4:
            return self._artifact()
        if kind == 5:
            return self._approval()
        if kind == 6:
            return self._step()
        cost = self._random.choice([None, 0, 1_000_000])
        tokens = self._random.randint(0, 5000)
        model = self._random.choice(["small", "large"])
        return [
            call_started(call, model=model, number=self._random.randint(1, 4), reserved=reserved),
            call_completed(call, model=model, tokens=tokens, cost=cost),
        ]

    def _artifact(self) -> list[EventBody]:
        """One under a name of its own, or the next version of the one that was made last."""
        before = self._artifacts[-1] if self._artifacts and self._random.random() < 0.5 else None
        name, version = (before.name, before.version + 1) if before else (self._word() + self._id("N"), 1)
        made = artifact_created(self._id("A"), name=name, version=version, size=self._random.randint(0, 9000))
        self._artifacts.append(made)
        if before is None:
            return [made]
        erased = ArtifactErased(artifact_id=before.artifact_id, why="age", bound=90)
        superseded = ArtifactSuperseded(artifact_id=before.artifact_id, by=made.artifact_id)
        return [made, superseded, *([erased] if self._random.random() < 0.3 else [])]

    def _approval(self) -> list[EventBody]:
        """One that was answered, or was not, or whose yes is void by now."""
        approval_id = ApprovalId(self._id("P"))
        asked = approval_requested(approval_id, self._id("C"), sentence=self._word())
        extent: ApprovalScope = self._random.choice(["once", "session"])
        answers: list[list[EventBody]] = [
            [],
            [ApprovalGranted(approval_id=approval_id, extent=extent, by=self._word(), way=AuthStrength.BROWSER)],
            [ApprovalRejected(approval_id=approval_id, comment=self._word(), by="user", way=AuthStrength.RELAY)],
            [ApprovalExpired(approval_id=approval_id, why="time")],
        ]
        void = ApprovalExpired(approval_id=approval_id, why=self._random.choice(["time", "changed", "revoked"]))
        return [asked, *self._random.choice(answers), *([void] if self._random.random() < 0.3 else [])]

    def _step(self) -> list[EventBody]:
        """One that was skipped, or was carried out, at the second attempt now and then."""
        step_id = self._id("G")
        if self._random.random() < 0.2:
            return [StepSkipped(step_id=step_id, reason=self._word())]
        child = self._random.choice([None, TaskId(self._id("T"))])
        facts: list[EventBody] = [StepStarted(step_id=step_id, task=child)]
        attempt = self._random.randint(1, 2)
        if attempt == 2:
            failed = StepFailed(step_id=step_id, kind="model", code="model.down", message="gone", again_in_s=0.5)
            facts += [failed, StepStarted(step_id=step_id, attempt=2)]
        done = StepCompleted(step_id=step_id, attempt=attempt, output={"text": self._word()}, to=self._word())
        saved = CheckpointSaved(checkpoint_id=self._id("K"), node_id=step_id, state={"settled": attempt})
        return [*facts, done, saved] if self._random.random() < 0.8 else facts

    def _transitions(self, is_pausing: bool) -> list[TaskFact]:
        return [
            TaskQueued(reason="created"),
            TaskStarted(attempt=1, epoch=self._id("E")),
            TaskWaitingApproval(approval_id="a"),
            TaskWaitingInput(question=self._word()),
            TaskPauseRequested(by="user", reason=self._word(), wanted=not is_pausing),
            TaskPaused(by="user", reason=self._word()),
            TaskResumed(by="user"),
            TaskRetried(by="user", attempt=2),
            TaskSucceeded(rounds=self._random.randint(1, 5)),
            TaskFailed(kind="model", code="model.down", message="gone", hint="wait"),
            TaskCancelled(by="user", reason="enough"),
        ]

    def _labels(self) -> tuple[str, ...]:
        return self._random.choice([(), ("web",), ("file", "web")])

    def _word(self) -> str:
        return self._random.choice(_WORDS)

    def _id(self, kind: str) -> str:
        self._count += 1
        return f"{self.prefix}01{kind}{self._count:023d}"
