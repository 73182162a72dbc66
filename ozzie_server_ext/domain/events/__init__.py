"""Facts in the past tense: one frozen class each, and the envelope that carries them through the log.

The canonical names are those of DESIGN §4; `protocol.names` maps them to the names in the other documents. A
class is here once something records it. A fact's shape changes only by a higher `schema` and a function in
`store.upcast` that turns the older shape into the present one.
"""

from ozzie_server_ext.domain.events.approval import (
    ApprovalExpired,
    ApprovalGranted,
    ApprovalRefused,
    ApprovalRejected,
    ApprovalRequested,
)
from ozzie_server_ext.domain.events.artifact import (
    ArtifactCreated,
    ArtifactErased,
    ArtifactSuperseded,
)
from ozzie_server_ext.domain.events.budget import (
    BudgetExceeded,
    BudgetRaised,
)
from ozzie_server_ext.domain.events.catalogue import (
    EVENT_CLASSES,
    EventBody,
)
from ozzie_server_ext.domain.events.envelope import (
    Draft,
    Event,
    Transient,
)
from ozzie_server_ext.domain.events.fact import (
    Actor,
    Fact,
    Finish,
)
from ozzie_server_ext.domain.events.message import (
    MessageCompleted,
    MessageReceived,
    MessageRejected,
    Origin,
)
from ozzie_server_ext.domain.events.model import (
    INTERRUPTED,
    ModelCallCompleted,
    ModelCallFailed,
    ModelCallStarted,
    ToolUse,
)
from ozzie_server_ext.domain.events.prompt import (
    PromptAnswered,
    PromptOption,
    PromptRequested,
)
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
from ozzie_server_ext.domain.events.system import (
    ConfigChanged,
    SecretChanged,
    WorkerLost,
    WorkerStarted,
)
from ozzie_server_ext.domain.events.task import (
    FINAL_TYPES,
    Limits,
    TaskCancelled,
    TaskCreated,
    TaskFact,
    TaskFailed,
    TaskModelChosen,
    TaskPaused,
    TaskQueued,
    TaskResumed,
    TaskRetried,
    TaskStarted,
    TaskStopping,
    TaskSucceeded,
    TaskWaitingApproval,
    TaskWaitingInput,
)
from ozzie_server_ext.domain.events.tool import (
    InjectedTool,
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

__all__ = [
    "EVENT_CLASSES",
    "FINAL_TYPES",
    "INTERRUPTED",
    "Actor",
    "ApprovalExpired",
    "ApprovalGranted",
    "ApprovalRefused",
    "ApprovalRejected",
    "ApprovalRequested",
    "ArtifactCreated",
    "ArtifactErased",
    "ArtifactSuperseded",
    "BudgetExceeded",
    "BudgetRaised",
    "ConfigChanged",
    "Draft",
    "Event",
    "EventBody",
    "Fact",
    "Finish",
    "InjectedTool",
    "LabelsCleared",
    "Limits",
    "MessageCompleted",
    "MessageReceived",
    "MessageRejected",
    "ModelCallCompleted",
    "ModelCallFailed",
    "ModelCallStarted",
    "Origin",
    "PromptAnswered",
    "PromptOption",
    "PromptRequested",
    "SecretChanged",
    "SessionArchived",
    "SessionClosed",
    "SessionCreated",
    "SessionForked",
    "SessionModelChosen",
    "SessionMoved",
    "SessionRenamed",
    "SessionResumed",
    "TaskCancelled",
    "TaskCreated",
    "TaskFact",
    "TaskFailed",
    "TaskModelChosen",
    "TaskPaused",
    "TaskQueued",
    "TaskResumed",
    "TaskRetried",
    "TaskStarted",
    "TaskStopping",
    "TaskSucceeded",
    "TaskWaitingApproval",
    "TaskWaitingInput",
    "ToolCallCancelled",
    "ToolCallCompleted",
    "ToolCallDecided",
    "ToolCallFailed",
    "ToolCallRequested",
    "ToolCallResolved",
    "ToolCallStarted",
    "ToolCallUncertain",
    "ToolUse",
    "ToolsetInjected",
    "Transient",
    "WorkerLost",
    "WorkerStarted",
]
