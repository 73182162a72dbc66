"""Which tier of tests runs: `make test`, or `make soak`, which sets OZZIE_SOAK (CONTRIBUTING, "Two tiers")."""

import os
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import pytest

SOAK = bool(os.environ.get("OZZIE_SOAK"))


def cut_points(points: Iterable[int], kind: Callable[[int], str]) -> list[int]:
    """Return all points under `make soak`, else the last one of each kind, in their order."""
    points = list(points)
    return points if SOAK else sorted({kind(point): point for point in points}.values())


def rows(all_of_them: Iterable[str], *in_make_test: str) -> list[Any]:
    """Return parameters of a test, of which `make test` has only some: the same is shown by each, in another way."""
    soak = pytest.mark.soak
    return [each if each in in_make_test else pytest.param(each, marks=soak) for each in all_of_them]


def some(all_of_them: Sequence[Any], count: int) -> list[Any]:
    """Return parameters of a test, of which `make test` has so many, always the same ones, drawn by chance."""
    drawn = set(Random(7).sample(range(len(all_of_them)), min(count, len(all_of_them))))
    return [
        each
        if index in drawn
        else pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=pytest.mark.soak)
        for index, each in enumerate(all_of_them)
    ]
