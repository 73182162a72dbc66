"""A model worker with a provider on loopback behind it, and how tests ask it."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import (
    ChatMessage,
    Finished,
    ModelChoice,
    ModelError,
    ModelEvent,
    ModelRequest,
    ProviderAccess,
    TextDelta,
)
from ozzie_server_ext.models.worker_client import WorkerDriver
from ozzie_server_ext.planes.supervisor import Supervisor
from tests.fakes.openai_server import FakeOpenAI

KEY = "sk-test-0123456789abcdef"
HEADER = "header-secret-4711"
WAIT_S = 40


@dataclass(frozen=True)
class Rig:
    """The worker's driver and what is on either side of it. `lost` lists why workers ended."""

    driver: WorkerDriver
    plane: Supervisor
    server: FakeOpenAI
    log_file: Path
    lost: list[str]


def providers(server: FakeOpenAI) -> dict[str, ProviderAccess]:
    return {
        "fake": ProviderAccess(
            driver="openai", base_url=server.base_url, api_key=KEY, key_name="TEST_KEY", headers=(("x-team", HEADER),)
        ),
        "keyless": ProviderAccess(driver="openai", base_url=server.base_url),
        "hasty": ProviderAccess(driver="openai", base_url=server.base_url, first_s=0.3, next_s=0.3),
        "anthropic": ProviderAccess(driver="anthropic", base_url=server.url, api_key="sk-ant-0123456789"),
        "ollama": ProviderAccess(driver="ollama", base_url=server.url),
        "gemini": ProviderAccess(driver="gemini", base_url=server.url, api_key="AIza0123456789"),
        "unreachable": ProviderAccess(driver="openai", base_url="http://127.0.0.1:9/v1"),
    }


def request(
    model: str,
    *messages: ChatMessage,
    provider: str = "fake",
    tools: tuple[ToolSpec, ...] = (),
    max_tokens: int | None = None,
) -> ModelRequest:
    return ModelRequest(
        call_id=CallId("01JZZZZZZZZZZZZZZZZZZZZZZZ"),
        choice=ModelChoice(alias="main", provider=provider, driver="openai", model=model, max_tokens=max_tokens),
        messages=messages or (ChatMessage(role="user", content="hello big wide world"),),
        tools=tools,
    )


async def read(rig: Rig, asked: ModelRequest) -> list[ModelEvent]:
    async with asyncio.timeout(WAIT_S):
        return [event async for event in rig.driver.generate(asked)]


async def failure(rig: Rig, asked: ModelRequest) -> tuple[ModelError, str]:
    """The error of a call, and the text that had come before it."""
    events: list[ModelEvent] = []

    async def follow() -> None:
        async for event in rig.driver.generate(asked):
            events.append(event)

    with pytest.raises(ModelError) as caught:
        await asyncio.wait_for(follow(), WAIT_S)
    return caught.value, text_of(events)


def text_of(events: list[ModelEvent]) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def finished(events: list[ModelEvent]) -> Finished:
    assert isinstance(events[-1], Finished)
    return events[-1]
