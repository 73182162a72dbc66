"""The page that explains how Ozzie works lists the packages in the order of their imports."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_package_stands_below_those_that_it_imports() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = [re.findall(r"\w+", layer) for layer in reversed(contracts[0]["layers"])]
    section = (ROOT / "docs" / "how-it-works.md").read_text().split("## X owns Y, never Z")[1].split("\n## ")[0]
    listed = [name.removesuffix(".py") for name in re.findall(r"^- `([\w.]+)` owns", section, re.MULTILINE)]
    of_layer = {name: height for height, layer in enumerate(layers) for name in layer}

    packages = [name for name in listed if name in of_layer]
    assert sorted(packages) == sorted(of_layer)
    assert packages == sorted(packages, key=lambda name: of_layer[name])
