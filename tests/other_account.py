"""What a test gives to another account. The checkout and pytest's folders may lie where that account can't go, as below
`/root`; so it gets a copy of the packages, and a folder that every account can read."""

import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class OtherAccount:
    """An account without rights, and the folder from which it can import Ozzie: its PYTHONPATH."""

    uid: int
    gid: int
    packages: Path


@pytest.fixture(scope="session")
def nobody() -> Iterator[OtherAccount]:
    """The account of that name. Without root, the tests run as an account without rights already."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another account")
    account = pwd.getpwnam("nobody")
    with TemporaryDirectory(prefix="ozzie-packages-", dir=_common()) as folder:
        packages = Path(folder)
        for source in (ROOT / "ozzie_server_ext", ROOT / "ozzie_kernel", _metadata()):
            shutil.copytree(source, packages / source.name, ignore=shutil.ignore_patterns("__pycache__"))
        for path in (packages, *packages.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        yield OtherAccount(account.pw_uid, account.pw_gid, packages)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder of this test's own that every account can read."""
    with TemporaryDirectory(prefix="ozzie-open-", dir=_common()) as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


def _common() -> Path:
    """A folder for temporary files to which every account has a way."""
    for folder in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp")):
        if folder.is_dir() and all(path.stat().st_mode & stat.S_IXOTH for path in (folder, *folder.parents)):
            return folder
    pytest.skip("no folder for temporary files can be reached by other accounts")


def _metadata() -> Path:
    """The folder that names the version of what is installed."""
    found = distribution("jupyter-ozzie")
    named = next(path for path in found.files or () if path.name == "METADATA")
    return Path(str(found.locate_file(named))).parent
