"""The folder of all of Ozzie's data, and of the shipped files."""

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from ozzie_server_ext.domain.disk import hint_for
from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.paths import home_folder

STANDING = "standing.jsonc"
"""The name of the file of the rules that a person made on cards."""


class _Below:
    """A path below the home folder, as an attribute."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __get__(self, home: "Home", owner: object = None) -> Path:
        return home.root / self._path


class Home(msgspec.Struct, frozen=True):
    """`$OZZIE_PATH`, or `~/.ozzie`. Folders are 0700, files 0600."""

    root: Path

    config_file = _Below("config.jsonc")
    env_file = _Below(".env")
    soul_file = _Below("SOUL.md")
    policy_file = _Below("policy.jsonc")
    standing_file = _Below(STANDING)
    mcp_file = _Below("mcp.json")
    servers_file = _Below("servers.json")
    client_tokens_file = _Below("mcp-clients.json")
    server_packages = _Below("servers")
    plugins = _Below("plugins")
    plugins_file = _Below("plugins.json")
    plugin_data = _Below("data/plugins")
    trusted_file = _Below("trusted.json")
    database = _Below("data/ozzie.db")
    blobs = _Below("data/blobs")
    anchor = _Below("data/anchor.json")
    last_check = _Below("data/check.json")
    open_notebooks = _Below("run/open-notebooks.json")
    secrets = _Below("secrets")
    app_logs = _Below("logs/app")

    def expect_apart(self, project: Path) -> None:
        """Raise Unavailable if tools could reach this folder, or that of Ozzie's keys, through the project: rules for
        the project's files would then cover Ozzie's own rules, skills, records and keys."""
        rules = "tools could change Ozzie's own rules and read its records"
        _expect_apart(project, self.root, "Ozzie's folder", rules, "OZZIE_PATH")
        _expect_apart(project, key_folder(), "The folder of Ozzie's keys", "tools could read them", "XDG_CONFIG_HOME")

    def create(self) -> None:
        """Create missing folders, and close the others to everybody else.

        Raises Unavailable if a folder can't be made or is not ours.
        """
        try:
            for name in ("", "data", "data/blobs", "logs", "logs/app", "run", "sessions", "skills", "plugins"):
                folder = self.root / name
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if folder.stat().st_mode & 0o077:
                    folder.chmod(0o700)
        except OSError as error:
            raise Unavailable(
                f"Ozzie's folder {self.root} can't be used: {error.strerror}.",
                hint=hint_for(Path(error.filename or self.root), self.root, error=error),
                code="home.unusable",
            ) from error


def _expect_apart(project: Path, own: Path, what: str, danger: str, variable: str) -> None:
    """Raise Unavailable unless the folders are apart. A hidden folder at the project's top is out of reach, such as
    `~/.ozzie` in a project that is the user's home folder."""
    own, root = own.resolve(), project.resolve()
    inside = own.relative_to(root) if own.is_relative_to(root) else None
    if root.is_relative_to(own) or (inside is not None and not inside.parts[0].startswith(".")):
        raise Unavailable(
            f"{what} {own} and the project {root} overlap, so {danger}.",
            hint=f"Set {variable} to a folder outside the project, or to a hidden folder at its top.",
            code="home.in_project",
        )


def find_home(env: Mapping[str, str] = os.environ) -> Home:
    """Return the home that the environment names: `OZZIE_PATH`, else `~/.ozzie`."""
    return Home(home_folder(env, Path.home))


def key_folder(env: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of Ozzie's own keys. It is in the user's configuration folder, not in `OZZIE_PATH`, so that a
    copy or a forged `OZZIE_PATH` does not include them.

    Raises Unavailable for an account without a home folder.
    """
    base = env.get("XDG_CONFIG_HOME", "")
    try:
        folder = Path(base) if base.startswith("/") else Path.home() / ".config"
    except RuntimeError:
        raise Unavailable(
            "This account has no home folder for Ozzie's keys.", hint="Set HOME, or XDG_CONFIG_HOME.", code="home.none"
        ) from None
    return folder / "ozzie"


def anchor_key_file(env: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the key that signs the log's anchor. Raises as `key_folder`."""
    return key_folder(env) / "anchor.key"


def shipped(name: str) -> Path:
    """Return the folder of shipped `skills`, `plugins` or `notebooks`: in the wheel's package data, else in the
    checkout.

    Raises Unavailable if both are missing.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "shipped" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise Unavailable(
        f"The shipped {name} are missing.", hint="Install jupyter-ozzie again.", code="install.incomplete"
    )
