"""Every fact that there is: in the log stands nothing else."""

from typing import TypeAlias, get_args

from ozzie_server_ext.domain.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRejected,
    ApprovalRequested,
)
from ozzie_server_ext.domain.events.artifact import ArtifactCreated, ArtifactErased, ArtifactSuperseded
from ozzie_server_ext.domain.events.budget import BudgetExceeded, BudgetRaised
from ozzie_server_ext.domain.events.fact import Fact
from ozzie_server_ext.domain.events.message import MessageCompleted, MessageReceived, MessageRejected
from ozzie_server_ext.domain.events.model import ModelCallCompleted, ModelCallFailed, ModelCallStarted
from ozzie_server_ext.domain.events.prompt import PromptAnswered, PromptRequested
from ozzie_server_ext.domain.events.session import (
    LabelsCleared,
    SessionArchived,
    SessionClosed,
    SessionCreated,
    SessionForked,
    SessionModelChosen,
    SessionMoved,
    SessionRenamed,
    SessionResumed,
)
from ozzie_server_ext.domain.events.skill import (
    AgentDelegated,
    CheckpointSaved,
    SkillCompleted,
    SkillFailed,
    SkillStarted,
    StepFact,
)
from ozzie_server_ext.domain.events.system import ConfigChanged, SecretChanged, WorkerLost, WorkerStarted
from ozzie_server_ext.domain.events.task import TaskFact, TaskModelChosen, TaskStalled, TaskTold, TaskUpdated
from ozzie_server_ext.domain.events.tool import (
    ToolCallCancelled,
    ToolCallCompleted,
    ToolCallDecided,
    ToolCallFailed,
    ToolCallRequested,
    ToolCallResolved,
    ToolCallStarted,
    ToolCallUncertain,
    ToolsetInjected,
)

EventBody: TypeAlias = (
    SessionCreated
    | SessionRenamed
    | SessionResumed
    | SessionMoved
    | SessionForked
    | SessionArchived
    | SessionClosed
    | LabelsCleared
    | SessionModelChosen
    | MessageReceived
    | MessageCompleted
    | MessageRejected
    | TaskFact
    | TaskModelChosen
    | TaskStalled
    | TaskTold
    | TaskUpdated
    | ModelCallStarted
    | ModelCallCompleted
    | ModelCallFailed
    | BudgetExceeded
    | BudgetRaised
    | ToolCallRequested
    | ToolCallDecided
    | ToolCallStarted
    | ToolCallCompleted
    | ToolCallFailed
    | ToolCallCancelled
    | ToolCallUncertain
    | ToolCallResolved
    | ToolsetInjected
    | ApprovalRequested
    | ApprovalGranted
    | ApprovalRejected
    | ApprovalExpired
    | ApprovalRefused
    | ArtifactCreated
    | ArtifactSuperseded
    | ArtifactErased
    | PromptRequested
    | PromptAnswered
    | AgentDelegated
    | SkillStarted
    | SkillCompleted
    | SkillFailed
    | StepFact
    | CheckpointSaved
    | ConfigChanged
    | SecretChanged
    | WorkerStarted
    | WorkerLost
)

EVENT_CLASSES: tuple[type[Fact], ...] = get_args(EventBody)
