"""Which server owns a home: the one that holds its lock. Attached servers take over when it goes."""

import asyncio
import fcntl
import itertools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Conflict, OzzieError, Unavailable
from ozzie_server_ext.gateway.relay import Relay
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState, Reporter
from ozzie_server_ext.observability.logs import logger
from ozzie_server_ext.protocol.attached import AttachedServer, Attachment
from ozzie_server_ext.protocol.handshake import find_owner
from ozzie_server_ext.protocol.owner import owner_lock_path, owner_pid

_TRIES = 10
"""How often to retry if the lock file is replaced while it is being locked."""


class NotOwner(Conflict):
    """Another server owns this `OZZIE_PATH`."""

    code = "gateway.not_owner"

    def __init__(self, home: Path, pid: str) -> None:
        super().__init__(
            f"Ozzie's folder {home} belongs to another server already (process {pid}).",
            hint="Use that server, stop it, or start this one with another OZZIE_PATH.",
        )
        self.pid = pid


class OwnerLock:
    """The lock of one home, held until `release` or the end of the process."""

    def __init__(self, home: Path) -> None:
        self._path = owner_lock_path(home)
        self._home = home
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Become the owner.

        Raises NotOwner, with the owner's process; Unavailable where the lock can't be used.
        """
        try:
            self._descriptor = self._locked()
        except OSError as error:  # such as a full disk
            raise self._unusable(str(error.strerror), hint_for(self._path, error=error)) from error

    def _locked(self) -> int:
        """Return a locked descriptor of the lock file. Raises NotOwner, Unavailable, OSError."""
        for _ in range(_TRIES):
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                if self._take(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise self._unusable("something replaces it again and again", "Find out what does, and keep it from that.")

    def _take(self, descriptor: int) -> bool:
        """Lock the file and write this process's id into it. Return False if the file was replaced since it was opened:
        another server could then lock the new file and own the home too."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not self._is_named(descriptor):
                return False
            owner = os.pread(descriptor, 20, 0).decode("ascii", "replace").strip() or "unknown"
            raise NotOwner(self._home, owner) from None
        if not self._is_named(descriptor):
            return False
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        return True

    def _is_named(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None

    def _unusable(self, why: str, hint: str) -> Unavailable:
        return Unavailable(f"The lock {self._path} can't be used: {why}.", hint=hint, code="gateway.lock")


log = logger(__name__)

POLL_S = 0.25
"""Seconds between an attached server's attempts to lock: a killed owner announces nothing."""
RETRY_S = (5.0, 10.0, 30.0)
"""Seconds between attempts of a server that could not start; the last one repeats."""

Begin = Callable[[], Awaitable[Services]]
"""Starts Ozzie in this server and publishes its address; cleans up if it raises."""
End = Callable[[], Awaitable[None]]
"""Stops Ozzie before the lock is released; never raises."""


class Leadership:
    """Makes this server own `home`, or attaches it to the owner and takes over when that goes, until `stop`.

    `root` is this server's own folder; `server` is how others see it; `unfit` is why it can't own a home itself.
    """

    def __init__(
        self,
        home: Home,
        runtime_dir: Path,
        root: Path,
        state: GatewayState,
        server: AttachedServer,
        *,
        begin: Begin,
        end: End,
        reporter: Reporter,
        unfit: OzzieError | None = None,
    ) -> None:
        self.home = home
        self._runtime_dir = runtime_dir
        self._root = root
        self._state = state
        self._begin = begin
        self._end = end
        self._reporter = reporter
        self._server = server
        self._unfit = unfit
        self._lock = OwnerLock(home.root)
        self._attachment = Attachment(home.root, server)
        self._failed = unfit is not None
        self._unannounced = ""
        self._waiting: asyncio.Task[None] | None = None
        self._giving_back: asyncio.Task[None] | None = None
        self._stopped = False

    async def start(self) -> None:
        """Own the home or attach. If neither works, report why and keep trying, unless `state.on_failure` ends the
        server. Do nothing after `stop`."""
        if self._stopped:
            return
        self._waiting = first = asyncio.create_task(self._try(), name="ozzie start")
        await asyncio.wait({first})
        if self._stopped:  # the server stopped meanwhile
            return
        first.result()
        if self._state.failure is not None:
            self._state.on_failure(self._state.failure)
        # If the home was lost again already, `replaced` waits for it; `stop` knows only one waiting task.
        if self._waiting is first and self._state.ozzie is None and not self._state.temporary:
            self._waiting = asyncio.create_task(self._wait_for_the_home(), name="ozzie leadership")

    def replaced(self, error: OzzieError) -> None:
        """React to another gateway that took over the log although this server holds the lock, or held it until its
        file was removed: release the home and attach to that gateway."""
        if self._stopped:
            return
        self._reporter.warn(f"{error} This server lets go of {self.home.root}.")
        self._waiting = asyncio.create_task(self._leave_the_home(), name="ozzie leadership")

    async def stop(self) -> None:
        """Release everything; safe to call again. The owner that this server is attached to keeps running."""
        self._stopped = True  # from now on nothing starts
        if self._waiting is not None:
            self._waiting.cancel()
            await asyncio.wait({self._waiting})
        self._attachment.leave()
        # Clients reconnect elsewhere and wait there until the home has another owner.
        self._state.stop()
        await self._give_back()

    async def _leave_the_home(self) -> None:
        self._state.stop()
        await self._give_back()
        await self._try()
        if self._state.failure is not None:
            self._state.on_failure(self._state.failure)
        if not self._state.temporary:
            await self._wait_for_the_home()

    async def _wait_for_the_home(self) -> None:
        pauses = itertools.chain(RETRY_S, itertools.repeat(RETRY_S[-1]))
        # `stop` cancels this task, but a start that is cut off may fail with an error of its own instead.
        while self._state.ozzie is None and not self._stopped:
            if self._state.relay is not None:
                await asyncio.sleep(POLL_S)
            else:
                await self._pause(next(pauses))
            await self._try()

    async def _pause(self, seconds: float) -> None:
        """Wait that long, or until another server has started."""
        for _ in range(round(seconds / POLL_S)):
            await asyncio.sleep(POLL_S)
            if find_owner(self._runtime_dir, self.home.root) is not None:
                return

    async def _try(self) -> None:
        try:
            if self._state.relay is None:
                self.home.create()
            self._acquire()
            ozzie = await self._begin_or_give_back()
        except NotOwner as error:
            self._attach(error)
        except OzzieError as error:
            self._fail(error)
        except Exception as error:
            log.exception("Ozzie could not be started")
            self._fail(Unavailable(f"Ozzie could not be started: {error}.", code="gateway.start"))
        else:
            if self._stopped:  # it finished before it was cancelled; `stop` waits for this and ends it
                return
            self._attachment.leave()
            self._failed = False
            took_over = self._state.relay is not None
            self._state.own(ozzie)
            at = f" at {self._server.url}" if self._server.headless else ""
            then = "The server that this one was attached to is gone: " if took_over else ""
            self._reporter.say(f"{then}Ozzie is ready{at}; its folder is {self.home.root}.")

    def _acquire(self) -> None:
        """Raises NotOwner, or Unavailable."""
        if self._unfit is None:
            self._lock.acquire()
        elif (owner := owner_pid(self.home.root)) is None:
            raise self._unfit
        else:
            raise NotOwner(self.home.root, str(owner))

    async def _begin_or_give_back(self) -> Services:
        try:
            return await self._begin()
        except BaseException:
            await self._give_back()
            raise

    async def _give_back(self) -> None:
        """Stop Ozzie and release the lock. A cancelled caller still waits for the end: half a stop would leave
        processes and open files, and a second stop beside it would release the lock while Ozzie still runs."""
        if self._giving_back is None or self._giving_back.done():
            self._giving_back = asyncio.create_task(self._end_and_release(), name="ozzie end")
        giving_back = self._giving_back
        try:
            await asyncio.shield(giving_back)
        except asyncio.CancelledError:
            await asyncio.wait({giving_back})
            raise

    async def _end_and_release(self) -> None:
        try:
            await self._end()
        finally:
            self._lock.release()

    def _attach(self, error: NotOwner) -> None:
        if self._state.temporary:  # its starter goes on with that owner
            self._fail(error)
            return
        if self._state.relay is None:
            self._state.attach(Relay(self.home.root, self._runtime_dir, self._root))
            then = "" if self._unfit else ", and takes over when that one goes"
            this = "gateway" if self._server.headless else "server"
            self._reporter.say(f"This {this} is attached to the server of process {error.pid}{then}.")
        if not self._failed:
            self._announce()

    def _announce(self) -> None:
        """Announce this server as a successor: kernels wait for it, and a temporary owner gives way to it. A server
        that failed to start once is not announced, or the two would alternate forever."""
        try:
            self._attachment.enter()
        except OzzieError as error:
            if str(error) != self._unannounced:
                self._reporter.warn(f"{error} Others will not know that this server is attached.")
            self._unannounced = str(error)

    def _fail(self, error: OzzieError) -> None:
        if self._stopped:
            return
        self._failed = True
        self._attachment.leave()
        if str(self._state.failure) != str(error):
            self._reporter.failed(error)
        self._state.fail(error)
