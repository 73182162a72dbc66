"""What several tests of the command line start from."""

import pytest

from tests.acceptance.test_record import ozzie
from tests.rig import GatewayHome, start_gateway


@pytest.fixture
def used(home: GatewayHome) -> GatewayHome:
    """A home whose gateway answered something and was stopped."""
    with start_gateway(home):
        assert ozzie(home, "ask", "hello").returncode == 0
    return home
