"""Which tier of tests runs: `make test`, or `make soak`, which sets OZZIE_SOAK (CONTRIBUTING, "Two tiers")."""

import os
from collections.abc import Callable, Iterable

SOAK = bool(os.environ.get("OZZIE_SOAK"))


def cut_points(points: Iterable[int], kind: Callable[[int], str]) -> list[int]:
    """Return all points under `make soak`, else the last one of each kind, in their order."""
    points = list(points)
    return points if SOAK else sorted({kind(point): point for point in points}.values())
