"""What a person is called who asks through Jupyter's login: an answer is recorded with who gave it."""

import pytest
from jupyter_server.auth import User

from ozzie_server_ext.gateway.base import name_of


@pytest.mark.parametrize(
    ("user", "name"),
    [
        (User(username="ana"), "ana"),
        (User(username="ana", display_name="Ana Lima"), "ana"),
        # By Jupyter's own token nobody says who they are.
        (User(username="9f28" * 8, name="Anonymous Carme", display_name="Anonymous Carme"), "Anonymous Carme"),
        (User(username="9f28" * 8, display_name=""), "9f28" * 8),
        (User(username="9f28", display_name="Ana"), "9f28"),
    ],
)
def test_a_name_that_was_made_up_gives_way_to_the_one_that_is_shown(user: User, name: str) -> None:
    assert name_of(user) == name
