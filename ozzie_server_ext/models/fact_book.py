"""What litellm's table knows of models: asked of the model worker, which alone has it, and kept."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.planes.channel import Channel
from ozzie_server_ext.protocol.codec import InvalidShape
from ozzie_server_ext.protocol.worker import Abort, Describe, ModelFacts, ModelName, command_json, parse_described

ANSWER_S = 5.0
"""How long a worker that runs may take: it only looks into a table."""

MAX_KNOWN = 1024
"""Of so many models facts are kept: names typed into cells would add up for ever."""


@dataclass(frozen=True, slots=True)
class _Learnt:
    facts: ModelFacts
    of: Channel


class FactBook:
    """Asks a worker once for each model in that worker's life. `channel` gives the connection to one that is ready."""

    def __init__(self, channel: Callable[[], Awaitable[Channel]]) -> None:
        self._channel = channel
        self._learnt: dict[ModelName, _Learnt] = {}
        self._numbers = itertools.count(1)

    def known(self, name: ModelName) -> ModelFacts | None:
        """What was learnt so far, without asking anybody."""
        found = self._learnt.get(name)
        return found.facts if found else None

    async def learn(self, names: Iterable[ModelName]) -> None:
        """Ask for those of which the workers that live have said nothing yet; starts one where none does.

        Raises Unavailable where no worker answers.
        """
        missing = tuple(dict.fromkeys(name for name in names if not self._is_fresh(name)))
        if not missing:
            return
        channel = await self._channel()
        for name, facts in zip(missing, await self._ask(channel, missing), strict=True):
            self._learnt.pop(name, None)
            self._learnt[name] = _Learnt(facts, channel)
        while len(self._learnt) > MAX_KNOWN:
            del self._learnt[next(iter(self._learnt))]

    def _is_fresh(self, name: ModelName) -> bool:
        # The next worker may have another version of the table.
        found = self._learnt.get(name)
        return found is not None and found.of.is_open

    async def _ask(self, channel: Channel, names: tuple[ModelName, ...]) -> tuple[ModelFacts, ...]:
        call_id = f"describe:{next(self._numbers)}"
        inbox = channel.open_call(
            call_id,
            start=command_json(Describe(id=call_id, models=names)),
            abort=command_json(Abort(session_id=call_id, id=call_id)),
        )
        try:
            async with asyncio.timeout(ANSWER_S):
                described = parse_described(await inbox.get())
        except (TimeoutError, InvalidShape) as error:
            raise _silent() from error
        finally:
            channel.close_call(inbox)
        if len(described) != len(names):
            raise _silent()
        return described


def _silent() -> Unavailable:
    return Unavailable("The model worker does not say what it knows of models.", code="worker.silent")
