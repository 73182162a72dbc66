"""Changes of code, prompt, rules, skills and tools, each found by the first event that it makes another one."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import PolicyError
from ozzie_server_ext.domain.events import ApprovalRequested, CardTarget, Draft, Event, EventBody, TargetName
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.domain.toolmeta import SideEffect, TargetKind
from ozzie_server_ext.policy.decision import Decision, Verdict
from ozzie_server_ext.replay.changes import Changes, changes_of
from ozzie_server_ext.replay.difference import Comparing
from ozzie_server_ext.replay.ids import Ids
from ozzie_server_ext.replay.log import GatewayLog
from ozzie_server_ext.replay.record import opened
from ozzie_server_ext.store.codec import time_text
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from tests.integration.replay.recorded import SKILL, recording
from tests.integration.tasks.test_labels import ALLOW_NOTES
from tests.replaying import replayed

pytestmark = pytest.mark.timeout(180)

Patch = pytest.MonkeyPatch
Recorded = tuple[Home, SessionId]
PACKAGE = "ozzie_server_ext"
SOUL = "You are Ozzie, and brief."


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorded]:
    folder: Path = tmp_path_factory.mktemp("recorded")

    async def record() -> SessionId:
        async with recording(folder, soul=SOUL) as made:
            await made.everything()
            return made.session_id

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        yield Home(folder / "home"), asyncio.run(record())


@dataclass(frozen=True)
class Seeded:
    """A change, and where it shows first: in which turn, in an event of which type (`now`, if it would be another one),
    in which field."""

    turn: int
    then: str
    field: str
    now: str = ""
    code: Callable[[Patch], object] | None = None
    changes: Callable[[], Changes] = Changes
    tools: Callable[[list[Tool]], list[Tool]] | None = None


def patched(target: str, value: Any) -> Callable[[Patch], object]:
    return lambda patch: patch.setattr(f"{PACKAGE}.{target}", value)


def wrapped(target: str, change: Callable[[Any], Any]) -> Callable[[Patch], object]:
    """Change what a function of the code returns."""

    def apply(patch: Patch) -> None:
        place, _, name = f"{PACKAGE}.{target}".rpartition(".")
        module = __import__(place, fromlist=[name])
        real = getattr(module, name)
        patch.setattr(module, name, lambda *args, **kwargs: change(real(*args, **kwargs)))

    return apply


def rules(decision: str, tool: str, **when: Any) -> Callable[[], Changes]:
    args = {"path": "notes/a.md", **({"text": "x"} if tool == "write_file" else {})}
    rule = {
        "id": "tried",
        "decision": decision,
        "reason": "It is tried.",
        "when": {"tools": [tool], **when},
        "examples": {"match": [{"tool": tool, "args": args}]},
    }
    return lambda: changes_of(policy=json.dumps({"rules": [rule]}))


def skill(old: str, new: str) -> Callable[[], Changes]:
    assert old in SKILL
    return lambda: changes_of(skills=(SKILL.replace(old, new),))


def without(name: str) -> Callable[[list[Tool]], list[Tool]]:
    return lambda tools: [tool for tool in tools if tool.meta.name != name]


class Altered:
    """A tool with another contract. A replay calls nothing else of it."""

    waits = False
    plan_waits = False

    def __init__(self, tool: Tool, **meta: Any) -> None:
        self._tool = tool
        self.meta = replace(tool.meta, **meta)
        self.spec = tool.spec
        self.check = tool.check
        self.plan, self.run, self.happened = tool.plan, tool.run, tool.happened


def contract(name: str, **meta: Any) -> Callable[[list[Tool]], list[Tool]]:
    return lambda tools: [Altered(tool, **meta) if tool.meta.name == name else tool for tool in tools]


def allowed(rule: str, reason: str) -> Verdict:
    return Verdict(decision=Decision.ALLOW, rule=rule, reason=reason)


def with_(**fields: Any) -> Callable[[Any], Any]:
    return lambda found: structs.replace(found, **fields)


STARTED, DECIDED, OFFERED, RECEIVED = "model.call.started", "tool.call.decided", "toolset.injected", "message.received"
FAILED, REQUESTED = "tool.call.failed", "tool.call.requested"
PROMPT = "request_blob.messages[0].content"
CHECKED = '"acceptance": "It is short.", "instruction": "Say'
ONE_MORE = '"needs": ["think"]}, {"id": "more", "instruction": "Go on.", "needs": ["note"]}'
NOTES = {"paths": ["notes/**"]}

PROMPTS = {
    "another prompt": Seeded(1, STARTED, PROMPT, changes=lambda: Changes(prompt="Be terse.")),
    "no prompt": Seeded(1, STARTED, PROMPT, changes=lambda: Changes(prompt="")),
}
RULES = {
    "a tool is denied": Seeded(1, OFFERED, "tools[7].tool_id", changes=rules("deny", "read_file")),
    "another tool is denied": Seeded(1, OFFERED, "tools[6].tool_id", changes=rules("deny", "list_files")),
    "a tool is asked for": Seeded(1, DECIDED, "decision", changes=rules("ask", "read_file")),
    "a folder is denied": Seeded(2, DECIDED, "decision", changes=rules("deny", "write_file", **NOTES)),
    "a folder is asked for": Seeded(2, DECIDED, "decision", changes=rules("ask", "write_file", **NOTES)),
    "all may be written": Seeded(3, DECIDED, "decision", changes=rules("allow", "write_file")),
    "a second model checks": Seeded(2, DECIDED, "decision", changes=rules("check", "write_file")),
    "no rules": Seeded(2, DECIDED, "decision", changes=lambda: changes_of(policy='{"rules": []}')),
}
SKILLS = {
    "it says something else": Seeded(10, RECEIVED, "text", changes=skill("Say what", "Tell me what")),
    "it writes elsewhere": Seeded(10, "task.created", "call.args.path", changes=skill("notes/n.md", "notes/o.md")),
    "it checks a result": Seeded(10, RECEIVED, "text", changes=skill('"instruction": "Say', CHECKED)),
    "it has one step more": Seeded(
        10, "message.completed", "type", "step.started", changes=skill('"needs": ["think"]}', ONE_MORE)
    ),
    "it is described otherwise": Seeded(10, "task.created", "brief.instruction", changes=skill("Counts.", "Adds.")),
}
TOOLS = {
    "one is gone": Seeded(1, OFFERED, "tools[1].tool_id", tools=without("calculator")),
    "one that was called is gone": Seeded(1, OFFERED, "tools[7].tool_id", tools=without("read_file")),
    "one has another version": Seeded(1, OFFERED, "tools[10].version", tools=contract("write_file", version="x")),
}
CODE = {
    "what a tool may do": Seeded(3, DECIDED, "rule", tools=contract("write_file", side_effect=SideEffect.IRREVERSIBLE)),
    "the words before the tools": Seeded(1, STARTED, PROMPT, code=patched("agent.requests._WITH_TOOLS", "Tools:\n")),
    "the words about the session": Seeded(
        2,
        STARTED,
        PROMPT,
        code=wrapped("agent.requests._state", lambda text: text.replace("which goes on", "going on")),
    ),
    "how a result is told": Seeded(
        1,
        STARTED,
        "request_blob.messages[3].content",
        code=wrapped("agent.rounds.result_text", lambda text: f"{text} "),
    ),
    "how often a call is repeated": Seeded(
        1, REQUESTED, "type", "task.failed", code=patched("agent.rounds.MAX_REPEATS", 1)
    ),
    "what is done without a rule": Seeded(
        3, DECIDED, "decision", code=patched("policy.engine.CHANGES", allowed("default.changes", "It may."))
    ),
    "why a call is allowed": Seeded(
        1, DECIDED, "reason", code=patched("policy.engine.READ_ONLY", allowed("default.read_only", "It may."))
    ),
    "how much of a change is shown": Seeded(
        3, REQUESTED, "type", "artifact.created", code=patched("tools.permissions.MOST_SHOWN", 5)
    ),
    "the error of an unknown tool": Seeded(
        5, FAILED, "code", code=wrapped("tools.broker.unknown_tool", lambda error: PolicyError("There is none."))
    ),
    "how long a failure may be": Seeded(5, FAILED, "message", code=patched("tools.outcome.MOST_SAID", 5)),
    "how a question is put": Seeded(
        6, "prompt.requested", "question", code=wrapped("tools.broker.prompt_of", with_(question="So?"))
    ),
    "how often an answer may not fit": Seeded(
        7, STARTED, "type", "task.failed", code=patched("agent.turn.MAX_REJECTED", 0)
    ),
    "what does not fit": Seeded(
        7, "message.rejected", "problem", code=wrapped("replay.models.misfit", lambda found: found and f"{found}!")
    ),
    "what a failed call counts": Seeded(
        8, "model.call.failed", "settled_tokens", code=patched("agent.model_call.may_be_billed", lambda error: False)
    ),
    "the hint of a failure": Seeded(8, "task.failed", "hint", code=wrapped("tasks.driver.failure", with_(hint="Try."))),
    "what a step is told": Seeded(
        10, RECEIVED, "text", code=wrapped("tasks.workflows.step_runner.order_for", with_(text="Do it."))
    ),
    "the version of the tools": Seeded(
        1, STARTED, "tools", code=wrapped("agent.round_runner.toolset_version", lambda version: f"{version}x")
    ),
}
CAUSES = {"prompt": PROMPTS, "rules": RULES, "skill": SKILLS, "tools": TOOLS, "code": CODE}
EVERY = {(cause, name): seeded for cause, group in CAUSES.items() for name, seeded in group.items()}


@pytest.mark.parametrize(("cause", "name"), EVERY, ids=[f"{cause}: {name}" for cause, name in EVERY])
def test_the_first_difference_is_named_with_its_cause(
    recorded: Recorded, cause: str, name: str, monkeypatch: Patch
) -> None:
    seeded = EVERY[cause, name]
    tools = list(builtin_tools())
    if seeded.tools is not None:
        tools = seeded.tools(tools)
    if seeded.code is not None:
        seeded.code(monkeypatch)

    found = replayed(*recorded, seeded.changes(), tools=tools)

    shown = (found.turn, found.then_type, found.field, found.now_type, found.cause)
    assert shown == (seeded.turn, seeded.then, seeded.field, seeded.now or seeded.then, cause)
    assert found.sentence.startswith(
        f"Same up to event {found.same:,}. Event {found.same + 1:,} of turn {seeded.turn} differs"
    )


def test_what_changes_nothing_is_no_difference(recorded: Recorded) -> None:
    """The same rules in another file, under another name; the same skill with other blanks; the same prompt."""
    same = json.dumps({"rules": [{**json.loads(ALLOW_NOTES)["rules"][0], "id": "other", "reason": "They are mine."}]})

    assert replayed(*recorded, changes_of(policy=same)).is_same
    assert replayed(*recorded, changes_of(skills=(f"{SKILL}\n\n",))).is_same
    assert replayed(*recorded, Changes(prompt=SOUL)).is_same


def test_a_change_is_not_blamed_for_what_differs_without_it(recorded: Recorded, monkeypatch: Patch) -> None:
    """The rules and the skill that are tried are those of then; what has changed is the code, or a tool."""
    tried = changes_of(policy=ALLOW_NOTES, skills=(SKILL,))
    other = contract("write_file", version="x")(list(builtin_tools()))

    by_tool = replayed(*recorded, tried, tools=other)
    patched("tools.outcome.MOST_SAID", 5)(monkeypatch)
    by_code = replayed(*recorded, tried)

    assert (by_tool.cause, by_tool.field) == ("tools", "tools[10].version")
    assert (by_code.cause, by_code.turn) == ("code", 5)


@pytest.mark.parametrize("lost", ["idempotency_key", "labels", "session_id"])
def test_a_lost_field_of_an_envelope_is_a_difference(recorded: Recorded, lost: str, monkeypatch: Patch) -> None:
    nothing: dict[str, Any] = {"idempotency_key": "another", "labels": ("web",), "session_id": None}
    real = GatewayLog.append

    async def append(self: GatewayLog, stream: str, drafts: Any, **more: Any) -> Any:
        return await real(self, stream, [draft._replace(**{lost: nothing[lost]}) for draft in drafts], **more)

    monkeypatch.setattr(GatewayLog, "append", append)

    found = replayed(*recorded)

    assert (found.turn, found.field, found.cause) == (1, lost, "code")


@pytest.mark.parametrize(("later_s", "began_s", "differs"), [(3.6, 0, True), (3.6, 4, False), (600, 4, True)])
def test_a_time_may_differ_by_as_long_as_its_recording_took(
    recorded: Recorded, later_s: float, began_s: float, differs: bool
) -> None:
    """A busy machine takes seconds from an event to the next, a replay none."""
    home, session_id = recorded
    with opened(home) as reading:
        events = reading.record(session_id).events
    asked = next(event for event in events if isinstance(event.body, ApprovalRequested))
    assert isinstance(asked.body, ApprovalRequested)
    expires_at = datetime.fromisoformat(asked.body.expires_at) - timedelta(seconds=later_s)
    now = structs.replace(asked.body, expires_at=time_text(expires_at))

    assert _differs_in(now, asked, asked.ts - timedelta(seconds=began_s)) == ("expires_at" if differs else "")


def _differs_in(now: EventBody, then: Event, at: datetime) -> str:
    draft = Draft(
        body=now,
        actor=then.actor,
        source=then.source,
        session_id=then.session_id,
        task_id=then.task_id,
        idempotency_key=then.idempotency_key,
        labels=then.labels,
        sources=then.sources,
    )
    found = Comparing(expand=lambda value: value).difference(draft, then, Ids(set()).compare(), at)
    return found.field if found else ""


@pytest.mark.parametrize(
    ("of_then", "field"), [((), ""), (("ana@firm.example",), ""), (("ben@firm.example",), "targets[0].names[0].text")]
)
def test_what_a_call_names_is_compared_unless_an_earlier_version_recorded_the_call(
    recorded: Recorded, of_then: tuple[str, ...], field: str
) -> None:
    home, session_id = recorded
    with opened(home) as reading:
        events = reading.record(session_id).events
    asked = next(event for event in events if isinstance(event.body, ApprovalRequested))
    assert isinstance(asked.body, ApprovalRequested)
    then = structs.replace(asked, body=structs.replace(asked.body, targets=_recipients(*of_then)))
    now = structs.replace(asked.body, targets=_recipients("ana@firm.example"))

    assert _differs_in(now, then, asked.ts) == field


def _recipients(*addresses: str) -> tuple[CardTarget, ...]:
    names = tuple(TargetName(text=address) for address in addresses)
    return (CardTarget(kind=TargetKind.RECIPIENT, argument="to", names=names),) if names else ()
