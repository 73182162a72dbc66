"""A person who types in one cell of a notebook, and an agent that edits the others: what each did, and what is there.

The same story is told of every way in which a notebook can be open. Whatever the order, nothing that somebody typed is
lost or doubled, each edit is made or refused in words, and what was refused changed nothing.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from ozzie_server_ext.jupyter.cells import Cell

TYPED_IN = "typed"
"""The id of the cell in which the person types."""
Does = Literal["insert", "edit", "move", "delete", "type", "sync"]
WEIGHTS: dict[Does, int] = {"insert": 3, "edit": 5, "move": 2, "delete": 2, "type": 8, "sync": 4}


class Agent(Protocol):
    """Makes edits by the tools' own door. Each returns why it was refused; empty where it was made."""

    async def insert(self, cell_id: str, source: str, after: str) -> tuple[str, str]:
        """What the cell is called then, too: it may not be up to the agent."""
        ...

    async def edit(self, cell_id: str, was: str, source: str) -> str: ...
    async def move(self, cell_id: str, was: str, was_after: str, after: str) -> str: ...
    async def delete(self, cell_id: str, was: str, was_after: str) -> str: ...


class Person(Protocol):
    """Types at the end of the cell, in a front end that may lag behind."""

    async def type(self, text: str) -> None: ...
    async def sync(self) -> None:
        """Let what is on its way arrive: a save, a message."""
        ...


@dataclass
class Story:
    """What has to be there in the end: the cells in their order, as far as edits were made; and what was typed."""

    random: random.Random
    order: list[str] = field(default_factory=lambda: ["a", "b", TYPED_IN, "c", "d"])
    sources: dict[str, str] = field(default_factory=lambda: {"a": "one", "b": "two", TYPED_IN: "", "c": "x", "d": "y"})
    typed: str = ""
    made: int = 0
    refused: list[str] = field(default_factory=list[str])
    number: int = 0

    async def goes_on(self, agent: Agent, person: Person) -> None:
        """One step, of either."""
        does = self.random.choices([*WEIGHTS], [*WEIGHTS.values()])[0]
        self.number += 1
        match does:
            case "type":
                text = "".join(self.random.choices("abcdefgh \n", k=self.random.randint(1, 6)))
                self.typed += text
                await person.type(text)
            case "sync":
                await person.sync()
            case "insert":
                await self._insert(agent)
            case "edit" | "move" | "delete":
                others = [cell for cell in self.order if cell != TYPED_IN]
                if others:
                    await {"edit": self._edit, "move": self._move, "delete": self._delete}[does](
                        agent, self.random.choice(others)
                    )

    async def _insert(self, agent: Agent) -> None:
        after = self.random.choice(["", *self.order])
        source = f"cell {self.number}\n"
        cell_id, refused = await agent.insert(f"new-{self.number}", source, after)
        if self._is_made(refused):
            self.order.insert(self.order.index(after) + 1 if after else 0, cell_id)
            self.sources[cell_id] = source

    async def _edit(self, agent: Agent, cell_id: str) -> None:
        source = f"{self.sources[cell_id]}{self.number} "
        if self._is_made(await agent.edit(cell_id, self.sources[cell_id], source)):
            self.sources[cell_id] = source

    async def _move(self, agent: Agent, cell_id: str) -> None:
        left = [each for each in self.order if each != cell_id]
        after, was_after = self.random.choice(["", *left]), self._above(cell_id)
        if after != was_after and self._is_made(await agent.move(cell_id, self.sources[cell_id], was_after, after)):
            left.insert(left.index(after) + 1 if after else 0, cell_id)
            self.order = left

    async def _delete(self, agent: Agent, cell_id: str) -> None:
        if self._is_made(await agent.delete(cell_id, self.sources[cell_id], self._above(cell_id))):
            self.order.remove(cell_id)

    def _above(self, cell_id: str) -> str:
        index = self.order.index(cell_id)
        return self.order[index - 1] if index else ""

    def _is_made(self, refused: str) -> bool:
        if refused:
            self.refused.append(refused)
        else:
            self.made += 1
        return not refused

    def fits(self, cells: Sequence[Cell]) -> bool:
        """Whether this is what is there."""
        return _found(cells) == self._expected()

    def expect(self, cells: Sequence[Cell]) -> None:
        """That this is what is there."""
        found, expected = _found(cells), self._expected()
        assert found == expected, [pair for pair in zip(found, expected, strict=False) if pair[0] != pair[1]]

    def _expected(self) -> list[tuple[str, str]]:
        return [(each, self.typed if each == TYPED_IN else self.sources[each]) for each in self.order]


def _found(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    return [(cell.cell_id, cell.source) for cell in cells]
