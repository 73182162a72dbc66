"""What a turn offers of many tools, and that the log alone says so: whoever goes on with it offers the same."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.agent.conversation import Conversation
from ozzie_server_ext.agent.plan import TurnPlan
from ozzie_server_ext.agent.requests import injected_tools, toolset_version
from ozzie_server_ext.agent.rounds import LimitExceeded
from ozzie_server_ext.config.settings import ALWAYS_OFFERED
from ozzie_server_ext.domain.content import CLEAN, Content, Label
from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.events import Limits, ModelCallStarted, ToolCallFailed, ToolsetInjected
from ozzie_server_ext.models.driver import ModelRequest
from ozzie_server_ext.models.scripted import Fail, Round, Say, Use
from ozzie_server_ext.tools.base import Tool
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.offering import FIND_ID, Offers
from tests.unit.agent.rig import CHOICE, PLAN, TurnRig
from tests.unit.tools.many import made, many_tools

MANY = [*builtin_tools(), *many_tools()]
USUAL = replace(PLAN, offers=Offers(always=ALWAYS_OFFERED))
SHOP = Content.of(Label.MCP, ["shop"])
FIND = Use("find_tools", {"query": "assign a reactor"})


def rig_of(project: Path, *rounds: Round | Use, tools: Sequence[Tool] = MANY, plan: TurnPlan = USUAL) -> TurnRig:
    script = [[each] if isinstance(each, Use) else each for each in rounds]
    return TurnRig(project, script, tools=tools, plan=plan)


def names(request: ModelRequest) -> list[str]:
    return [tool.name for tool in request.tools]


async def injected(rig: TurnRig) -> list[list[str]]:
    found = await rig.bodies(ToolsetInjected)
    return [[tool.name for tool in body.tools] for body in found if isinstance(body, ToolsetInjected)]


async def test_below_the_limit_all_are_offered_and_nothing_of_that_is_new(project: Path) -> None:
    rig = rig_of(project, [Say("ok")], tools=builtin_tools())
    await rig.ask("Assign the refund.")
    await rig.run()

    (request,) = rig.model.requests
    every = [tool.meta for tool in rig.parts.registry.all() if tool.meta.tool_id != FIND_ID]
    assert names(request) == [meta.name for meta in every if meta.is_for_models]
    assert any(meta.for_skills for meta in every), "this test would show nothing of them"
    assert "find_tools" not in request.messages[0].content


async def test_of_many_the_fitting_ones_are_offered_and_recorded(project: Path) -> None:
    rig = rig_of(project, [Say("ok")])
    await rig.ask("Assign the refund to Ana.")
    await rig.run()

    (request,) = rig.model.requests
    assert {"assign_refund", "find_tools", *ALWAYS_OFFERED} <= set(names(request))
    assert len(request.tools) <= 40
    assert await injected(rig) == [names(request)]
    assert "look for one with find_tools(query)" in request.messages[0].content
    assert "- create_tram" not in request.messages[0].content
    (started,) = [body for body in await rig.bodies() if isinstance(body, ModelCallStarted)]
    (recorded,) = [body for body in await rig.bodies() if isinstance(body, ToolsetInjected)]
    assert started.tools == toolset_version(recorded)


async def test_what_was_found_is_offered_from_the_next_round_on_behind_the_others(project: Path) -> None:
    rig = rig_of(project, FIND, Use("assign_reactor", {}), [Say("ok")])
    await rig.ask("Say hello.")
    await rig.run()

    first, second, third = map(names, rig.model.requests)
    assert "assign_reactor" not in first
    assert second[: len(first)] == first
    assert "assign_reactor" in second[len(first) :]
    assert len(second) == len(first) + 10
    assert third == second
    assert await injected(rig) == [first, second]
    assert '"assign_reactor"' in rig.model.requests[2].messages[-1].content, "it ran"


async def test_what_the_model_asked_for_without_being_offered_it_is_offered_then(project: Path) -> None:
    rig = rig_of(project, Use("create_tram", {}), [Say("ok")])
    await rig.ask("Say hello.")
    await rig.run()

    first, second = map(names, rig.model.requests)
    assert ("create_tram" in first, second) == (False, [*first, "create_tram"])


async def test_a_turn_that_is_taken_up_again_is_offered_the_same(project: Path) -> None:
    """Everything that it remembers is the log; meanwhile there are other settings, rules and tools."""
    rig = rig_of(project, FIND, [Fail("provider.unreachable")], [Say("ok")])
    await rig.ask("Assign the refund.")
    with pytest.raises(Exception, match="reach"):
        await rig.run()
    rig.parts.registry.register(made("refund.void", "void_refund", "Assign the refund to nobody."))

    await rig.run(offers=Offers(at_most=3, denied=frozenset({"refund.assign"})), recovered=True)

    _, second, third = map(names, rig.model.requests)
    assert third == second
    assert (await injected(rig))[-1] == second
    assert len(await injected(rig)) == 2, "it is told once"


async def test_what_is_new_in_the_first_round_after_a_restart_is_recorded(project: Path) -> None:
    rig = rig_of(project, Use("create_tram", {}), Use("create_bakery", {}), [Say("ok")])
    await rig.ask("Say hello.")
    with pytest.raises(LimitExceeded):
        await rig.run(limits=Limits(max_rounds=1))
    assert len(await injected(rig)) == 1

    await rig.run()

    offered = await injected(rig)
    assert [each[-2:] for each in offered[1:]] == [[offered[0][-1], "create_tram"], ["create_tram", "create_bakery"]]
    assert [names(request) for request in rig.model.requests] == offered


async def test_a_turn_begins_with_what_the_one_before_used(project: Path) -> None:
    rig = rig_of(project, Use("create_tram", {}), [Say("ok")], [Say("ok")], [Say("ok")])
    await rig.ask("Create a tram.")
    await rig.run()
    await rig.ask("And again for Ben.", task="t2")
    await rig.run("t2")
    await rig.ask("And again for Cleo.", task="t3")
    await rig.run("t3")

    assert ["create_tram" in names(request) for request in rig.model.requests] == [True, True, True, False]


async def test_one_who_takes_no_tools_between_takes_none_away(project: Path) -> None:
    rig = rig_of(project, FIND, [Say("ok")])
    await rig.ask("Say hello.")
    bare = injected_tools(())
    await rig.run()
    before = (await injected(rig))[-1]
    await rig.record(bare)

    conversation = Conversation(await rig.events())
    registry = rig.parts.registry
    kept = [registry.meta(tool_id) for tool_id in conversation.toolsets.offered(rig.recorder().task_id)]
    assert [meta.name for meta in kept if meta] == before


async def test_a_model_that_takes_no_tools_is_told_of_none_to_find(project: Path) -> None:
    plan = replace(USUAL, chain=replace(USUAL.chain, choices=(replace(CHOICE, takes_tools=False),)))
    rig = rig_of(project, [Say("ok")], plan=plan)
    await rig.ask("Say hello.")
    await rig.run()

    (request,) = rig.model.requests
    assert (request.tools, "find_tools" in request.messages[0].content) == ((), False)


# --- a pinned set ------------------------------------------------------------------------------------------------


async def test_a_pinned_set_is_offered_alone_whatever_the_model_asks_for(project: Path) -> None:
    plan = replace(USUAL, offers=Offers(pinned=("create_tram", "file_read")))
    rig = rig_of(project, Use("create_bakery", {}), FIND, [Say("ok")], plan=plan)
    await rig.ask("Assign the refund.")
    await rig.run()

    assert [names(request) for request in rig.model.requests] == [["create_tram", "read_file"]] * 3
    assert '"tools":[]' in rig.model.requests[2].messages[-1].content, "nothing is left out of it"


async def test_a_pinned_tool_that_is_not_there_ends_the_turn_before_anybody_is_asked(project: Path) -> None:
    rig = rig_of(project, plan=replace(USUAL, offers=Offers(pinned=("creat_tram",))))
    await rig.ask("Say hello.")

    with pytest.raises(InputError, match="creat_tram"):
        await rig.run()
    assert rig.model.requests == []


# --- who described them ------------------------------------------------------------------------------------------


async def sources(rig: TurnRig, kind: type) -> list[tuple[str, ...]]:
    return [event.sources for event in await rig.events() if isinstance(event.body, kind)]


async def test_a_description_that_is_not_offered_labels_nothing(project: Path) -> None:
    """There are tools that somebody outside described, and none of their words is in the prompt."""
    rig = rig_of(project, [Say("ok")], tools=[*builtin_tools(), *many_tools(told_by=SHOP)])
    await rig.ask("Say hello.")
    await rig.run()

    assert await sources(rig, ModelCallStarted) == [CLEAN.sources]


async def test_a_description_that_is_offered_labels_what_is_made_from_it(project: Path) -> None:
    rig = rig_of(project, [Say("ok")], tools=[*builtin_tools(), *many_tools(told_by=SHOP)])
    await rig.ask("Assign the refund.")
    await rig.run()

    assert await sources(rig, ModelCallStarted) == [SHOP.sources]


async def test_a_description_that_was_found_labels_all_behind_it(project: Path) -> None:
    rig = rig_of(project, FIND, [Say("ok")], tools=[*builtin_tools(), *many_tools(told_by=SHOP)])
    await rig.ask("Say hello.")
    await rig.run()

    assert await sources(rig, ModelCallStarted) == [CLEAN.sources, SHOP.sources]
    conversation = Conversation(await rig.events())
    assert conversation.content == SHOP


async def test_who_guesses_the_name_of_a_tool_and_is_told_what_it_takes_reads_its_makers_words(project: Path) -> None:
    rig = rig_of(
        project,
        Use("create_tram", {"colour": "red"}),
        [Say("ok")],
        tools=[*builtin_tools(), *many_tools(told_by=SHOP)],
    )
    await rig.ask("Say hello.")
    await rig.run()

    assert await sources(rig, ToolCallFailed) == [SHOP.sources]


async def test_who_guesses_a_name_that_is_not_there_is_told_none_of_an_outsiders_making(project: Path) -> None:
    few = [made("shop.sell", "sell", "Sell it.", told_by=SHOP), made("a.b", "own", "Do it.")]
    rig = rig_of(project, Use("sel", {}), [Say("ok")], tools=few, plan=replace(USUAL, offers=Offers(pinned=("own",))))
    await rig.ask("Say hello.")
    await rig.run()

    (failed,) = [body for body in await rig.bodies() if isinstance(body, ToolCallFailed)]
    assert failed.message == "There is no tool sel; there are: own."


async def test_of_very_many_tools_only_the_nearest_are_told(project: Path) -> None:
    rig = rig_of(project, Use("create_trams", {}), [Say("ok")])
    await rig.ask("Say hello.")
    await rig.run()

    (failed,) = [body for body in await rig.bodies() if isinstance(body, ToolCallFailed)]
    assert failed.message.startswith("There is no tool create_trams; the nearest are: create_tram, ")
    assert failed.message.count(",") == 9
