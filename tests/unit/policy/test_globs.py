"""Patterns: a star is any run of characters, two are any number of components; nothing makes them slow."""

import re
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.domain.paths import MAX_PATH_CHARACTERS, MAX_PATH_COMPONENTS, path_parts
from ozzie_server_ext.policy import conditions
from ozzie_server_ext.policy.conditions import PathPatterns
from ozzie_server_ext.policy.decision import Action, Caller, Paths
from ozzie_server_ext.policy.patterns import Glob, SequenceGlob
from tests.unit.policy.rig import READ

PIECES = st.text(alphabet="ab*", max_size=8)
WORDS = st.text(alphabet="ab", max_size=10)
RUNS = st.lists(st.sampled_from(["a", "b", "*", "a*", "**"]), max_size=6)
COMPONENTS = st.lists(st.sampled_from(["a", "b", "ab", "c"]), max_size=7)


@given(PIECES, WORDS)
def test_a_pattern_over_a_text_matches_as_its_regular_expression_does(pattern: str, text: str) -> None:
    reference = re.compile("[ab]*".join(map(re.escape, pattern.split("*"))))

    assert Glob.of(pattern).matches(text) == bool(reference.fullmatch(text))


@given(RUNS, COMPONENTS)
def test_a_pattern_over_components_matches_as_its_regular_expression_does(
    patterns: list[str], texts: list[str]
) -> None:
    parts = {"**": "(?:/[^/]+)*", "*": "/[^/]*", "a*": "/a[^/]*"}
    reference = re.compile("".join(parts.get(pattern, f"/{pattern}") for pattern in patterns))

    assert SequenceGlob.of(patterns).matches(texts) == bool(reference.fullmatch("".join(f"/{text}" for text in texts)))


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("notes/**", "notes/a/b.md", True),
        ("notes/**", "notes", True),
        ("notes/*", "notes/a/b.md", False),
        ("notes/*.md", "notes/a.md", True),
        ("notes/*.md", "notes/.md", True),
        ("**/*.csv", "data/2026/sales.csv", True),
        ("**/*.csv", "sales.csv", True),
        ("a/**/z", "a/z", True),
        ("a/**/m/**/z", "a/b/m/c/z", True),
        ("a/**/m/**/z", "a/b/c/z", False),
        ("notes", "notes2", False),
    ],
)
def test_two_stars_cross_folders_and_one_does_not(pattern: str, path: str, matches: bool) -> None:
    assert SequenceGlob.of(pattern.split("/")).matches(path.split("/")) is matches


PATTERN = st.lists(st.sampled_from(["a", "b", "*", "a*", "*b", "**"]), min_size=1, max_size=4)


@given(st.lists(PATTERN, min_size=1, max_size=5), st.lists(COMPONENTS, min_size=1, max_size=6))
def test_patterns_for_paths_together_match_as_each_does_by_itself(
    patterns: list[list[str]], texts: list[list[str]]
) -> None:
    globs = [SequenceGlob.of(pattern) for pattern in patterns]
    fits = [any(glob.matches(parts) for glob in globs) for parts in texts]

    known, paths = PathPatterns.of(map("/".join, patterns), sure=True), Paths.of(map(tuple, texts))

    assert (known.all(paths), known.any(paths)) == (all(fits), any(fits))


@pytest.mark.parametrize(
    ("patterns", "paths", "allows", "denies"),
    [
        (["Notes/**"], ["notes/a"], False, True),
        (["**/GEHEIM*"], ["a/geheim.txt"], False, True),
        (["caf\u00e9/**"], ["cafe\u0301/a"], False, True),
        (["notes/**"], ["notes/a", "../a"], False, True),
        (["notes/**"], ["../a"], False, True),
        (["notes/**"], ["notes"], True, True),
        (["notes/**"], ["."], False, False),
        (["**"], ["."], True, True),
        (["notes/**"], [], False, False),
    ],
)
def test_a_rule_that_allows_is_certain_and_one_that_denies_misses_nothing(
    patterns: list[str], paths: list[str], allows: bool, denies: bool
) -> None:
    call = Action(meta=READ, caller=Caller(), paths=tuple(map(path_parts, paths)))

    assert (conditions.paths(patterns, sure=True)(call) == "") is allows
    assert (conditions.paths(patterns, sure=False)(call) == "") is denies


@given(st.text(alphabet="ab./~ \\\0", max_size=12))
def test_a_path_is_split_as_the_system_splits_it(text: str) -> None:
    pure = PurePosixPath(text.strip() or ".")
    leads_out = pure.is_absolute() or str(pure).startswith("~") or ".." in pure.parts or "\0" in text

    assert path_parts(text) == (None if leads_out else tuple(part for part in pure.parts if part != "."))


def test_a_path_that_is_longer_than_any_is_none() -> None:
    assert path_parts(" " * MAX_PATH_CHARACTERS + "a") is None
    assert path_parts("a/" * MAX_PATH_COMPONENTS) == ("a",) * MAX_PATH_COMPONENTS
    assert path_parts("a/" * (MAX_PATH_COMPONENTS + 1)) is None


class Counted(str):
    """A text that counts how often it is searched."""

    searches = 0

    def find(self, *where: Any) -> int:
        Counted.searches += 1
        return super().find(*where)


def test_a_text_is_searched_once_for_each_piece_of_a_pattern_however_it_is_made() -> None:
    text = Counted("a" * 100_000)
    Counted.searches = 0

    assert not Glob.of("*a" * 100 + "*b*").matches(text)

    assert Counted.searches == 101
