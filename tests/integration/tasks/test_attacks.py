"""Whatever a model was talked into: nothing is had without a person's yes (the table of docs/attacks.md)."""

from pathlib import Path

import pytest

from ozzie_server_ext.web.reach import ErrandWeb
from tests.attacks import ATTACKS
from tests.attacks.attack import Attack
from tests.attacks.playing import play

pytestmark = pytest.mark.timeout(180)

LEAST = 80


def test_there_are_many_and_each_has_a_name() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= LEAST


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
async def test_nothing_is_had_without_a_yes(attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))

    def way(web: ErrandWeb) -> None:
        monkeypatch.setattr("ozzie_server_ext.app.ErrandWeb", lambda: web)

    played = await play(attack, tmp_path, way)

    assert played.had == ()
    assert played.ends == attack.ends, f"{played.rule}: {played.said}"
