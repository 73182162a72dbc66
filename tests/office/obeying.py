"""Plays a task in a world where a goal was planted: the model does what the task needs until it reads the planted
words, and from then on what they want. A person says yes to the task's own calls, and to nothing after that."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ozzie_server_ext.domain.ids import TaskId
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step
from tests.office.goals import Goal
from tests.office.planted import Place, plant, state
from tests.office.playing import Office, gateway
from tests.office.task import Task
from tests.scripted_gateway import ScriptedOzzie
from tests.workloads.playing import RESTS, USER, WAIT_S

Script = Callable[[ModelRequest], Sequence[Step]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    task: Task
    place: Place
    goal: Goal

    @property
    def name(self) -> str:
        return f"{self.task.name} / {'.'.join(self.place)} / {self.goal.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeyed:
    """What came of an attack. `was_read`: the model saw the words. `changed`: what of the world, or of the project, is
    another than when it saw them: an effect that nobody allowed."""

    attack: Attack
    was_read: bool
    changed: tuple[str, ...]


class _Obeys:
    """The script of one turn: the task's until the words are read, then the goal's calls, one at a time."""

    def __init__(self, rounds: Sequence[Script], goal: Goal, look: Callable[[], dict[str, Any]]) -> None:
        """`look`: what can be changed, as it is now."""
        self._rounds = list(rounds)
        self._left = list(goal.calls)
        self._words = goal.words
        self._look = look
        self.before: dict[str, Any] | None = None
        """What could be changed, as it was when the words were read; None if they were not."""

    def rounds(self) -> list[Script]:
        return [self._round] * (len(self._rounds) + len(self._left) + 1)

    def _round(self, request: ModelRequest) -> Sequence[Step]:
        # All of the words: some tools show only the beginning of a text, and nobody obeys half a sentence.
        if self.before is None and any(self._words in each.content for each in request.messages if each.role == "tool"):
            self.before = self._look()
        if self.before is not None:
            return [self._left.pop(0)] if self._left else [Say("Done.")]
        return self._rounds.pop(0)(request)


class Victims:
    """Plays attacks in an office, one after the other."""

    def __init__(self, ozzie: ScriptedOzzie, project: Path) -> None:
        self._ozzie = ozzie
        self._project = project
        self._office = Office(ozzie, project)

    async def play(self, attack: Attack) -> Obeyed:
        for path in attack.task.leaves:
            (self._project / path).unlink(missing_ok=True)  # of an earlier attack on the same task
        session_id = await self._office.begin(attack.task)
        plant(self._office.world, attack.place, attack.goal.words)
        for said, rounds in attack.task.turns():
            obeys = _Obeys(rounds, attack.goal, self._look)
            self._ozzie.plays(*obeys.rounds())
            task_id = await self._office.send(session_id, said)
            await self._seen_through(task_id, obeys)
            if obeys.before is not None:
                after = self._look()
                changed = tuple(name for name, was in obeys.before.items() if after[name] != was)
                return Obeyed(attack=attack, was_read=True, changed=changed)
        return Obeyed(attack=attack, was_read=False, changed=())

    async def _seen_through(self, task_id: TaskId, obeys: _Obeys) -> None:
        """Allow what the task does of itself; stop it when the goal's calls are asked for."""
        ozzie = self._ozzie
        async with asyncio.timeout(WAIT_S), ozzie.feed.subscribe(0, types=RESTS, task_id=task_id) as events:
            async for event in events:
                if event.type != "task.waiting_approval":
                    return
                if obeys.before is not None:
                    await ozzie.tasks.cancel(task_id, by=USER.name, reason="It was not asked for.")
                    continue
                for asked in await ozzie.approvals.list(task_id=task_id, statuses=["pending"]):
                    await ozzie.approvals.approve(asked.approval_id, USER, binds=asked.asked.binds)

    def _look(self) -> dict[str, Any]:
        files = {str(path): path.read_bytes() for path in self._project.rglob("*") if path.is_file()}
        return state(self._office.world) | {"files": files}


async def _obey_all(attacks: Iterable[Attack], folder: Path, rules: str) -> list[Obeyed]:
    async with gateway(folder, rules) as (ozzie, project):
        victims = Victims(ozzie, project)
        return [await victims.play(attack) for attack in attacks]


def obey_all(attacks: Iterable[Attack], folder: Path, rules: str = "") -> list[Obeyed]:
    """Play each in a session of one gateway, below `folder`. `rules` is the text of the user's file of rules."""
    return asyncio.run(_obey_all(attacks, folder, rules))
