"""Loading litellm: whatever is wrong with it, who waits is told."""

from types import ModuleType

import pytest

from ozzie_server_ext import programs
from ozzie_server_ext.programs.worker_backend import load_backend


@pytest.mark.parametrize("error", [AttributeError("a name of theirs"), ImportError("a name of theirs"), KeyError("x")])
async def test_a_litellm_that_is_not_as_expected_is_told_and_not_waited_for(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare() -> None:
        raise error

    backend = ModuleType("worker_litellm")
    backend.prepare = prepare  # type: ignore[attr-defined]
    monkeypatch.setattr(programs, "worker_litellm", backend, raising=False)

    with pytest.raises(ImportError):
        await load_backend()
