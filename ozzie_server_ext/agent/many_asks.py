"""What is said where a turn asks so often that nobody reads it any more (THREATS 14)."""

from ozzie_server_ext.domain.approvals import MOST_ASKS
from ozzie_server_ext.domain.events import PromptOption, PromptRequested, TaskWaitingInput
from ozzie_server_ext.domain.ids import PromptId

GO_ON, STOP = "go_on", "stop"
"""The answers to it."""


def many_asks(prompt_id: PromptId) -> tuple[PromptRequested, TaskWaitingInput]:
    """The question, which is put in the place of the next approval."""
    prompt = PromptRequested(
        prompt_id=prompt_id,
        kind="asks",
        question=f"This turn has asked you {MOST_ASKS} times already, and wants to ask again.",
        notes=(
            "What it asks next is shown in full, as before; nothing is done without your yes.",
            "A rule can allow what you would approve each time: ozzie policy explain shows why it asks.",
        ),
        options=(
            PromptOption(name=GO_ON, label=f"Let it ask {MOST_ASKS} more times"),
            PromptOption(name=STOP, label="Stop here"),
        ),
    )
    return prompt, TaskWaitingInput(question=prompt.question)
