"""Which driver a choice reaches."""

import pytest

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.domain.ids import CallId
from ozzie_server_ext.models.driver import ChatMessage, Finished, ModelChoice, ModelRequest, Models
from ozzie_server_ext.models.offline import OfflineDriver
from ozzie_server_ext.models.scripted import Say, ScriptedDriver


def request(driver: str) -> ModelRequest:
    choice = ModelChoice(alias="main", provider=driver, driver=driver, model="m")
    return ModelRequest(call_id=CallId("c"), choice=choice, messages=(ChatMessage(role="user", content="hello"),))


async def test_a_provider_is_reached_through_the_worker_and_offline_is_not() -> None:
    worker = ScriptedDriver([[Say("from the worker")]])
    models = Models(offline=OfflineDriver(pause_s=0), worker=worker)
    for driver, expected in (("offline", "Offline script"), ("anthropic", "from the worker")):
        last = [event async for event in models.generate(request(driver))][-1]
        assert isinstance(last, Finished)
        assert str(last.response["text"]).startswith(expected)


@pytest.mark.parametrize("driver", ["openai", "scripted"])
async def test_a_driver_that_is_not_there_is_refused(driver: str) -> None:
    with pytest.raises(InputError, match=driver):
        Models(offline=OfflineDriver()).generate(request(driver))


def test_the_recorded_request_is_the_same_for_the_same_request() -> None:
    first, second = request("openai"), request("openai")
    assert first.to_json() == second.to_json()
    assert "call_id" not in first.to_json()
