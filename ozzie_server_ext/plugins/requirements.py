"""What plugins require of Ozzie and of one another (S4, section 9.6: the capability graph)."""

import re
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version

from ozzie_server_ext.plugins.manifest import Manifest

_REQUIRED = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)\s*(?P<versions>.*)", re.DOTALL)


def unmet(manifests: Mapping[str, Manifest]) -> dict[str, str]:
    """Return which of these plugins lack something that they require, and what, by their keys. A plugin provides its
    name and what it says that it `provides`, as long as it lacks nothing itself; plugins that require one another are
    no problem."""
    left = dict(manifests)
    lacking: dict[str, str] = {}
    while found := _lacking(left):
        lacking |= found
        left = {key: manifest for key, manifest in left.items() if key not in found}
    return lacking


def _lacking(manifests: Mapping[str, Manifest]) -> dict[str, str]:
    there: dict[str, list[str]] = {name: [number] for name, number in _of_ozzie().items()}
    for manifest in manifests.values():
        for name in (manifest.name, *manifest.provides):
            there.setdefault(name, []).append(manifest.version)
    return {
        key: f"It requires {missing}, which is not there."
        for key, manifest in manifests.items()
        if (missing := next((each for each in manifest.requires if not _is_there(each, there)), None)) is not None
    }


def _of_ozzie() -> dict[str, str]:
    """Return what Ozzie itself provides, with versions."""
    found: dict[str, str] = {}
    for name, package in (("core", "jupyter-ozzie"), ("provider.litellm", "litellm")):
        with suppress(PackageNotFoundError):
            found[name] = version(package)
    return found


def _is_there(required: str, there: Mapping[str, list[str]]) -> bool:
    parts = _REQUIRED.fullmatch(required)
    if parts is None:
        return False
    versions = there.get(parts["name"], [])
    return any(_fits(each, parts["versions"]) for each in versions) if parts["versions"] else bool(versions)


def _fits(number: str, wanted: str) -> bool:
    # Loaded here: most people have no plugin that requires a version.
    from packaging.specifiers import InvalidSpecifier, SpecifierSet
    from packaging.version import InvalidVersion, Version

    try:
        return Version(number) in SpecifierSet(wanted, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return False
