"""Replays for clients of the gateway. Each runs in a process of its own (`programs.replay`)."""

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.errors import Conflict, Gone, NotFound, Unavailable
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.planes.one_shot import ErrandEnded, ErrandFailed, run_errand
from ozzie_server_ext.protocol.frames import ErrorInfo
from ozzie_server_ext.replay.changes import Changes, changes_of
from ozzie_server_ext.replay.outcome import Verdict

log = logger(__name__)

AT_ONCE = 2
"""The number of replays that run beside each other; others wait."""
MOST_S = 600.0
"""How long one may take."""
_PROGRAM = "ozzie_server_ext.programs.replay"


class Errand(msgspec.Struct, frozen=True, kw_only=True):
    """What the process is to do: replay a session of the home at a path, up to the end of a turn, with other rules,
    another prompt or other skills, each the text of a file. `folder` is an empty one for files of its own, `parent` the
    process that started it."""

    home: str
    folder: str
    session_id: str
    parent: int
    until: int | None = None
    policy: str | None = None
    prompt: str | None = None
    skills: tuple[str, ...] = ()

    def changes(self) -> Changes:
        """Return what is tried. Raises ConfigError, SkillError or JsoncError."""
        return changes_of(policy=self.policy, prompt=self.prompt, skills=self.skills)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the process writes: a verdict or, if there is no replay, why."""

    verdict: Verdict | None = None
    refusal: ErrorInfo | None = None


@asynccontextmanager
async def _folder() -> AsyncGenerator[str]:
    """A folder that is there inside of the `with`."""
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="ozzie-replay-")
    try:
        yield folder
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


class Replays:
    """Replays sessions of a home."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._places = asyncio.Semaphore(AT_ONCE)

    async def replay(
        self,
        session_id: SessionId,
        *,
        until: int | None = None,
        policy: str | None = None,
        prompt: str | None = None,
        skills: tuple[str, ...] = (),
    ) -> Verdict:
        """Replay a session, see `Errand`.

        Raises NotFound for an unknown session or turn, Gone if it was erased, Conflict for a change that is invalid or
        a session that can't be replayed at all, Unavailable if the process fails or takes too long.
        """
        async with self._places, _folder() as folder:
            errand = Errand(
                home=str(self._home.root.absolute()),
                folder=folder,
                session_id=session_id,
                parent=os.getpid(),
                until=until,
                policy=policy,
                prompt=prompt,
                skills=skills,
            )
            try:
                raw = await run_errand(_PROGRAM, msgspec.json.encode(errand), wall_s=MOST_S)
            except ErrandEnded:
                raise Unavailable(
                    "The replay takes too much time or memory.", hint="Replay a part of it, with --until TURN."
                ) from None
            except ErrandFailed as error:
                log.error("a session can't be replayed: %s", error)
                raise Unavailable(
                    "The process that replays failed.", hint="Ozzie's log says by which error.", code="replay.failed"
                ) from None
        answer = msgspec.json.decode(raw, type=Answer)
        if answer.refusal is not None:
            raise _refused(answer.refusal)
        assert answer.verdict is not None, "the answer has either"
        return answer.verdict


def _refused(refusal: ErrorInfo) -> NotFound | Gone | Conflict:
    kind = {NotFound.code: NotFound, Gone.code: Gone}.get(refusal.code, Conflict)
    return kind(refusal.message, hint=refusal.hint, code=refusal.code)
