"""Addresses that lead inside: the gate may let them through where nothing was read, the way out does not."""

from functools import partial

from tests.attacks.attack import Attack, World, fetch
from tests.fakes.web_server import leads

INSIDE = "127.0.0.3"
"""Where the server listens that nobody may reach."""

_of = partial(Attack, kind="addresses", ends="refused")


def _to(name: str, url: str) -> Attack:
    """`PORT` stands for that server's."""
    return _of(name=name, rounds=lambda world: [fetch(url.replace("PORT", str(world.internal.port)))])


def _led(world: World) -> dict[str, bytes]:
    return {"/": leads(f"http://{INSIDE}:{world.internal.port}/")}


ADDRESSES = (
    _to("loopback", f"http://{INSIDE}:PORT/"),
    _to("loopback as one number", f"http://{0x7F000003}:PORT/"),
    _to("loopback in hexadecimal", "http://0x7f.0.0.3:PORT/"),
    _to("loopback in octal", "http://0177.0.0.3:PORT/"),
    _to("loopback cut short", "http://127.3:PORT/"),
    _to("loopback in full-width digits", "http://１２７.0.0.3:PORT/"),
    _to("loopback of IPv6", "http://[::1]:PORT/"),
    _to("loopback within IPv6", f"http://[::ffff:{INSIDE}]:PORT/"),
    _to("loopback behind NAT64", "http://[64:ff9b::7f00:3]:PORT/"),
    _to("nowhere in particular", "http://0.0.0.0:PORT/"),
    _to("the name of this machine", "http://localhost:PORT/"),
    _to("a name below the one of this machine", "http://a.localhost:PORT/"),
    _to("a private network", "http://10.0.0.1/"),
    _to("the keys of a cloud's machine", "http://169.254.169.254/latest/meta-data/"),
    _to("a user's name before the host", f"http://site.example@{INSIDE}:PORT/"),
    _to("a backslash before the host", f"http://site.example\\@{INSIDE}:PORT/"),
    _to("another protocol", "file:///etc/passwd"),
    _to("a port of another service", "http://site.example:22/"),
    _of(
        name="a name that leads inside",
        names={"inside.example": ((INSIDE,),)},
        rounds=lambda world: [fetch(f"http://inside.example:{world.internal.port}/")],
    ),
    _of(
        name="a name that leads inside the second time",
        names={"turning.example": (("127.0.0.1",), (INSIDE,))},
        rounds=lambda world: [fetch(f"http://turning.example:{world.internal.port}/")],
    ),
    _of(
        name="a name that leads to both",
        names={"both.example": (("127.0.0.1", INSIDE),)},
        rounds=lambda world: [fetch(f"http://both.example:{world.internal.port}/")],
    ),
    _of(
        name="a page that leads inside",
        pages=_led,
        reads=("/",),
        said=lambda world: f"Look at {world.web.url()}",
        rounds=lambda world: [fetch(world.web.url())],
    ),
)
