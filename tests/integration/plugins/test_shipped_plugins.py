"""The plugins that Ozzie ships, as they are committed: their examples, what they ask for, and what they send."""

import json
from pathlib import Path
from typing import Any

import pytest
from _pytest.outcomes import Failed

from ozzie_server_ext.config.jsonc import parse_object
from ozzie_server_ext.plugins.manifest import find_plugin
from tests.documents.examples_read import text
from tests.plugin_harness import PLUGINS, SHIPPED, Host, WasmError, example, read_jsonc, shipped
from tests.rig import new_home, ozzie
from tests.tiers import rows

pytestmark = pytest.mark.timeout(120)

EXAMPLES = [(name, at) for name in SHIPPED for at in range(len(read_jsonc(PLUGINS / name / "examples.jsonc")))]
HALF_A_MILLION = 500_000


@pytest.mark.parametrize(("name", "at"), EXAMPLES)
def test_its_examples_hold(name: str, at: int) -> None:
    example(shipped(name), read_jsonc(PLUGINS / name / "examples.jsonc")[at])


@pytest.mark.parametrize("name", SHIPPED)
def test_they_hold_in_a_real_tool_host(tmp_path: Path, name: str) -> None:
    number = sum(name == each for each, _ in EXAMPLES)

    done = ozzie(new_home(tmp_path), "plugins", "test", str(PLUGINS / name))

    assert done.stdout.splitlines()[1:] == [f"{number} of {number} examples passed."]


@pytest.mark.parametrize(
    "wrong",
    [
        {"result": {"sent": True, "service": "Discord"}},
        {"error": "it"},
        {"result": {"sent": True, "service": "Slack"}, "answers": [{"url": "https://never.example/"}]},
    ],
)
def test_an_example_that_does_not_hold_fails(wrong: dict[str, Any]) -> None:
    right = read_jsonc(PLUGINS / "webhook" / "examples.jsonc")[0]
    example(shipped("webhook"), right)
    other = {**{key: value for key, value in right.items() if key != "result"}, **wrong}
    other["answers"] = [*right["answers"], *wrong.get("answers", [])]

    with pytest.raises((AssertionError, Failed)):
        example(shipped("webhook"), other)


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("duckduckgo-search", {"http:GET html.duckduckgo.com", "http:GET api.duckduckgo.com", "log"}),
        ("fetch", {"http:GET *"}),
        (
            "webhook",
            {"secret:WEBHOOK_URL"}
            | {
                f"http:POST {host}"
                for host in (
                    *("hooks.slack.com", "discord.com", "discordapp.com", "chat.googleapis.com", "ntfy.sh"),
                    *("*.logic.azure.com", "*.api.powerplatform.com"),
                )
            },
        ),
    ],
)
def test_it_asks_for_no_more_than_it_needs(name: str, asked: set[str]) -> None:
    found = find_plugin(PLUGINS / name)

    assert found.manifest.name == name
    assert {str(wish) for wish in found.manifest.capabilities.wishes} == asked


def test_the_search_has_the_manifest_of_the_documents() -> None:
    ours = read_jsonc(PLUGINS / "duckduckgo-search" / "manifest.jsonc")
    theirs = parse_object(text("plugin_duckduckgo.jsonc").encode(), PLUGINS).value

    assert isinstance(theirs, dict)
    # The page of results has moved since they were written.
    moved = json.loads(json.dumps(theirs).replace('"duckduckgo.com"', '"html.duckduckgo.com"'))
    assert {key: ours[key] for key in theirs} == moved
    assert set(ours) - set(theirs) == {"version", "description"}


# --- webhook ----------------------------------------------------------------------------------------------------------

SAID = 'Fertig: <a & b> @everyone "✓" <!channel>'
CARD = {
    "type": "message",
    "attachments": [
        {
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": [{"type": "TextBlock", "text": SAID, "wrap": True}],
            },
        }
    ],
}


