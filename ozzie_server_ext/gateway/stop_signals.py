"""Makes a Jupyter Server end when it is told to: at any moment, and with requests in progress."""

import asyncio
import signal
import threading
from types import FrameType
from typing import Any

_STOPS = (signal.SIGTERM, signal.SIGINT)


class StopSignals:
    """Runs Jupyter's own handler of a stop signal from the loop.

    That handler logs before it stops the server. If the signal interrupts a write to the log, the second write raises
    within the first, logging swallows that, and the server goes on as if nothing had happened.

    SIGINT's question on a terminal is not a stop yet and stays as it is; the stop that follows it passes here too.
    """

    def __init__(self, serverapp: Any) -> None:
        self._serverapp = serverapp
        self._loop: asyncio.AbstractEventLoop = serverapp.io_loop.asyncio_loop
        self._former = serverapp._signal_stop

    def install(self) -> None:
        """Take the place of the handler, both where Jupyter will look it up and where it is in force already."""
        self._serverapp._signal_stop = self._schedule
        self._replace(self._former, self._schedule)

    def remove(self) -> None:
        """Put the former handler back; called again, do nothing."""
        vars(self._serverapp).pop("_signal_stop", None)
        self._replace(self._schedule, self._former)

    def _schedule(self, number: int, frame: FrameType | None) -> None:
        # Not by tornado's add_callback_from_signal, which begins with a warning: it may be written to the log as well.
        self._loop.call_soon_threadsafe(self._former, number, None)

    @staticmethod
    def _replace(handler: Any, by: Any) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # only that one may, and only there does Jupyter
        for number in _STOPS:
            if signal.getsignal(number) == handler:
                signal.signal(number, by)


def release_idle_threads_at_exit() -> None:
    """End AnyIO's idle worker threads once the main thread ends, so that the process can exit.

    AnyIO ends a worker thread when the task that first used it is done. Jupyter's loop stops without waiting for its
    requests; the thread of an unfinished one then waits for work forever, and Python waits for the thread.
    """
    threading.Thread(target=_release_idle_threads, name="ozzie exit", daemon=True).start()


def _release_idle_threads() -> None:
    threading.main_thread().join()  # returns when the interpreter begins to exit
    for thread in threading.enumerate():
        stop = getattr(thread, "stop", None)
        if thread.name == "AnyIO worker thread" and callable(stop):
            stop()
