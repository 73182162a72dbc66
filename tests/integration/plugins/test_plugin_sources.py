"""The sources of plugins, built: what is committed is what they give, and the SDK reads JSON as Python does."""

import html
import json
import math
import random
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus, urljoin

import pytest

from ozzie_server_ext.config.jsonc import parse
from ozzie_server_ext.plugins import plugin_tool
from ozzie_server_ext.plugins.manifest import MAX_WASM, read_manifest
from ozzie_server_ext.programs import wasm_host, wasm_http
from tests.plugin_harness import (
    FUNCTIONS,
    MAX_PAGES,
    PLUGINS,
    ROOT,
    SHIPPED,
    TOOLCHAIN,
    Host,
    Wasm,
    WasmError,
    example,
    expect_clang,
    expect_toolchain,
    node,
)
from tests.tiers import SOAK

pytestmark = pytest.mark.timeout(180)

HEADER = (PLUGINS / "templates" / "c" / "ozzie.h").read_text()
FAKES = Path(__file__).resolve().parents[2] / "fakes"
GUIDE = (ROOT / "docs" / "writing-plugins.md").read_text()
CASES = 40_000 if SOAK else 500
_HALVES = re.compile("[\ud800-\udfff]")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped plugins, the probe of the SDK and the plugin of the guide, built from their sources."""
    expect_toolchain()
    folder = tmp_path_factory.mktemp("built")
    sources = {"probe": (FAKES / "sdk_probe.ts").read_text(), "guide": block("ts")}
    for name, source in sources.items():
        shutil.copytree(PLUGINS / "templates" / "assemblyscript", folder / "sources" / name)
        shutil.copytree(PLUGINS / "sdk", folder / "sources" / name / "sdk")
        (folder / "sources" / name / "plugin.ts").write_text(source)
    node(PLUGINS / "build.mjs", TOOLCHAIN, folder, *(folder / "sources" / name for name in sources), cwd=folder)
    return folder


def block(language: str, number: int = 0) -> str:
    """A block of code in the guide."""
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.S)[number]


@pytest.fixture(scope="module")
def probe(built: Path) -> Wasm:
    return Wasm(built / "probe" / "probe.wasm")


@pytest.fixture(scope="module")
def probe_in_c(tmp_path_factory: pytest.TempPathFactory) -> Wasm:
    expect_clang()
    file = tmp_path_factory.mktemp("c") / "probe.wasm"
    flags = ["-O2", "-nostdlib", "-fno-builtin", "-Wall", "-Wextra", "-Werror", "-Wl,--no-entry,--strip-all"]
    include = f"-I{PLUGINS / 'templates' / 'c'}"
    command = ["clang", "--target=wasm32", *flags, include, "-o", str(file), str(FAKES / "sdk_probe.c")]
    subprocess.run(command, check=True, timeout=60)
    return Wasm(file)


@pytest.mark.parametrize("name", SHIPPED)
def test_what_is_committed_is_what_the_sources_give(built: Path, name: str) -> None:
    committed = (PLUGINS / name / f"{name}.wasm").read_bytes()

    assert (built / name / f"{name}.wasm").read_bytes() == committed, "run make plugins, and commit what it builds"


def test_the_plugin_of_the_guide_does_what_it_says(built: Path) -> None:
    manifest = read_manifest(block("jsonc").encode(), Path("manifest.jsonc"))
    examples: Any = parse(block("jsonc", 1), "examples.jsonc").value

    assert [tool.name for tool in manifest.tools] == ["get_weather"]
    assert len(examples) == 3
    for each in examples:
        example(Wasm(built / "guide" / "guide.wasm"), each)


def test_the_guide_names_every_function_of_the_host() -> None:
    table = GUIDE.partition("| Function |")[2].partition("\n\n")[0]
    named = re.findall(r"^\| `(\w+)\(.*\| `(\w+)\(.*\| `(\w+)\(", table, re.M)
    exported = set(re.findall(r"^export function (\w+)", (PLUGINS / "sdk" / "ozzie.ts").read_text(), re.M))
    header = set(re.findall(r"^static UNUSED \S+ (\w+)\(", HEADER, re.M))

    assert {host for host, _, _ in named} == set(FUNCTIONS)
    assert {script for _, script, _ in named} == exported - {"input", "output", "fail", "abort"}
    assert {c for _, _, c in named} <= header
    assert set(re.findall(r"^OZZIE\((\w+)\)", HEADER, re.M)) == set(FUNCTIONS)


def test_the_limits_of_the_guide_are_those_of_the_host() -> None:
    limits = dict(re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", GUIDE.partition("## Limits")[2], re.M))

    assert limits == {
        "memory of a call": f"{MAX_PAGES >> 4} MiB",
        "time of a call": f"{plugin_tool.TIMEOUT_S:g} s, with all that it waits for",
        "requests of a call": (
            f"{wasm_host.MAX_REQUESTS}; each {wasm_http.TIMEOUT_S:g} s, "
            f"{wasm_http.MAX_BODY >> 20} MiB out and {wasm_http.MAX_ANSWER >> 20} MiB in"
        ),
        "notes": f"{wasm_host.MAX_NOTES >> 20} MiB of text, keys of 512 characters",
        "a file": f"{wasm_host.MAX_FILE >> 20} MiB",
        "lines in the log": f"{wasm_host.MAX_LOGGED} for a call, of {wasm_host.MAX_LOGGED_CHARS} characters",
        "the code": f"{MAX_WASM >> 20} MiB",
        "JSON that the SDK reads": "64 levels",
    }


# --- documents --------------------------------------------------------------------------------------------------------


def value(chosen: random.Random, depth: int) -> Any:
    """A JSON value. Numbers are rare ones, and texts have what is hard to write."""
    kind = chosen.randrange(9 if depth else 7)
    if kind == 7:
        return [value(chosen, depth - 1) for _ in range(chosen.randrange(4))]
    if kind == 8:
        return {text(chosen): value(chosen, depth - 1) for _ in range(chosen.randrange(4))}
    numbers = (chosen.randrange(-(2**70), 2**70), chosen.uniform(-1e3, 1e3), 10.0 ** chosen.randrange(-300, 300), -0.0)
    return (None, True, False, chosen.choice(numbers), text(chosen), text(chosen), chosen.randrange(-9, 9))[kind]


def text(chosen: random.Random) -> str:
    letters = 'ab "\\/\b\f\n\r\t\0\x1f\x7f\x85é߀\u2028\ufeff\uffff😀\U0010ffff\ud800\udc00\udfff'
    return "".join(chosen.choice(letters) for _ in range(chosen.randrange(8)))


def written(chosen: random.Random) -> str:
    """A document: most are JSON, some are nearly JSON."""
    whole = json.dumps(
        value(chosen, 5), indent=chosen.choice((None, None, 1, "\t")), ensure_ascii=chosen.random() < 0.7
    )
    if chosen.random() < 0.5:
        at = chosen.randrange(len(whole) + 1)
        odd = chosen.choice(
            ["", ",", '"', "\\", "]", "}", "{", "[", "0", "-", ".", "e", "\\u12", "\n", "\0", "nul", ":"]
        )
        whole = whole[:at] + odd + whole[at + chosen.randrange(3) :]
    return _HALVES.sub("?", whole)


HOSTILE = [
    *("", " ", "\ufeff1", "nul", "nulll", "True", "NaN", "Infinity", "-Infinity", "-", "+1", "01", "-01", "1.", ".5"),
    *("1e", "1e+", "1E-5", "0e0", "-0", "1" * 400, "0." + "3" * 400, "1e999", '"', '"\\', '"\\"', '"\\x"', '"\\u12"'),
    *(
        '"\\u+123"',
        '"\\u 123"',
        '"\\ud83d\\ude00"',
        '"\\ud83d"',
        '"\\ude00\\ud83d"',
        '"\\ud83d\\n"',
        '"\\ud83d\\u0041"',
    ),
    *('"\\u0000"', '"\t"', '"\x7f"', "[", "[,]", "[1,]", "[1 2]", "{", "{,}", '{"a"}', '{"a":}', '{"a":1,}', "{1:2}"),
    *('{"a":1,"b":2,"a":[3]}', '{"":{"":[]}}', "[]]", "1 1", "1\x0b", "\x0c1", "\xa01", "//1", "'a'", '["\u2028"]'),
    *("[" * 64 + "]" * 64, "[" * 65 + "]" * 65, '{"a":' * 64 + "1" + "}" * 64, '{"a":' * 65 + "1" + "}" * 65),
    *(
        "[" * 100_000,
        '{"a":' * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '["' * 1000,
        "[[],[]]",
        "[" + "1," * 50_000 + "1]",
    ),
]


def by_python(document: str) -> Any:
    """What Python reads, numbers as they are written and half surrogate pairs replaced; None for what is no JSON."""

    def number(digits: str) -> Any:
        return {"number": digits}

    def refuse(word: str) -> Any:
        raise ValueError(word)

    if depth_of(document) > 64:
        return None
    try:
        read = json.loads(document, parse_int=number, parse_float=number, parse_constant=refuse)
    except ValueError:
        return None
    return [repaired(read)]


def depth_of(document: str) -> int:
    deepest = depth = 0
    for mark in re.findall(r'"(?:\\.|[^"\\])*"?|[\[\]{}]', document, re.S):
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    return deepest


def repaired(read: Any) -> Any:
    if isinstance(read, str):
        return _HALVES.sub("\ufffd", read)
    if isinstance(read, list):
        return [repaired(each) for each in read]
    return {repaired(name): repaired(each) for name, each in read.items()} if isinstance(read, dict) else read


def test_the_sdk_reads_and_writes_json_as_python_does(probe: Wasm) -> None:
    chosen = random.Random(None if SOAK else 1)
    documents = [*HOSTILE, *(written(chosen) for _ in range(CASES))]

    results: list[str | None] = []
    for at in range(0, len(documents), 500):
        results += probe.call("rewrite", documents[at : at + 500])

    wrong = [
        (document[:200], result and result[:200])
        for document, result in zip(documents, results, strict=True)
        if (expected := by_python(document)) != (None if result is None else by_python(result))
        or (expected is None) != (result is None)
    ]
    assert wrong == []
    refused = sum(result is None for result in results)
    assert CASES * 0.2 < refused < CASES * 0.8, "both kinds were tried"


def test_numbers_are_read_and_written_exactly_or_not_at_all(probe: Wasm) -> None:
    chosen = random.Random(1)
    whole = [
        0,
        -0,
        1,
        -1,
        2**53,
        2**53 + 1,
        2**63 - 1,
        -(2**63),
        *(chosen.randrange(-(2**63), 2**63) for _ in range(500)),
    ]
    far = [2**63, -(2**63) - 1, 2**64, 2**64 + 5, 10**30]
    given = '[5.0, 5e3, -0.0, 12E-1, 1e-400, 0.5, "5", null, [5], true, 1e18]'
    floats = [0.1, 5e-324, 1.5e-320, 1.7976931348623157e308, 1 / 3, 1e21, 1.2109321954233146e39, 123456789.123456789]
    floats += [math.ldexp(chosen.random(), chosen.randrange(-1000, 1000)) for _ in range(2000)]
    short = [round(chosen.uniform(-1000, 1000), chosen.randrange(8)) for _ in range(500)]
    odd = (
        "[1e999, 1e99999999999999, 0e99999999999999, 1e-99999999999999, 1e00000000000000000005, 1E+2, "
        + "1" * 400
        + "]"
    )

    assert probe.call("ints", whole) == whole
    assert probe.call("ints", far) == [-7] * len(far)
    assert json.loads(probe.call_raw("ints", given.encode())) == [5, 5000, 0, -7, 0, -7, -7, -7, -7, -7, -7]
    assert probe.call("floats", floats) == pytest.approx(floats, rel=1e-15, abs=1e-323)
    assert probe.call("floats", short) == short
    assert json.loads(probe.call_raw("floats", odd.encode())) == [None, None, 0, 0, 100000, 100, None]
    assert probe.call("floats", ["x", None]) == [None, None]


# --- texts ------------------------------------------------------------------------------------------------------------


def test_texts_are_taken_apart_as_elsewhere(probe: Wasm) -> None:
    named = re.findall(r'"(\w+)", "', (PLUGINS / "sdk" / "html.ts").read_text().partition("ENTITIES")[2])
    entities = [f"<&{name};>" for name in named if name not in ("nbsp", "shy")]
    entities += [
        "&#228;&#xE4;&#x1F9C0;",
        "&amp;amp;",
        "&",
        "&;",
        "&#;",
        "&#x;",
        "&#xg;",
        "a&b;c",
        "&amp",
        "&" * 50,
        "&#65;&",
    ]
    quoted = [quote("grüezi 😀 & +"), "a+b", "%", "%4", "%zz", "%C3", "%C3%28", "%F0%9F%98", "%ED%A0%80", "%c3%a4", "ä"]
    links = ["https://x.example/", "//y.example/z", "/r", "s", "?t=1", "HTTP://u.example", "file:///a"]

    assert len(entities) > 60
    # Python takes some entities without their semicolon; here they stay as they are.
    assert probe.call("entities", entities) == [each if each == "&amp" else html.unescape(each) for each in entities]
    assert probe.call("entities", ["&nbsp;&#160;", "&#0;&#xD800;&#x110000;", "a&shy;b"]) == ["  ", "\ufffd" * 3, "ab"]
    assert [same_bytes(each) for each in probe.call("unquote", quoted)] == [
        same_bytes(unquote_plus(each)) for each in quoted
    ]
    assert probe.call("lines", [" a \n\t b\u00a0c ", "", "\n"]) == ["a b c", "", ""]
    assert probe.call("cut", [{"text": "a😀b", "most": most} for most in range(5)]) == ["", "a", "a", "a😀", "a😀b"]
    assert probe.call("links", links) == [urljoin("https://a.example:8443/b/c?d#e", each) for each in links]


class ByPython(HTMLParser):
    """A page's tokens, as the probe writes them."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(reversed(attrs))
        has = {True: "true", False: "false"}
        is_a = "a" in (named.get("class") or "").split()
        self.found.append(f"<{tag}|{named.get('title') or ''}|{has['hidden' in named]}|{has[is_a]}>")

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def markup(chosen: random.Random, depth: int) -> str:
    """Elements and texts, as authors write them."""
    if depth == 0 or chosen.random() < 0.3:
        return chosen.choice(
            ("a", "b c", " &amp; ", "&#228;&lt;", "3 < 4", "a > b", "<!-- <p> -->", "🧀", "\n", "5 & 6", "é")
        )
    attributes = (
        ' title="a > &quot;b&quot;"',
        " title='c'",
        " TITLE=d",
        " hidden",
        ' class="x a"',
        " class=a",
        "",
        "",
        "\n",
    )
    chosen_ones = "".join(chosen.sample(attributes, chosen.randrange(4)))
    name = chosen.choice(("p", "DIV", "h1", "x-y"))
    inner = "".join(markup(chosen, depth - 1) for _ in range(chosen.randrange(4)))
    return f"<{name}{chosen_ones}>{inner}</{name}>"


