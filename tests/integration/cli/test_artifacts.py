"""`ozzie artifacts`: what was made is found, shown and saved."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from tests.acceptance.test_record import ozzie
from tests.integration.made_artifacts import MADE, TASK, make_artifacts
from tests.rig import Gateway, new_home, start_gateway


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, list[str]]]:
    home = new_home(tmp_path_factory.mktemp("artifacts"))
    artifact_ids = asyncio.run(make_artifacts(home))
    with start_gateway(home) as gateway:
        yield gateway, artifact_ids


def test_they_are_listed_with_kind_size_and_version(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made

    shown = ozzie(gateway.home, "artifacts", "list").stdout.splitlines()
    found = json.loads(ozzie(gateway.home, "artifacts", "list", "--kind", "log", "--task", TASK, "--json").stdout)

    assert [line.split()[0] for line in shown] == ids[::-1]
    assert shown[0].split() == [ids[5], "log", "3", "bytes", "v2", "out.txt"]
    assert max(map(len, shown)) <= 80
    assert [item["artifact_id"] for item in found] == [ids[5], ids[0]]


def test_one_is_shown_with_where_it_came_from(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made

    shown = ozzie(gateway.home, "artifacts", "show", ids[0])

    assert shown.returncode == 0
    assert "log, text/plain, 8 bytes" in shown.stdout
    assert f"1, the next one is {ids[5]}" in shown.stdout
    assert TASK in shown.stdout
    assert json.loads(ozzie(gateway.home, "artifacts", "show", ids[0], "--json").stdout)["version"] == 1


def test_its_content_is_printed_or_written_into_a_new_file(made: tuple[Gateway, list[str]]) -> None:
    gateway, ids = made
    target = gateway.home.project / "picture.png"

    printed = ozzie(gateway.home, "artifacts", "get", ids[0])
    written = ozzie(gateway.home, "artifacts", "get", ids[4], "--output", "picture.png")
    again = ozzie(gateway.home, "artifacts", "get", ids[0], "--output", "picture.png", "--json")

    assert printed.stdout == "größe\n"
    assert written.stdout == f"8 bytes written to {target}.\n"
    assert target.read_bytes() == MADE[4][0], "it is not written over"
    assert again.returncode == 1
    assert "is there already" in again.stderr


@pytest.mark.parametrize("name", ["nonesuch", "01M800000000000000000000ZZ", "../tasks"])
def test_one_that_there_is_not_is_told(made: tuple[Gateway, list[str]], name: str) -> None:
    for verb in ("show", "get"):
        refused = ozzie(made[0].home, "artifacts", verb, name)

        assert refused.returncode == 1
        assert f"There is no artifact {name}" in refused.stderr
