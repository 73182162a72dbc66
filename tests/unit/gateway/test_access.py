"""The tokens that a gateway gives out: whom they stand for, and how they end."""

from pathlib import Path
from typing import cast

import pytest

from ozzie_server_ext.domain.errors import Unavailable
from ozzie_server_ext.domain.ids import SessionId
from ozzie_server_ext.gateway.access import MAX_KERNEL_TOKENS, AccessTokens, behalf_headers
from ozzie_server_ext.gateway.relay import Relay
from ozzie_server_ext.gateway.services import Services
from ozzie_server_ext.gateway.state import GatewayState

SESSION = SessionId("sess_1")


@pytest.fixture
def access() -> AccessTokens:
    return AccessTokens()


@pytest.mark.parametrize("scheme", ["token", "Token", "bearer", "Bearer", "BEARER"])
def test_the_handshakes_token_stands_for_the_user_on_this_machine(access: AccessTokens, scheme: str) -> None:
    holder = access.holder(f"{scheme} {access.local_token}")

    assert holder is not None
    assert (holder.kind, holder.session_id) == ("local", None)


@pytest.mark.parametrize("name", ["ana", "Ana Müller ✓", "a b/c%20", "x\r\nEvil: 1", "\ud800"])
def test_an_attached_server_may_say_who_asks(access: AccessTokens, name: str) -> None:
    headers = behalf_headers(name, Path("/srv/Zwei Größen"))
    user, root = headers["Ozzie-User"], headers["Ozzie-Root"]
    holder = access.holder(f"token {access.local_token}", on_behalf_of=user, root=root)

    assert (user + root).isascii()
    assert (user + root).isprintable()
    assert holder is not None
    assert (holder.kind, holder.name) == ("local", name.replace("\ud800", "?"))
    assert holder.root == Path("/srv/Zwei Größen")


def test_a_kernel_may_not_say_who_asks(access: AccessTokens) -> None:
    token = access.issue_kernel_token("kernel-1", SESSION)
    plain, named = access.holder(f"token {token}"), access.holder(f"token {token}", on_behalf_of="root", root="/")

    assert plain is not None
    assert plain == named


def test_a_name_without_end_is_cut(access: AccessTokens) -> None:
    holder = access.holder(f"token {access.local_token}", on_behalf_of="x" * 10_000)

    assert holder is not None
    assert len(holder.name) < 1000


def test_a_kernels_token_stands_for_that_kernel_and_its_session_alone(access: AccessTokens) -> None:
    holder = access.holder(f"token {access.issue_kernel_token('kernel-1', SESSION)}")

    assert holder is not None
    assert (holder.kind, holder.kernel_id, holder.session_id) == ("kernel", "kernel-1", SESSION)


@pytest.mark.parametrize(
    "header",
    [
        "",
        "token",
        "token ",
        "token x",
        "token " + "x" * 43,
        "Basic " + "x" * 43,
        "token " + "é" * 43,
        "token " + "x" * 201,
        "x" * 43,
    ],
)
def test_anything_else_stands_for_nobody(access: AccessTokens, header: str) -> None:
    access.issue_kernel_token("kernel-1", SESSION)

    assert access.holder(header) is None


def test_a_token_with_anything_around_it_is_not_the_token(access: AccessTokens) -> None:
    token = access.local_token

    for header in (token, f"token {token}x", f"token {token[:-1]}", f"token {token} {token}", f"token token {token}"):
        assert access.holder(header) is None, header


def test_a_new_token_of_a_kernel_ends_the_one_before(access: AccessTokens) -> None:
    old, new = (access.issue_kernel_token("kernel-1", SESSION) for _ in range(2))
    other = access.issue_kernel_token("kernel-2", SESSION)

    assert access.holder(f"token {old}") is None
    assert access.holder(f"token {new}") is not None
    assert access.holder(f"token {other}") is not None


def test_a_revoked_kernel_has_no_token_any_more(access: AccessTokens) -> None:
    token = access.issue_kernel_token("kernel-1", SESSION)

    access.revoke_kernel("kernel-1")
    access.revoke_kernel("nobody")

    assert access.holder(f"token {token}") is None


def test_a_kernels_end_ends_the_token_it_came_with_and_not_a_newer_one(access: AccessTokens) -> None:
    old = access.holder(f"token {access.issue_kernel_token('kernel-1', SESSION)}")
    new = access.issue_kernel_token("kernel-1", SESSION)
    assert old is not None

    access.revoke(old)
    newer = access.holder(f"token {new}")
    assert newer is not None
    access.revoke(newer)

    assert access.holder(f"token {new}") is None


def test_tokens_are_bounded_and_the_oldest_goes_first(access: AccessTokens) -> None:
    tokens = [access.issue_kernel_token(f"kernel-{i}", SESSION) for i in range(MAX_KERNEL_TOKENS + 1)]

    assert access.holder(f"token {tokens[0]}") is None
    assert access.holder(f"token {tokens[1]}") is not None
    assert access.holder(f"token {tokens[-1]}") is not None


def test_every_gateway_has_tokens_of_its_own_that_nobody_guesses(access: AccessTokens) -> None:
    tokens = {AccessTokens().local_token for _ in range(50)} | {access.local_token}

    assert len(tokens) == 51
    assert all(len(token) >= 43 for token in tokens)


@pytest.mark.parametrize("then", ["stops", "is attached", "fails"])
def test_a_kernels_token_ends_when_its_gateway_leaves_the_home(tmp_path: Path, then: str) -> None:
    """Also one that was never used: what came with it later would be handed on under this server's own token, and so
    be bound to no session."""
    state = GatewayState()
    state.own(cast(Services, object()))
    token = state.access.issue_kernel_token("kernel-1", SESSION)
    assert state.access.holder(f"token {token}") is not None

    match then:
        case "stops":
            state.stop()
        case "is attached":
            state.attach(Relay(tmp_path, tmp_path, tmp_path))
        case _:
            state.fail(Unavailable("The home is not there."))

    assert state.access.holder(f"token {token}") is None
    assert state.access.holder(f"token {state.access.local_token}") is not None