@pytest.mark.parametrize(
    ("address", "sent"),
    [
        (
            "https://hooks.slack.com/services/T/B/x",
            {"text": SAID.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")},
        ),
        ("https://discord.com/api/webhooks/1/x", {"content": SAID, "allowed_mentions": {"parse": []}}),
        ("https://DISCORDAPP.com/api/webhooks/1/x", {"content": SAID, "allowed_mentions": {"parse": []}}),
        ("https://chat.googleapis.com/v1/spaces/A/messages?key=k", {"text": SAID}),
        ("https://prod-1.west.logic.azure.com:443/workflows/x?sig=y", CARD),
        ("https://a.b.environment.api.powerplatform.com/powerautomate/x", CARD),
        ("https://ntfy.sh/topic-1?x=y", {"topic": "topic-1", "message": SAID}),
    ],
)
def test_each_service_gets_its_own_form(address: str, sent: dict[str, Any]) -> None:
    is_ntfy = "ntfy" in address
    host = Host(
        [{"method": "POST", "url": "https://ntfy.sh/" if is_ntfy else address}], secrets={"WEBHOOK_URL": address}
    )

    result = shipped("webhook").call("notify", {"text": SAID}, host)

    (request,) = host.requests
    assert result["sent"] is True
    assert json.loads(request["body"]) == sent
    assert request["headers"] == {"Content-Type": "application/json"}
    # The address is filled in by the host: no log and no error of a request can show it.
    assert request["url"] == ("https://ntfy.sh/" if is_ntfy else "${secret:WEBHOOK_URL}")


@pytest.mark.parametrize(
    ("address", "said", "words"),
    [
        ("https://discord.com/api/webhooks/1/x", "ä" * 2001, "Discord takes at most 2000 characters"),
        ("https://ntfy.sh/topic", "ä" * 2049, "ntfy takes at most 4,096 bytes"),
        ("https://ntfy.sh/a/b", "hello", "names no topic"),
        ("https://logic.azure.com/x", "hello", "is no https:// address"),
        ("https://evil.example/?.logic.azure.com", "hello", "is no https:// address"),
        ("https://evil.example#.logic.azure.com", "hello", "is no https:// address"),
        ("", "hello", "is no https:// address"),
    ],
)
def test_what_cannot_be_sent_is_not_sent(address: str, said: str, words: str) -> None:
    host = Host(secrets={"WEBHOOK_URL": address})

    with pytest.raises(WasmError, match=words) as failed:
        shipped("webhook").call("notify", {"text": said}, host)

    assert host.requests == []
    assert not address or address not in str(failed.value)


def test_a_missing_secret_is_told_in_the_words_of_the_host() -> None:
    with pytest.raises(WasmError, match=r"^The secret WEBHOOK_URL is not set"):
        shipped("webhook").call("notify", {"text": "hello"}, Host())


# --- pages that mean harm ---------------------------------------------------------------------------------------------

BOMBS = {
    "tags": "<b>",
    "tags that never end": "<a ",
    "quotes that never end": '<p a="',
    "attributes": "<p a=1 b=2>",
    "ampersands": "&",
    "entities": "&amp;",
    "angle brackets": "<",
    "end tags": "</",
    "scripts": "<script>",
    "comments": "<!--",
    "titles": "<title>",
    "hidden parts": "<div hidden>",
    "list items": "<li>🧀",
    "results": "<a class='result__a' href='https://x.example/'>",
}


@pytest.mark.parametrize("kind", rows(BOMBS, "tags that never end", "ampersands", "scripts", "hidden parts", "results"))
def test_a_page_of_one_thing_over_and_over_is_read_in_the_memory_of_a_call(kind: str) -> None:
    page = BOMBS[kind] * (HALF_A_MILLION // len(BOMBS[kind]))
    headers = {"content-type": "text/html"}
    fetched = Host([{"url": "https://x.example/", "headers": headers, "body": page}])
    searched = Host(
        [
            {"url": "https://html.duckduckgo.com/html/?q=x", "headers": headers, "body": page},
            {
                "url": f"https://api.duckduckgo.com/?q=x{OPTIONS}",
                "body": '{"AbstractURL": "https://a.example", "Heading": "A"}',
            },
        ]
    )

    got = shipped("fetch").call("fetch", {"url": "https://x.example/", "max_chars": 1000}, fetched)
    found = shipped("duckduckgo-search").call("web_search", {"query": "x", "max_results": 3}, searched)

    assert len(got["text"]) <= 1000
    assert len(found["results"]) <= 1


OPTIONS = "&format=json&no_html=1&no_redirect=1&skip_disambig=1"


@pytest.mark.parametrize(
    "redirects",
    [
        [("https://x.example/", "https://x.example/")] * 4,
        [
            ("https://x.example/", "/a"),
            ("https://x.example/a", "b"),
            ("https://x.example/b", "?c"),
            ("https://x.example/b?c", "/d"),
        ],
    ],
)
def test_redirects_without_an_end_are_not_followed_for_ever(redirects: list[tuple[str, str]]) -> None:
    host = Host([{"url": url, "status": 302, "headers": {"location": to}} for url, to in redirects])

    with pytest.raises(WasmError, match="It redirects more than 3 times"):
        shipped("fetch").call("fetch", {"url": "https://x.example/", "max_chars": 1000}, host)

    assert len(host.requests) == 4


@pytest.mark.parametrize(
    "location",
    [
        "https://other.example/",
        "//other.example/a",
        "https://x.example@other.example/",
        "https://x.example.other.example/",
        "file:///etc/passwd",
    ],
)
def test_a_redirect_to_another_host_is_told_and_not_followed(location: str) -> None:
    host = Host([{"url": "https://x.example/", "status": 301, "headers": {"location": location}}])

    got = shipped("fetch").call("fetch", {"url": "https://x.example/", "max_chars": 1000}, host)

    assert (len(host.requests), got["status"]) == (1, 301)
    assert got["note"].startswith("It redirects to another host")
