"""What tokens cost by prices for a million of them."""

import pytest

from ozzie_server_ext.domain.budget import TokenPrices, Usage


@pytest.mark.parametrize(
    ("read", "written", "cost"),
    [
        (0, 0, 0),
        (1_000_000, 0, 150_000_000),
        (0, 1_000_000, 600_000_000),
        (2, 3, 300 + 1_800),
        (10**12, 10**12, 750_000_000 * 10**6),
    ],
)
def test_a_cost_is_exact(read: int, written: int, cost: int) -> None:
    prices = TokenPrices(read=150_000_000, written=600_000_000)

    assert prices.cost(Usage(input_tokens=read, output_tokens=written)) == cost


def test_what_costs_something_never_reads_as_nothing() -> None:
    assert TokenPrices(read=1, written=0).cost(Usage(input_tokens=1)) == 1
    assert TokenPrices(read=0, written=0).cost(Usage(input_tokens=1)) == 0


@pytest.mark.parametrize(("read", "written", "are_nothing"), [(0, 0, True), (0, 1, False), (1, 0, False)])
def test_prices_are_nothing_only_where_both_are(read: int, written: int, are_nothing: bool) -> None:
    assert TokenPrices(read=read, written=written).are_nothing is are_nothing
