"""Everyday tasks with tools of others: two MCP servers of the protocol's authors, for the time and for Git, and a
plugin for the weather. `{repo}` stands for the repository that the servers may see."""

import json
from collections.abc import Sequence
from typing import Any

from ozzie_server_ext.models.scripted import Use
from tests.workloads.workload import Asks, Seen, Workload, calc, read, write

WEATHER = {"Bern": 12, "Lugano": 19, "Basel": 14}
"""Degrees."""


def at(time: str, there: str, here: str = "UTC") -> Use:
    return Use("clock__convert_time", {"source_timezone": here, "time": time, "target_timezone": there})


def git(tool: str, **more: Any) -> Use:
    return Use(f"git__git_{tool}", {"repo_path": "{repo}", **more})


def weather(*towns: str) -> Use:
    return Use("weather__weather", {"towns": [*towns]})


def _said(seen: Seen, place: int = -1) -> str:
    data = seen.calls[place].data
    return data if isinstance(data, str) else json.dumps(data)


def _task(
    name: str, message: str, *rounds: Asks, says: str, who: Any = "engineer", files: dict[str, str] | None = None
) -> Workload:
    return Workload(
        name=name,
        message=message,
        files=files or {},
        rounds=rounds,
        answer=lambda seen: " ".join(_said(seen, place) for place in range(len(seen.calls))),
        says=says,
        who=who,
    )


TOWNS = "town\nBern\nLugano\n"
PLAN = "what,utc\nstand-up,08:00\nreview,13:30\n"

WITH_TOOLS: Sequence[Workload] = (
    _task(
        "when noon is in Tokyo",
        "When it is noon UTC, what time is it in Tokyo?",
        at("12:00", "Asia/Tokyo"),
        says="21:00",
    ),
    _task(
        "a call across two oceans",
        "20:00 UTC in Sydney and Los Angeles?",
        (at("20:00", "Australia/Sydney"), at("20:00", "America/Los_Angeles")),
        says="Australia/Sydney",
        who="operator",
    ),
    _task(
        "a plan in another time zone",
        "When are the meetings of plan.csv in Zurich?",
        read("plan.csv"),
        (at("08:00", "Europe/Zurich"), at("13:30", "Europe/Zurich")),
        says="Europe/Zurich",
        who="analyst",
        files={"plan.csv": PLAN},
    ),
    _task("the last commits", "What was committed last in {repo}?", git("log", max_count=2), says="Fix the leap day"),
    _task("how many commits", "How many commits are there?", git("log", max_count=10), calc("1+1"), says="2"),
    _task("what the last commit changed", "What did the last commit change?", git("show", revision="HEAD"), says="366"),
    _task("what is not committed yet", "Is anything not committed?", git("status"), says="notes.txt"),
    _task("the difference to the last commit", "What have I changed?", git("diff_unstaged"), says="400"),
    _task("the branches", "Which branches are there?", git("branch", branch_type="local"), says="main"),
    _task("the weather in a town", "What is the weather in Bern?", weather("Bern"), says="12", who="scientist"),
    _task(
        "the warmer town",
        "Is it warmer in Bern or Lugano, and by how much?",
        weather("Bern", "Lugano"),
        calc("19-12"),
        says="7",
        who="scientist",
    ),
    _task(
        "the weather in the towns of a file",
        "What is the weather in the towns of towns.csv?",
        read("towns.csv"),
        weather("Bern", "Lugano"),
        says="19",
        who="analyst",
        files={"towns.csv": TOWNS},
    ),
    _task(
        "a trip",
        "I arrive in Lugano at 09:00 UTC: what time is it there, and how warm?",
        (at("09:00", "Europe/Zurich"), weather("Lugano")),
        says="19",
        who="operator",
    ),
    _task(
        "the log and the weather of a failed night",
        "What was committed before the frost?",
        git("log", max_count=1),
        weather("Basel"),
        says="Fix the leap day",
        who="operator",
    ),
    _task(
        "the mean of three towns", "Mean degrees?", weather(*WEATHER), calc("(12+19+14)/3"), says="15", who="scientist"
    ),
    _task("a file as it was", "Show days.py of the first commit.", git("show", revision="HEAD~1"), says="365"),
    _task(
        "a note of the weather",
        "Write the weather of Bern into weather.md.",
        weather("Bern"),
        write("weather.md", "Bern: 12\n"),
        says="weather.md",
        who="scientist",
    ),
    _task(
        "a list of changes from the log",
        "Write the last commits into CHANGES.md.",
        git("log", max_count=2),
        write("CHANGES.md", "- Fix the leap day\n"),
        says="CHANGES.md",
    ),
    _task("a file for the next commit", "Stage notes.txt.", git("add", files=["notes.txt"]), says="staged"),
    _task(
        "a new branch",
        "Make a branch called spare.",
        git("create_branch", branch_name="spare"),
        says="spare",
        who="operator",
    ),
)
