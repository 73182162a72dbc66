"""Plays the tasks of `outside`: as others are played, with a small web on loopback in the place of the large one."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from ozzie_server_ext.web.reach import DuckDuckGo, ErrandWeb
from tests.fakes.web_server import FakeWeb
from tests.workloads.internet import fill
from tests.workloads.playing import Played, play_all
from tests.workloads.workload import Workload


def play_outside(workloads: Iterable[Workload], folder: Path) -> list[Played]:
    """Each in a home and a project of its own, below `folder`."""
    with FakeWeb() as web, pytest.MonkeyPatch.context() as patch:
        fill(web)
        engine, allowance = DuckDuckGo(web.url("/html/")), web.allowance()
        patch.setattr(
            "ozzie_server_ext.tasks.projects.ErrandWeb", lambda: ErrandWeb(engine=engine, allowance=allowance)
        )
        site = web.url("")
        placed = [replace(each, message=each.message.replace("{site}", site), site=site) for each in workloads]
        return play_all(placed, folder)
