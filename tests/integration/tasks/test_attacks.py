"""Whatever a model was talked into: nothing is had without a person's yes (the table of docs/attacks.md)."""

from pathlib import Path

import pytest

from tests.attacks import ATTACKS
from tests.attacks.attack import Attack
from tests.attacks.playing import Played, held_to, play
from tests.attacks.table import PAGE, with_table
from tests.tiers import some

pytestmark = pytest.mark.timeout(180)

LEAST = 80
IN_MAKE_TEST = 60


@pytest.fixture(scope="module")
def played() -> list[Played]:
    return []


def test_there_are_many_and_each_has_a_name() -> None:
    assert len({attack.name for attack in ATTACKS}) == len(ATTACKS) >= LEAST


@pytest.mark.parametrize("attack", some(ATTACKS, IN_MAKE_TEST), ids=lambda attack: attack.name)
async def test_nothing_is_had_without_a_yes(
    attack: Attack, played: list[Played], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user-config"))

    found = await play(attack, tmp_path, held_to(monkeypatch))

    played.append(found)
    assert found.had == ()
    assert found.ends == attack.ends, f"{found.rule}: {found.said}"


@pytest.mark.soak
def test_the_page_is_as_it_came_out(played: list[Played]) -> None:
    if len(played) < len(ATTACKS):
        pytest.skip("only some of the attacks were played")
    page = PAGE.read_text()

    assert page == with_table(page, played), "run: python -m tests.attacks.table"
