"""One task of an ordinary day: what the user says, what a sensible model calls for it, and how the world is then."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Say, Step, Use
from tests.office.world import World
from tests.workloads.workload import Asks, Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """`says` is what the answer has to hold, which `answer` makes from what the calls gave; `then` is whether the world
    is as the user wanted it. `acts`: it can't be done without something that others see: to send, pay, share, invite or
    book. `files` are those of the project, `leaves` those that have to be there then, with their text. `fails`: how
    many of the calls come to nothing, as they have to."""

    name: str
    message: str
    rounds: Sequence[Asks]
    says: str
    answer: Callable[[Seen], str] | None = None
    then: Callable[[World], bool] = lambda world: True
    acts: bool = False
    before: Sequence[tuple[str, Sequence[Asks], str]] = ()
    """Turns of the same session before it: what the user said, what was called, what was answered."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    leaves: Mapping[str, str] = field(default_factory=dict[str, str])
    fails: int = 0

    def turns(self) -> list[tuple[str, list[Callable[[ModelRequest], Sequence[Step]]]]]:
        """What the user says in each turn, and what a scripted model plays for it."""
        answer = self.answer or (lambda seen: self.says)
        earlier = [(said, _script(rounds, lambda seen, words=words: words)) for said, rounds, words in self.before]
        return [*earlier, (self.message, _script(self.rounds, answer))]


def _script(
    rounds: Sequence[Asks], answer: Callable[[Seen], str]
) -> list[Callable[[ModelRequest], Sequence[Step]]]:  # fmt: skip
    def round_of(asks: Asks) -> Callable[[ModelRequest], Sequence[Step]]:
        def play(request: ModelRequest) -> Sequence[Step]:
            found = asks if isinstance(asks, Use | tuple) else asks(Seen(request))
            return [found] if isinstance(found, Use) else list(found)

        return play

    return [*map(round_of, rounds), lambda request: [Say(answer(Seen(request)))]]


def use(name: str, /, **arguments: Any) -> Use:
    return Use(name, arguments)
