"""A model worker with a provider on loopback behind it, and how tests ask it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.domain.messages import Picture
from ozzie_server_ext.domain.toolmeta import ToolSpec
from ozzie_server_ext.models.driver import (
    AccessOf,
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
from ozzie_server_ext.store.blobs import InMemoryBlobs
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.provider_server import FakeProvider

KEY = "sk-test-0123456789abcdef"
HEADER = "header-secret-4711"
KEYS = {"openai": "sk-proj-0123456789", "anthropic": "sk-ant-0123456789", "gemini": "AIza0123456789", "ollama": ""}
WAIT_S = 40


@dataclass(frozen=True)
class Rig:
    """The worker's driver and what is on either side of it. `fakes`: one provider for each wire format, by its driver.
    `lost` lists why workers ended. `providers` are the known ones by name; tests may add theirs."""

    driver: WorkerDriver
    plane: Supervisor
    server: FakeOpenAI
    fakes: Mapping[str, FakeProvider]
    log_file: Path
    lost: list[str]
    providers: dict[str, ProviderAccess]
    blobs: InMemoryBlobs

    async def picture(self, path: str, content: bytes) -> Picture:
        """A PNG as a message has it."""
        return Picture(path=path, ref=await self.blobs.put(content), media_type="image/png", size=len(content))


_PATIENT_S = 20.0
_LIMITS = {"": (_PATIENT_S, _PATIENT_S), "-hasty": (1.0, _PATIENT_S), "-hasty-within": (_PATIENT_S, 0.3)}
"""How long the first piece and a further one may take. The request has to arrive within the former, which takes longer
than 0.3 s on a busy machine; the first pieces arrive at once, so the latter can be short."""


def providers(server: FakeOpenAI, fakes: Mapping[str, FakeProvider]) -> dict[str, ProviderAccess]:
    """The OpenAI-compatible server with several accesses, then each wire format under its driver's name. With the
    ending `-hasty` the first piece of an answer is not waited for, with `-hasty-within` a further one."""
    by_driver = {
        f"{driver}{ending}": ProviderAccess(
            driver=driver,
            base_url=fake.base_url,
            api_key=KEYS[driver],
            key_name=f"{driver.upper()}_KEY",
            first_s=first_s,
            next_s=next_s,
        )
        for driver, fake in fakes.items()
        for ending, (first_s, next_s) in _LIMITS.items()
    }
    dead = "http://127.0.0.1:9"
    return {
        **by_driver,
        "fake": ProviderAccess(
            driver="openai", base_url=server.base_url, api_key=KEY, key_name="TEST_KEY", headers=(("x-team", HEADER),)
        ),
        "keyless": ProviderAccess(driver="openai", base_url=server.base_url),
        **{
            f"fake{ending}": ProviderAccess(driver="openai", base_url=server.base_url, first_s=first_s, next_s=next_s)
            for ending, (first_s, next_s) in _LIMITS.items()
            if ending
        },
        "unreachable": ProviderAccess(driver="openai", base_url=f"{dead}/v1"),
        "no-path": ProviderAccess(driver="openai", base_url=server.url),
        "no-tls": ProviderAccess(driver="openai", base_url=server.base_url.replace("http:", "https:")),
        # No label of a name may be that long, so it is known to be unknown without asking a name server.
        "unknown-host": ProviderAccess(driver="openai", base_url=f"http://{'x' * 64}/v1"),
        "ollama-not-running": ProviderAccess(driver="ollama", base_url=dead),
    }


def access_of(providers: Mapping[str, ProviderAccess]) -> AccessOf:
    return lambda choice: providers[choice.provider]


def request(
    model: str,
    *messages: ChatMessage,
    provider: str = "fake",
    driver: str = "openai",
    tools: tuple[ToolSpec, ...] = (),
    max_tokens: int | None = None,
) -> ModelRequest:
    return ModelRequest(
        call_id=CallId("01JZZZZZZZZZZZZZZZZZZZZZZZ"),
        choice=ModelChoice(alias="main", provider=provider, driver=driver, model=model, max_tokens=max_tokens),
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
