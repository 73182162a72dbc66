"""What a call cost: by the prices of the configuration, else as its worker says."""

import pytest

from ozzie_server_ext.domain.budget import TokenPrices, Usage
from ozzie_server_ext.models.driver import ProviderAccess
from ozzie_server_ext.models.foreign import _finished
from ozzie_server_ext.models.worker_client import finished_of
from ozzie_server_ext.protocol.worker import Stop

USAGE = Usage(input_tokens=1_000, output_tokens=100)
PRICES = TokenPrices(read=150_000_000, written=600_000_000)


@pytest.mark.parametrize(
    ("prices", "said", "cost"),
    [
        (None, 7, 7),
        (None, None, None),
        (PRICES, 7, 210_000),
        (PRICES, None, 210_000),
        (TokenPrices(read=0, written=0), 7, 0),
    ],
)
def test_prices_of_the_configuration_go_before_the_workers(
    prices: TokenPrices | None, said: int | None, cost: int | None
) -> None:
    access = ProviderAccess(driver="openai", prices=prices)

    found = finished_of(Stop(usage=USAGE, cost=said), access, "text", 1.0)

    assert (found.cost, found.response["cost"]) == (cost, cost)


@pytest.mark.parametrize(
    ("prices", "usage", "cost"),
    [
        (None, USAGE, None),
        (PRICES, USAGE, 210_000),
        (PRICES, Usage(), None),
        (TokenPrices(read=0, written=0), Usage(), 0),
    ],
)
def test_a_foreign_worker_that_counts_no_tokens_has_an_unknown_cost_unless_they_cost_nothing(
    prices: TokenPrices | None, usage: Usage, cost: int | None
) -> None:
    found = _finished(Stop(usage=usage), ProviderAccess(driver="worker", prices=prices), "text", 1.0)

    assert (found.cost, found.response["cost"]) == (cost, cost)
