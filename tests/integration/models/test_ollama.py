"""Which models an Ollama has, asked of one on loopback and of what is none."""

import socket
import threading

import pytest

from ozzie_server_ext.models.facts import MAX_NAMES, abilities, installed_models
from ozzie_server_ext.protocol.worker import ModelFacts
from tests.fakes.ollama_wire import MODELS, TOOLLESS, OllamaWire
from tests.fakes.provider_server import FakeProvider


def answer_once(body: bytes, *, head: bytes = b"HTTP/1.1 200 OK\r\n") -> tuple[str, threading.Thread]:
    """A server for one request that says exactly this."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listening, listening.accept()[0] as client:
            client.recv(65536)
            if body:
                client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body)
            else:
                client.recv(1)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}", thread


def test_its_models_are_listed_by_their_names() -> None:
    with FakeProvider(OllamaWire()) as fake:
        assert installed_models(fake.base_url) == MODELS
        assert [request.path for request in fake.requests] == ["/api/tags"]


def test_it_says_what_its_models_can_do() -> None:
    with FakeProvider(OllamaWire()) as fake:
        assert abilities(fake.base_url, MODELS[0]) == ModelFacts(tools=True, images=False, reasoning=False)
        assert abilities(fake.base_url, TOOLLESS) == ModelFacts(tools=False, images=False, reasoning=False)


def test_where_nobody_listens_there_are_none() -> None:
    assert installed_models("http://127.0.0.1:9") == ()
    assert abilities("http://127.0.0.1:9", "m") == ModelFacts()


@pytest.mark.parametrize(
    "body",
    [b"<html>hotel</html>", b"[]", b"{}", b'{"capabilities": 7}', b'{"capabilities": []}', b'{"capabilities": {}}'],
)
def test_one_that_says_nothing_of_abilities_leaves_them_unknown(body: bytes) -> None:
    url, thread = answer_once(body)

    assert abilities(url, "m") == ModelFacts()
    thread.join(10)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>hotel</html>",
        b"[]",
        b'{"models": 7}',
        b'{"models": [7, {}, {"name": 7}, {"name": ""}, {"name": "two\\nlines"}]}',
        b'{"models": [{"name": "' + b"x" * 500 + b'"}]}',
        b" " * (2 << 20),
    ],
    ids=["html", "list", "number", "names", "long", "large"],
)
def test_what_is_no_list_of_models_is_none(body: bytes) -> None:
    url, thread = answer_once(body)

    assert installed_models(url) == ()
    thread.join(10)


@pytest.mark.parametrize("head", [b"HTTP/1.1 404 Not Found\r\n", b"HTTP/1.1 302 Found\r\nlocation: http://x/\r\n"])
def test_another_status_is_none_and_is_not_followed(head: bytes) -> None:
    url, thread = answer_once(b'{"models": [{"name": "m"}]}', head=head)

    assert installed_models(url) == ()
    thread.join(10)


def test_of_a_model_that_it_has_not_nothing_is_known() -> None:
    url, thread = answer_once(b'{"error": "model \'m\' not found"}', head=b"HTTP/1.1 404 Not Found\r\n")

    assert abilities(url, "m") == ModelFacts()
    thread.join(10)


def test_one_that_is_silent_is_not_waited_for() -> None:
    url, thread = answer_once(b"")

    assert installed_models(url, timeout_s=0.1) == ()
    thread.join(10)


def test_one_that_drips_is_not_waited_for_either() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    dripped: list[int] = []
    gone = threading.Event()

    def serve() -> None:
        with listening, listening.accept()[0] as client:
            client.recv(65536)
            client.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n")
            try:
                for number in range(500):
                    client.sendall(b" ")
                    dripped.append(number)
                    gone.wait(0.02)  # each piece comes well within the time-out
            except OSError:
                gone.set()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    assert installed_models(f"http://127.0.0.1:{listening.getsockname()[1]}", timeout_s=0.2) == ()
    thread.join(20)
    assert gone.is_set()
    assert len(dripped) < 500


def test_no_more_are_listed_than_a_page_can_show() -> None:
    names = ", ".join(f'{{"name": "m{number}"}}' for number in range(100))
    url, thread = answer_once(f'{{"models": [{names}]}}'.encode())

    assert len(installed_models(url)) == MAX_NAMES
    thread.join(10)
