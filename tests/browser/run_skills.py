"""Skills that the tests of a run's graph run in a cell, and where they find its parts."""

import json
from typing import Any

from playwright.async_api import Locator

from tests.browser.lab_server import Lab
from tests.browser.notebook_page import NotebookPage

Skill = dict[str, Any]

REVIEW: Skill = {
    "name": "weekly-review",
    "description": "Reads three sources side by side, asks before it publishes, and reports.",
    "type": "workflow",
    "vars": {"topic": {"required": True}},
    "steps": [
        {"id": "plan", "call": {"tool": "calculator", "args": {"expr": "3 * 8"}}},
        {
            "id": "sources",
            "title": "read sources",
            "model": "scripted",
            "instruction": "Read what is new about {{topic}}.",
            "needs": ["plan"],
        },
        {
            "id": "web",
            "title": "search web",
            "model": "scripted",
            "instruction": "Search the web for {{topic}}.",
            "needs": ["plan"],
        },
        {
            "id": "claims",
            "title": "check claims",
            "model": "scripted",
            "instruction": "Check each claim about {{topic}} against its source.",
            "needs": ["plan"],
        },
        {
            "id": "publish",
            "approve": {"question": "Post a summary to the team channel?", "show": "Two of 64 prices changed."},
            "needs": ["plan"],
        },
        {
            "id": "report",
            "title": "write report",
            "call": {"tool": "calculator", "args": {"expr": "{{steps.plan.output.value}} + 1"}},
            "needs": ["sources", "web", "claims", "publish"],
        },
    ],
    "output": "report",
}

FAILING: Skill = {
    "name": "tender",
    "type": "workflow",
    "steps": [
        {"id": "fetch", "call": {"tool": "calculator", "args": {"expr": "2 + 2"}}},
        {"id": "score", "call": {"tool": "calculator", "args": {"expr": "1 / 0"}}, "needs": ["fetch"]},
        {
            "id": "skipped",
            "title": "old tenders",
            "call": {"tool": "calculator", "args": {"expr": "1 + 1"}},
            "needs": ["fetch"],
            "when": "1 == 2",
        },
        {"id": "group", "call": {"tool": "calculator", "args": {"expr": "4 * 4"}}, "needs": ["fetch"]},
        {"id": "which", "title": "which year", "ask": {"question": "Which year?", "options": ["2025", "2026"]}},
        {"id": "end", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}, "needs": ["score", "group"]},
    ],
}

LETTER: Skill = {
    "name": "letter",
    "type": "fsm",
    "states": [
        {"id": "draft", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}, "moves": [{"to": "review"}]},
        {
            "id": "review",
            "approve": {"question": "Send it?", "show": "Dear all"},
            "moves": [{"on": "approved", "to": "sent"}, {"on": "rejected", "to": "rework"}],
        },
        {"id": "rework", "call": {"tool": "calculator", "args": {"expr": "2 + 1"}}, "moves": [{"to": "review"}]},
        {"id": "sent", "final": True},
    ],
}


def many(count: int = 200) -> Skill:
    """So many steps: most are calls, every 50th can't be worked out, three ask a model, and the last part waits for a
    yes."""
    steps: list[Skill] = [{"id": "begin", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}}]
    for at in range(1, count - 60):
        expr = "1 / 0" if at % 50 == 0 else f"{at} * {at}"
        does: Skill = {"call": {"tool": "calculator", "args": {"expr": expr}}}
        if at in (60, 61, 62):
            does = {"model": "scripted", "instruction": f"Read tender {at}."}
        steps.append({"id": f"read-{at}", **does, "needs": ["begin"], "optional": True})
    steps.append({"id": "gate", "approve": {"question": "Go on with the rest?"}, "needs": ["read-1"]})
    for at in range(count - len(steps)):
        steps.append(
            {"id": f"score-{at}", "call": {"tool": "calculator", "args": {"expr": f"{at} + 1"}}, "needs": ["gate"]}
        )
    return {"name": "tender-scan", "type": "workflow", "steps": steps, "max_parallel": 16, "output": "begin"}


OUTER: Skill = {
    "name": "outer",
    "type": "workflow",
    "steps": [
        {"id": "begin", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}},
        {"id": "inner", "skill": "letter", "needs": ["begin"]},
    ],
}

STACK: Skill = {
    "name": "stack",
    "type": "workflow",
    "steps": [
        {"id": "plan", "call": {"tool": "calculator", "args": {"expr": "1 + 1"}}},
        *({"id": f"part-{at}", "skill": "one", "with": {"n": at}, "needs": ["plan"]} for at in range(8)),
        {"id": "gate", "approve": {"question": "Merge them?"}, "needs": [f"part-{at}" for at in range(8)]},
    ],
}
ONE: Skill = {
    "name": "one",
    "type": "workflow",
    "vars": {"n": {"type": "integer", "required": True}},
    "steps": [{"id": "square", "call": {"tool": "calculator", "args": {"expr": "{{n}} ** 2"}}}],
}


def write(lab: Lab, *skills: Skill) -> None:
    for skill in skills:
        (lab.home.home / "skills" / f"{skill['name']}.jsonc").write_text(json.dumps(skill))


class RunCell:
    """A cell in which a run is drawn."""

    def __init__(self, it: NotebookPage, index: int = 0) -> None:
        self.cell = it.cell(index)
        self.root = self.cell.locator(".jp-Ozzie-cellRun")
        self.picture = self.root.get_by_role("application")
        self.cards = self.root.locator(".jp-Ozzie-approval")
        self.detail = self.root.locator(".jp-Ozzie-stepDetail")

    def node(self, step_id: str) -> Locator:
        """What is drawn of a step: its own node or dot, or the stack that it begins."""
        return self.picture.locator(f"[data-pick^='{step_id} '], [data-pick$=' {step_id}']")

    def row(self, step_id: str) -> Locator:
        return self.root.locator(f".jp-Ozzie-stepRows [data-step='{step_id}']")

    def form(self, name: str) -> Locator:
        return self.root.get_by_role("button", name=name, exact=True)
