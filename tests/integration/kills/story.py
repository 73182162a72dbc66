"""The turn that is killed: what the provider says in each round, and what has to be left of it in the end."""

import random
import re
from pathlib import Path

from tests.fakes.openai_wire import OpenAIWire
from tests.fakes.provider_server import FakeProvider
from tests.fakes.replies import Answer, Asked, ToolCall, pieces_of

MODEL = "story"
INTRO = "First I look at what there is."
FOLDER = "many"
FILES = 60_000
"""So many that to list them takes a tenth of a second: long enough to be killed in."""
_WORDS = (
    "amber",
    "basalt",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "garnet",
    "harbor",
    "indigo",
    "jasper",
    "kelp",
    "lotus",
)


def fill(project: Path) -> None:
    """Make the folder that the story's tool looks into."""
    folder = project / FOLDER
    folder.mkdir()
    for number in range(FILES):
        (folder / f"{number:05d}").touch()


def prompt(marker: str) -> str:
    return f"Tell the story of {marker}."


def ending(marker: str) -> str:
    """The whole last reply of the turn with this marker; no other turn has it."""
    chance = random.Random(marker)
    return f"{marker}: {' '.join(chance.choice(_WORDS) for _ in range(14))}, end of {marker}."


def tell(asked: Asked) -> Answer:
    """What the provider does: some text and two tools, then the rest, slowly enough to be cut anywhere."""
    if not asked.results:
        calls = [ToolCall("list_files", {"path": FOLDER}), ToolCall("calculator", {"expr": "6*7"})]
        return Answer(pieces=pieces_of(INTRO), tool_calls=calls, first_s=0.15, gap_s=0.03)
    found = re.search(r"story of (\S+)\.", asked.text)
    assert found is not None, asked.text
    return Answer(pieces=pieces_of(ending(found[1])), first_s=0.15, gap_s=0.03)


def provider() -> FakeProvider:
    return FakeProvider(OpenAIWire(), behave=tell)
