"""Servers that send too much, too little, too slowly, or something else than they say."""

import asyncio
import gzip
import os
import socket
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.web import reach
from ozzie_server_ext.web.port import Fetched
from ozzie_server_ext.web.reach import PROGRAM, ErrandWeb, Limits
from tests.fakes.web_server import FakeWeb, answer
from tests.tiers import rows

MIB = 1 << 20
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n"


async def fetched(servers: FakeWeb, limits: Limits | None = None, path: str = "/") -> Fetched:
    return await ErrandWeb(allowance=servers.allowance(), limits=limits).fetch(servers.url(path))


async def refused(servers: FakeWeb, limits: Limits | None = None) -> OzzieError:
    with pytest.raises(OzzieError) as failed:
        await fetched(servers, limits)
    return failed.value


def packed(body: bytes, encoding: str) -> bytes:
    match encoding:
        case "gzip":
            raw = gzip.compress(body)
        case "deflate":
            raw = zlib.compress(body)
        case "deflate without a frame":
            raw = zlib.compress(body, wbits=-15)
        case _:
            raw = gzip.compress(body[:3]) + gzip.compress(body[3:])
    return answer(raw, "text/plain", content_encoding="gzip" if "gzip" in encoding else "deflate")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "deflate without a frame", "gzip in two"])
async def test_what_is_packed_is_unpacked(servers: FakeWeb, encoding: str) -> None:
    text = "".join(f"line {number}\n" for number in range(30_000))
    servers.pages["/"] = packed(text.encode(), encoding)

    got = await fetched(servers)

    assert (got.text, got.cut, got.size) == (text, False, len(text))


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_bomb_is_refused(servers: FakeWeb, encoding: str) -> None:
    servers.pages["/"] = packed(b"a" * 300 * MIB, encoding)

    failed = await refused(servers)

    assert (failed.code, "more than 100 times its size" in str(failed)) == ("web.too_large", True)


async def test_a_bomb_in_a_bomb_is_not_unpacked_at_all(servers: FakeWeb) -> None:
    raw = gzip.compress(gzip.compress(b"a" * 300 * MIB))
    servers.pages["/"] = answer(raw, "text/plain", content_encoding="gzip, gzip")

    assert (await refused(servers)).code == "web.type"


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "aes128gcm"])
async def test_what_is_packed_in_a_way_that_nobody_asked_for_is_refused(servers: FakeWeb, encoding: str) -> None:
    servers.pages["/"] = answer(b"....", "text/plain", content_encoding=encoding)

    assert (await refused(servers)).code == "web.type"


async def test_what_is_not_packed_as_it_says_is_told(servers: FakeWeb) -> None:
    servers.pages["/"] = answer(b"not packed at all", "text/plain", content_encoding="gzip")

    assert (await refused(servers)).code == "web.answer"


async def test_of_an_endless_page_the_beginning_is_told(servers: FakeWeb) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"\r\n")
        while not servers.ended.is_set():
            connection.sendall(b"0123456789abcde\n" * 4096)

    servers.pages["/"] = endless

    got = await fetched(servers)

    assert (got.size, got.cut) == (5 * MIB, True)
    assert len(got.text) == 1_000_000


async def test_a_page_of_exactly_the_limit_is_whole(servers: FakeWeb) -> None:
    servers.pages |= {"/": answer(b"x" * 5000, "text/plain"), "/b": answer(b"x" * 5001, "text/plain")}
    limits = Limits(body=5000)

    assert [(got.size, got.cut) for path in ("/", "/b") for got in [await fetched(servers, limits, path)]] == [
        (5000, False),
        (5000, True),
    ]


async def test_a_long_chain_of_chunks_is_bounded_too(servers: FakeWeb) -> None:
    def endless(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        while not servers.ended.is_set():
            connection.sendall(b"10\r\n0123456789abcde\n\r\n" * 2048)

    servers.pages["/"] = endless

    got = await fetched(servers, Limits(body=MIB))

    assert (got.size, got.cut) == (MIB, True)


async def test_of_a_page_that_drips_what_came_in_time_is_told(servers: FakeWeb) -> None:
    def dripping(connection: socket.socket) -> None:
        connection.sendall(HEAD + b"Content-Length: 100000\r\n\r\nbegin ")
        while not servers.ended.wait(0.05):
            connection.sendall(b".")

    servers.pages["/"] = dripping

    got = await fetched(servers, Limits(wall_s=1.0))

    assert (got.text[:6], got.cut) == ("begin ", True)


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 200 OK\r\n", HEAD + b"\r\n"], ids=["nothing", "a line", "the head"])
async def test_a_server_that_says_nothing_more_is_left(servers: FakeWeb, sent: bytes) -> None:
    def silent(connection: socket.socket) -> None:
        connection.sendall(sent)
        servers.ended.wait(20)

    servers.pages["/"] = silent

    failed = await refused(servers, Limits(wall_s=0.5))

    assert (failed.code, str(failed)) == ("web.timed_out", "site.example did not answer within 0.5 s.")


async def test_headers_that_drip_count_as_silence(servers: FakeWeb) -> None:
    def dripping(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        while not servers.ended.wait(0.05):
            connection.sendall(b"a")

    servers.pages["/"] = dripping

    assert (await refused(servers, Limits(wall_s=1.0))).code == "web.timed_out"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * MIB + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 twohundred OK\r\n\r\n",
        b"220 mail.example ESMTP\r\n",
        b"\0\1\2\3",
        b"",
    ],
    ids=["many", "long", "negative", "two lengths", "bad chunk", "bad status", "SMTP", "binary", "nothing"],
)
async def test_what_is_no_http_is_told(servers: FakeWeb, head: bytes) -> None:
    servers.pages["/"] = head

    failed = await refused(servers)

    assert failed.code in ("web.answer", "web.unreachable"), str(failed)


