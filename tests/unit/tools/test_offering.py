"""Which tools a turn is offered: all of few, of many what fits, and never fewer than before."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ozzie_server_ext.config.settings import ALWAYS_OFFERED, ToolsSettings
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.skills.as_tool import SkillTool
from ozzie_server_ext.skills.library import read
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.index import ToolIndex
from ozzie_server_ext.tools.offering import FIND_ID, OFFERED_AT_MOST, Offers, SoFar, offered
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.tools.many import many_tools

FEW = ToolIndex(ToolRegistry(builtin_tools()))
MANY = ToolIndex(ToolRegistry([*builtin_tools(), *many_tools()]))
USUAL = Offers(always=ALWAYS_OFFERED)
REFUND = SoFar(message="Please assign the refund to Ana.")


def ids(found: tuple[Tool, ...]) -> list[str]:
    return [tool.meta.tool_id for tool in found]


def names(found: tuple[Tool, ...]) -> set[str]:
    return {tool.meta.name for tool in found}


OFFERABLE = [
    each.meta.tool_id for each in FEW.registry.all() if each.meta.tool_id != FIND_ID and each.meta.is_for_models
]
"""Where nothing is left out: neither what finds the others, nor what only steps of skills call."""


def test_few_tools_are_all_offered_in_their_order_and_none_to_find_others() -> None:
    found = ids(offered(FEW, USUAL, REFUND))

    assert found == OFFERABLE
    assert len(found) == sum(each.meta.is_for_models for each in builtin_tools()) - 1


def test_as_many_as_may_be_offered_are_few_and_one_more_is_many() -> None:
    count = len(OFFERABLE)

    assert FIND_ID not in ids(offered(FEW, Offers(at_most=count), REFUND))
    assert FIND_ID in ids(offered(FEW, Offers(at_most=count - 1), REFUND))


def test_of_many_tools_those_are_offered_that_fit_the_message() -> None:
    found = offered(MANY, USUAL, REFUND)

    assert {"assign_refund", "create_refund", "close_refund", "list_refund"} <= names(found)
    assert "create_ticket" not in names(found)
    assert len(found) <= OFFERED_AT_MOST


def test_of_many_tools_some_are_always_offered() -> None:
    for message in ("", "Please assign the refund to Ana.", "?"):
        assert set(ALWAYS_OFFERED) | {"find_tools"} <= names(offered(MANY, USUAL, SoFar(message=message))), message


def test_a_message_that_fits_nothing_is_offered_no_more_than_that() -> None:
    assert names(offered(MANY, USUAL, SoFar(message="¡Qué!"))) == {*ALWAYS_OFFERED, "find_tools"}


def test_what_the_notebooks_that_come_with_ozzie_use_is_always_offered() -> None:
    """The script that answers them asks for these."""
    asked = {"calculator", "list_files", "read_file", "write_file", "shell", "apply_changes", "list_kernels"}

    assert asked | {"read_notebook", "insert_cell", "edit_cell", "undo_cell_edit", "ask_user"} <= set(ALWAYS_OFFERED)
    assert all(FEW.registry.find(name) for name in ALWAYS_OFFERED)
    assert ToolsSettings().max_offered == OFFERED_AT_MOST > len(ALWAYS_OFFERED)


@pytest.mark.parametrize(
    "message",
    ["Use create_telescope.", "call telescope.create, please", "`create_telescope`: do it", "create_telescope"],
)
def test_a_tool_that_the_user_names_is_offered(message: str) -> None:
    crowded = Offers(at_most=4, always=("calculator", "read_file"))

    assert names(offered(MANY, crowded, SoFar(message=message))) >= {"create_telescope"}


def test_who_pastes_the_names_of_all_tools_is_not_offered_all() -> None:
    pasted = " ".join(tool.meta.name for tool in MANY.registry.all())

    assert len(offered(MANY, USUAL, SoFar(message=pasted))) == OFFERED_AT_MOST


def test_what_the_turn_before_used_is_offered_to_one_that_says_little() -> None:
    again = SoFar(message="And the same for Ben.", before=("assign_tram", "assign_bakery"))

    assert names(offered(MANY, USUAL, again)) == {*ALWAYS_OFFERED, "find_tools", "assign_tram", "assign_bakery"}


def test_what_the_rules_deny_whatever_the_arguments_is_not_offered() -> None:
    denied = frozenset({"refund.assign", "fs.read", "tool.find"})

    assert not denied & set(ids(offered(FEW, Offers(denied=denied), REFUND)))
    assert not denied & set(ids(offered(MANY, Offers(always=ALWAYS_OFFERED, denied=denied), REFUND)))
    named = SoFar(message="assign_refund", offered=("calc.eval",), used=("assign_refund",), found=("refund.assign",))
    assert ids(offered(MANY, Offers(denied=denied), named)) == ["calc.eval"]


def test_what_is_denied_leaves_its_place_to_others() -> None:
    few = Offers(at_most=3, denied=frozenset({"refund.assign"}))

    assert len(offered(MANY, few, REFUND)) == len(offered(MANY, Offers(at_most=3), REFUND)) == 3


def test_once_a_turn_has_begun_its_tools_stay_whatever_is_said_or_changed() -> None:
    begun = SoFar(message="Something else entirely.", offered=("refund.assign", "calc.eval", "tool.find"))
    strict = Offers(at_most=1, always=("shell",), denied=frozenset({"calc.eval"}))

    assert ids(offered(MANY, strict, begun)) == ["refund.assign", "calc.eval", "tool.find"]


def test_what_was_found_and_what_was_asked_for_stands_behind_the_rest() -> None:
    """So what a provider has cached of the list stays good."""
    later = SoFar(offered=("time.now", "calc.eval"), used=("create_tram", "no_such_tool"), found=("create_bakery",))

    assert ids(offered(MANY, USUAL, later)) == ["time.now", "calc.eval", "bakery.create", "tram.create"]


def test_who_only_guesses_that_others_can_be_found_is_not_offered_that() -> None:
    assert ids(offered(FEW, USUAL, SoFar(offered=("calc.eval",), used=("find_tools",)))) == ["calc.eval"]


def test_a_tool_that_is_gone_is_passed_over() -> None:
    assert ids(offered(FEW, USUAL, SoFar(offered=("gone.tool", "calc.eval")))) == ["calc.eval"]
    assert FIND_ID not in ids(offered(FEW, Offers(always=("gone", "find_tools")), REFUND))


NAMES = [tool.meta.name for tool in MANY.registry.all()]


@given(
    message=st.text(max_size=80) | st.sampled_from(["assign the ticket", "list files", "create_tram"]),
    steps=st.lists(st.tuples(st.sampled_from(NAMES), st.booleans()), max_size=6),
    at_most=st.integers(1, 200),
)
def test_within_a_turn_the_set_only_grows_and_keeps_its_order(
    message: str, steps: list[tuple[str, bool]], at_most: int
) -> None:
    offers = Offers(at_most=at_most, always=("calculator",))
    so_far = SoFar(message=message)
    sets = [ids(offered(MANY, offers, so_far))]
    for name, is_found in steps:
        used, found = (so_far.used, (*so_far.found, name)) if is_found else ((*so_far.used, name), so_far.found)
        so_far = SoFar(message=message, offered=tuple(sets[-1]), used=used, found=found)
        sets.append(ids(offered(MANY, offers, so_far)))

    assert all(after[: len(before)] == before for before, after in itertools.pairwise(sets))
    assert len(set(sets[-1])) == len(sets[-1])


# --- a pinned set ------------------------------------------------------------------------------------------------


def test_a_pinned_set_wins_over_everything() -> None:
    offers = Offers(pinned=("create_tram", "file_read", "fs.read", "calc.eval"), denied=frozenset({"calc.eval"}))
    later = SoFar(message="refund", offered=("time.now",), used=("shell",), found=("create_bakery",))

    assert (
        ids(offered(MANY, offers, later))
        == ids(offered(FEW_AND_TRAM, offers, SoFar()))
        == [
            "tram.create",
            "fs.read",
            "calc.eval",
        ]
    )


FEW_AND_TRAM = ToolIndex(ToolRegistry([*builtin_tools(), *many_tools()[-4:]]))


def test_an_empty_pinned_set_has_no_tools() -> None:
    assert offered(MANY, Offers(pinned=()), REFUND) == ()


def test_a_pinned_tool_that_is_not_there_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError, match='There is no tool "create_trams"') as refused:
        offered(MANY, Offers(pinned=("calculator", "create_trams")), REFUND)

    assert (refused.value.hint, refused.value.code) == ('The nearest is "create_tram".', "tool.unknown")
    with pytest.raises(InputError) as refused:
        offered(ToolIndex(ToolRegistry()), Offers(pinned=("x",)), REFUND)
    assert refused.value.hint == "There are no tools at all."


def skill(name: str, description: str, *keywords: str) -> Tool:
    document = {"name": name, "description": description, "triggers": {"keywords": keywords}}
    return SkillTool(read(Path(f"{name}.jsonc"), json.dumps(document).encode()))


SKILLS = (
    skill("researcher", "Finds something out on the web.", "research", "find out"),
    skill("digest", "Sums up what changed in the project today."),
    skill("translate", "Translates a text into another language."),
)
WITH_SKILLS = ToolIndex(ToolRegistry([*builtin_tools(), *SKILLS]))


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Hello.", set[str]()),
        ("Could you Research who sells tea?", {"skill_researcher"}),
        ("Give me the digest, please.", {"skill_digest"}),
        ("Translate this into French: tea", {"skill_translate"}),
        ("A biscuit, please.", set[str]()),
    ],
)
def test_of_skills_those_are_offered_that_a_message_has_to_do_with(message: str, wanted: set[str]) -> None:
    found = offered(WITH_SKILLS, USUAL, SoFar(message=message))
    assert {name for name in names(found) if name.startswith("skill_")} == wanted
    assert FIND_ID in ids(found), "the others can be found"
    assert [each for each in ids(found) if not each.startswith("delegate.") and each != FIND_ID] == OFFERABLE
    assert ids(found)[len(found) - len(wanted) :] == sorted(f"delegate.{name[6:]}" for name in wanted), (
        "behind the others"
    )


def test_a_skill_that_a_message_names_is_offered() -> None:
    assert "skill_translate" in names(offered(WITH_SKILLS, USUAL, SoFar(message="Please call skill_translate.")))


def test_a_skill_that_was_found_or_used_stays_on_offer() -> None:
    begun = ids(offered(WITH_SKILLS, USUAL, SoFar(message="Hello.")))
    later = offered(WITH_SKILLS, USUAL, SoFar(offered=tuple(begun), found=("skill_digest",)))
    assert "skill_digest" in names(later)
    next_turn = offered(WITH_SKILLS, USUAL, SoFar(message="And yesterday?", before=("skill_digest",)))
    assert "skill_digest" in names(next_turn)


def test_too_deep_no_skill_is_offered_whatever_names_it() -> None:
    found = offered(WITH_SKILLS, Offers(skills=False), SoFar(message="skill_digest, research", found=("skill_digest",)))
    assert ids(found) == OFFERABLE
