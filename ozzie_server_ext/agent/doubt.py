"""What a person is asked where nobody knows whether something was done (UX §2.7)."""

from ozzie_server_ext.domain.events import PromptOption, PromptRequested, TaskWaitingInput
from ozzie_server_ext.domain.ids import PromptId

DONE, AGAIN, LEAVE = "done", "again", "leave"
"""The answers to it."""


def doubt(prompt_id: PromptId, said: str) -> tuple[PromptRequested, TaskWaitingInput]:
    """The question. `said` is string 13 of UX §10."""
    prompt = PromptRequested(
        prompt_id=prompt_id,
        kind="uncertain",
        question=said,
        notes=("Find out whether it did, then say so here. Where it is tried again, you are asked as before.",),
        options=(
            PromptOption(name=DONE, label="It was done"),
            PromptOption(name=AGAIN, label="It was not: try again"),
            PromptOption(name=LEAVE, label="Leave it, and end here"),
        ),
    )
    return prompt, TaskWaitingInput(question=said)