async def test_a_page_that_ends_before_its_length_is_cut(servers: FakeWeb) -> None:
    servers.pages["/"] = HEAD + b"Content-Length: 1000\r\n\r\nonly this"

    got = await fetched(servers)

    assert (got.text, got.cut) == ("only this", True)


async def test_what_follows_behind_its_length_is_no_part_of_it(servers: FakeWeb) -> None:
    servers.pages["/"] = HEAD + b"Content-Length: 4\r\n\r\npage and more"

    got = await fetched(servers)

    assert (got.text, got.cut) == ("page", False)


async def test_a_packed_page_that_breaks_off_is_cut(servers: FakeWeb) -> None:
    raw = gzip.compress(os.urandom(40_000).hex().encode())
    servers.pages["/"] = answer(raw[:-2000], "text/plain", content_encoding="gzip")

    got = await fetched(servers)

    assert got.cut
    assert 10_000 < got.size < 80_000


async def test_bytes_that_are_no_text_in_their_charset_are_replaced(servers: FakeWeb) -> None:
    servers.pages["/"] = answer(b"caf\xe9 \xff\xfe ok", "text/plain; charset=utf-8")

    assert (await fetched(servers)).text == "caf\ufffd \ufffd\ufffd ok"


@pytest.mark.parametrize("charset", ["nonsense", "rot13", "idna", "unicode_escape", "utf-7", "hex", "\x00", "a" * 500])
async def test_a_charset_that_the_web_does_not_know_is_passed_over(servers: FakeWeb, charset: str) -> None:
    servers.pages["/"] = answer("+AGE- ü \\u0041", f"text/plain; charset={charset}".replace("\x00", "%00"))

    assert (await fetched(servers)).text == "+AGE- ü \\u0041"


async def test_a_page_as_deep_as_one_likes_is_told_in_words(servers: FakeWeb) -> None:
    servers.pages["/"] = answer("<div>" * 10_000 + "deep down <a href='/x'>there</a>" + "</div>" * 10_000)

    got = await fetched(servers)

    assert (got.text, got.links) == ("deep down there", (servers.url("/x"),))


def silent(servers: FakeWeb) -> Callable[[socket.socket], None]:
    def say_nothing(connection: socket.socket) -> None:
        servers.ended.wait(20)

    return say_nothing


def running(program: str = PROGRAM) -> list[int]:
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().split(b"\0")
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if program.encode() in command and parent == os.getpid():
            found.append(int(folder.name))
    return found


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110  # processes and servers tell nobody
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("tag", rows(["<i>", "<br>", "</p>", "<![", "<table><td>"], "</p>"))
async def test_of_a_page_of_nothing_but_tags_the_beginning_is_read(servers: FakeWeb, tag: str) -> None:
    servers.pages["/"] = answer("first words " + tag * (5 * MIB // len(tag)), "text/html")

    got = await fetched(servers)

    assert (got.text.split()[0], got.cut) == ("first", True)


@pytest.mark.soak
@pytest.mark.cold
async def test_a_page_that_takes_the_square_of_its_size_ends_only_its_reader(servers: FakeWeb, web: ErrandWeb) -> None:
    servers.pages |= {"/": answer("<!--" * MIB), "/b": answer("<p>well")}

    failed = await refused(servers)
    got = await web.fetch(servers.url("/b"))

    assert (failed.code, got.text, running()) == ("web.too_complex", "well", [])


@pytest.mark.cold
async def test_a_page_that_takes_too_long_to_be_read_ends_only_its_reader(
    servers: FakeWeb, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "READING_S", 0.0)
    servers.pages["/"] = silent(servers)

    failed = await refused(servers, Limits(wall_s=0.01))

    assert (failed.code, "too much time or memory" in str(failed)) == ("web.too_complex", True)
    assert running() == []


@pytest.mark.cold
async def test_a_caller_that_is_cancelled_ends_the_process(servers: FakeWeb, web: ErrandWeb) -> None:
    servers.pages["/"] = silent(servers)
    asking = asyncio.create_task(web.fetch(servers.url()))
    await until(lambda: servers.asked)

    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking

    assert running() == []


@pytest.mark.cold
async def test_only_so_many_run_at_once_and_the_others_wait(servers: FakeWeb, web: ErrandWeb) -> None:
    servers.pages["/"] = silent(servers)
    asking = [asyncio.create_task(web.fetch(servers.url())) for _ in range(6)]
    await until(lambda: len(servers.asked) == 4)

    assert len(running()) == 4
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    servers.pages["/"] = answer("<p>free again")
    assert (await web.fetch(servers.url())).text == "free again"


async def test_a_page_that_is_to_be_connected_to_for_ever_is_left(servers: FakeWeb) -> None:
    """A socket that listens, and never takes what comes."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        port = deaf.getsockname()[1]
        allowance = replace(servers.allowance(), ports=(port,))
        web = ErrandWeb(allowance=allowance, limits=Limits(wall_s=0.5, connect_s=0.3))

        with pytest.raises(OzzieError) as failed:
            await web.fetch(f"http://site.example:{port}/")

    assert failed.value.code == "web.timed_out"
