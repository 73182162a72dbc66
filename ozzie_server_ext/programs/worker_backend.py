"""litellm in a process of ours: what it must not do, and how it is loaded without holding anything up."""

import asyncio
import logging
import os
import sys
import threading
import time
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType


def prepare_process() -> None:
    """Has to come before litellm is loaded."""
    # Nothing that a library says may reach the log: messages of providers repeat keys and conversations.
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    threading.excepthook = lambda args: note(f"A thread failed: {args.exc_type.__name__}.")
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    # In its development mode litellm loads a .env file from the folders above it.
    os.environ["LITELLM_MODE"] = "PRODUCTION"
    # It breaks an answer off after 100 equal pieces; a line of a table has as many. The turn bounds an answer's length.
    os.environ["REPEATED_STREAMING_CHUNK_LIMIT"] = str(sys.maxsize)


async def load_backend() -> "ModuleType":
    """The module `worker_litellm`, warmed up. It is loaded in a thread, so that the loop goes on; that takes seconds.

    Raises ImportError.
    """
    loop = asyncio.get_running_loop()
    loaded: asyncio.Future[ModuleType] = loop.create_future()
    # A daemon: the process may have to end while it still loads.
    threading.Thread(target=_load, args=(loop, loaded), name="loading", daemon=True).start()
    backend = await loaded
    await backend.warm_up()
    return backend


def note(line: str) -> None:
    """One line for the process's own log."""
    sys.stderr.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    sys.stderr.flush()


def _load(loop: asyncio.AbstractEventLoop, loaded: "asyncio.Future[ModuleType]") -> None:
    try:
        from ozzie_server_ext.programs import worker_litellm

        worker_litellm.prepare()
    except ImportError as error:
        loop.call_soon_threadsafe(loaded.set_exception, error)
    except Exception as error:  # of another version than ours, it may lack what is needed of it
        failed = ImportError(f"litellm can't be used ({type(error).__name__})")
        loop.call_soon_threadsafe(loaded.set_exception, failed)
    else:
        loop.call_soon_threadsafe(loaded.set_result, worker_litellm)
