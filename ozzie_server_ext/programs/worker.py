"""`ozzie worker`: serves the configured model to other programs, in the NDJSON worker protocol."""

import argparse
import asyncio
import os
import signal
import sys
from functools import partial
from pathlib import Path

from ozzie_server_ext.programs.broken import can_not_be_loaded

if __name__ == "__main__":
    # While modules load, an interrupt has nothing to clean up: end the program silently.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

try:
    from ozzie_server_ext.config.home import find_home, key_folder
    from ozzie_server_ext.config.loader import Config, load
    from ozzie_server_ext.domain.errors import InputError, OzzieError, Unavailable
    from ozzie_server_ext.models.credentials import VaultSecrets
    from ozzie_server_ext.models.driver import ModelChoice, Models, answers_in_worker
    from ozzie_server_ext.models.offline import OfflineDriver
    from ozzie_server_ext.models.registry import OFFLINE, WORKER, ModelRegistry
    from ozzie_server_ext.observability.clock import SystemClock, UlidSource
    from ozzie_server_ext.planes.child import child_environment
    from ozzie_server_ext.programs.worker_backend import LitellmDriver, load_backend, prepare_process
    from ozzie_server_ext.programs.worker_server import WorkerServer, listening
    from ozzie_server_ext.protocol.worker import DEFAULT_SOCKET
    from ozzie_server_ext.vault.errors import VaultLocked
    from ozzie_server_ext.vault.scope import ProjectReader
    from ozzie_server_ext.vault.terminal import ask_passphrase
    from ozzie_server_ext.vault.vault import Vault
except Exception as error:  # packages of other versions raise all kinds
    sys.exit(can_not_be_loaded("ozzie worker", error))

INTERRUPTED = 130


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="ozzie worker", description="Serve a model to other programs, in the worker protocol, at a Unix socket."
    )
    parser.add_argument("--socket", default=DEFAULT_SOCKET, metavar="PATH", help=f"default: {DEFAULT_SOCKET}")
    parser.add_argument("--model", default="", metavar="NAME", help="default: models.default of the configuration")
    options = parser.parse_args(argv)
    status = 0
    # From here on a passphrase may be prompted for: an interrupt has to restore the terminal.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        config = _configuration()
        # Copy the environment: most of it is dropped below.
        vault = Vault(find_home().secrets, partial(key_folder, dict(os.environ)), SystemClock())
        secrets = VaultSecrets(vault, ProjectReader.at(Path.cwd()))
        registry = ModelRegistry(config.settings.models, config.env, secrets)
        _open(vault, registry, options.model)
        choice = _choice(registry, options.model)
        _keep_environment()
        asyncio.run(_serve(config, registry, choice, Path(os.path.expanduser(options.socket)).absolute()))
    except OzzieError as error:
        sys.stderr.write("\n".join(part for part in (str(error), error.hint) if part) + "\n")
        status = 1
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.stdout.flush()
    sys.stderr.flush()
    # litellm's threads and exit handlers would delay the exit by seconds, and do nothing we need.
    os._exit(status)


def _configuration() -> Config:
    """Load the settings. Raises OzzieError."""
    try:
        return load(find_home(), project=Path.cwd())
    except RuntimeError:
        raise Unavailable(
            "This account has no home folder.", hint="Set HOME, or OZZIE_PATH.", code="home.none"
        ) from None
    except FileNotFoundError:
        raise Unavailable("This folder no longer exists.", hint="Change to another one.", code="folder.gone") from None


def _open(vault: Vault, registry: ModelRegistry, name: str) -> None:
    """Open the vault if the model's key is in it: a person can be prompted now, but not later.

    Raises OzzieError.
    """
    choice = registry.resolve(name)
    try:
        registry.access(choice)
    except Unavailable as error:
        if error.code == VaultLocked.code:
            vault.unlock(ask_passphrase)


def _choice(registry: ModelRegistry, name: str) -> ModelChoice:
    """Return the model to serve. Raises UnknownModel, Unavailable, InputError."""
    choice = registry.resolve(name)
    if choice.driver == WORKER:
        raise InputError(
            f'"{choice.alias}" is a worker itself.',
            hint="Let the other program use its socket, or name another model: ozzie worker --model NAME",
        )
    registry.access(choice)
    return choice


def _keep_environment() -> None:
    """Keep only the model worker's variables: litellm would find keys in the others, and send them."""
    kept = child_environment(os.environ)
    os.environ.clear()
    os.environ.update(kept)
    prepare_process()


async def _serve(config: Config, registry: ModelRegistry, choice: ModelChoice, path: Path) -> None:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    worker = LitellmDriver(load_backend(), registry.access) if answers_in_worker(choice) else None
    server = WorkerServer(
        Models(offline=OfflineDriver(), worker=worker),
        choice,
        UlidSource(SystemClock()),
        max_history=config.settings.sessions.max_history,
    )
    with listening(path) as end:
        accepting = await asyncio.start_unix_server(server.accept, sock=end)
        sys.stdout.write(f"{_name_of(choice)} answers at {path}. Stop with Ctrl-C.\n")
        sys.stdout.flush()
        await stopped.wait()
        accepting.close()
        await server.stop()


def _name_of(choice: ModelChoice) -> str:
    if choice.driver == OFFLINE.driver:
        return "The offline script, which is not a language model,"
    return f'"{choice.alias}" ({choice.driver}/{choice.model})'


if __name__ == "__main__":
    main()