def test_pages_are_read_as_by_pythons_parser(probe: Wasm) -> None:
    chosen = random.Random(None if SOAK else 4)
    pages = [markup(chosen, 4) for _ in range(CASES // 4)]

    for page, tokens in zip(pages, probe.call("tokens", pages), strict=True):
        # Neighbouring texts may come in pieces.
        assert "\0".join(joined(tokens)) == "\0".join(joined(ByPython(page).found)), page


def joined(tokens: list[str]) -> list[str]:
    pieces: list[str] = []
    was_text = False
    for token in tokens:
        is_text = not re.match(r"</?[a-z][a-z0-9-]*[|>]", token)
        if is_text and was_text:
            pieces[-1] += token
        else:
            pieces.append(token)
        was_text = is_text
    return pieces


def test_no_page_is_too_broken(probe: Wasm) -> None:
    chosen = random.Random(None if SOAK else 5)
    odd = [
        "<",
        ">",
        "</",
        "<!--",
        "-->",
        "<!",
        "<?",
        '"',
        "'",
        "=",
        "&",
        "&#",
        "&#x41;",
        ";",
        "/",
        " ",
        "\0",
        "p",
        "<p",
        "<script>",
    ]
    odd += [
        "</script",
        "<title>",
        "</title>",
        "<a href=",
        "class=a",
        "\ufffd",
        "🧀",
        "<textarea>",
        "<style>",
        "<p/>",
        "<p /a=/>",
    ]
    pages = ["".join(chosen.choices(odd, k=chosen.randrange(30))) for _ in range(CASES)]

    for tokens in probe.call("tokens", pages):
        assert all(isinstance(token, str) for token in tokens)


def same_bytes(decoded: str) -> str:
    """How many U+FFFD stand for wrong bytes in a row is a matter of taste."""
    return re.sub("\ufffd+", "\ufffd", decoded)


LONG = "grüezi 😀\0\n" * 1000


@pytest.mark.parametrize("said", ["", "ü", "😀" * 7, LONG])
def test_texts_reach_the_host_and_come_back_whole(probe: Wasm, probe_in_c: Wasm, said: str) -> None:
    for each in (probe, probe_in_c):
        host = Host()

        assert each.call("keep", said, host) == said
        assert (host.notes, host.logged) == ({"klüfte": said}, [("info", said)])


def test_all_that_the_host_has_can_be_asked_for(probe: Wasm, probe_in_c: Wasm) -> None:
    answers = [
        {"url": "https://a.example/", "body": '{"a": [1.50]}'},
        {"url": "https://a.example/put", "method": "PUT", "status": 201, "headers": {"X-Answer": "jä"}},
    ]
    for each in (probe, probe_in_c):
        host = Host(answers, config={"limits": {"most": 3}}, secrets={"KEY": "k"}, env={"LANG": "C"})

        found = each.call("reach", "Text ü", host)

        assert found == ["Text ü", "C", {"most": 3}, "k", {"a": [1.5]}, "jä", 201]
        assert host.files == {"a/ü.txt": "Text ü"}
        assert host.requests == [
            {"method": "GET", "url": "https://a.example/", "headers": {}, "body": ""},
            {"method": "PUT", "url": "https://a.example/put", "headers": {"X-Key": "${secret:KEY}"}, "body": "grüezi"},
        ]


def test_errors_are_told_in_words(probe: Wasm, probe_in_c: Wasm) -> None:
    with pytest.raises(WasmError, match=r"^Grüezi 😀: so nicht$"):
        probe.call("fail", "Grüezi 😀: so nicht")
    with pytest.raises(WasmError, match=r"^Index out of range$"):
        probe.call("beyond", [1])
    with pytest.raises(WasmError, match=r"^The arguments are no JSON"):
        probe.call_raw("echo", b"{")
    with pytest.raises(WasmError, match=r"^The secret NOT_SET is not set"):
        probe_in_c.call("secret", {})


def test_two_mebibytes_fit_into_the_memory_of_a_call(probe: Wasm) -> None:
    page = {"ok": ["é\n" * 600_000, *range(20_000)]}

    assert probe.call("echo", page) == page


def test_the_header_for_c_reads_and_writes_json_as_python_does(probe_in_c: Wasm) -> None:
    chosen = random.Random(None if SOAK else 2)
    for _ in range(CASES // 4):
        said, number = text(chosen), chosen.choice((chosen.randrange(-(10**17), 10**17), 1.5, "5", None))
        at_three = [value(chosen, 3) for _ in range(chosen.randrange(5))]
        members = {text(chosen): value(chosen, 3) for _ in range(3)} | {'schlüssel "1"': value(chosen, 3)}
        as_list = chosen.random() < 0.5
        document = json.dumps(at_three if as_list else members, indent=chosen.choice((None, 2)))
        given = {"text": said, "int": number, "document": document}

        raw = probe_in_c.call_raw("probe", json.dumps(given).encode())

        found, expected = json.loads(raw.decode()), repaired(json.loads(json.dumps(said)))
        assert (found["text"], found["escaped"], found["beginning"]) == (
            expected,
            quote(expected, safe="~"),
            expected[:3],
        )
        assert found["int"] == (number if isinstance(number, int) else -7)
        wanted = None if as_list else json.loads(document)['schlüssel "1"']
        assert (json.loads(found["member"] or "null"), bool(found["member"])) == (wanted, not as_list)
        third = json.loads(document)[2] if as_list and len(at_three) > 2 else None
        assert (json.loads(found["item"] or "null"), bool(found["item"])) == (third, as_list and len(at_three) > 2)


def test_the_header_for_c_takes_any_garbage(probe_in_c: Wasm) -> None:
    chosen = random.Random(3)
    for document in (*HOSTILE, *(written(chosen) for _ in range(CASES // 4))):
        given = {"text": "a", "int": 1, "document": document}

        assert probe_in_c.call("probe", given)["text"] == "a"
