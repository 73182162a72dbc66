"""docs/web.md: its rules are taken as they stand, its numbers are the code's, and it names every code of an error."""

import re
from pathlib import Path

from ozzie_server_ext.embedding import open_gate
from ozzie_server_ext.programs import web, web_download
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.web import port, reach
from ozzie_server_ext.web.reach import Limits

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "web.md").read_text()
SOURCES = (*(ROOT / "ozzie_server_ext" / "web").glob("*.py"), *(ROOT / "ozzie_server_ext" / "programs").glob("web*.py"))


async def test_its_rules_are_taken_as_they_stand() -> None:
    (rules,) = re.findall(r"```jsonc\n(.*?)```", PAGE, re.DOTALL)
    async with open_gate() as gate:
        gate.add(*builtin_tools())
        gate.set_policy(rules)

        searched = await gate.call("web_search", {"query": "x"})
        fetched = await gate.call("fetch_url", {"url": "https://www.rival.example/"})

    assert (searched.code, fetched.code) == ("policy.denied", "policy.denied")


def test_every_code_of_what_fails_is_told_and_no_other() -> None:
    raised = {code for source in SOURCES for code in re.findall(r'"(web\.[a-z_]+)"', source.read_text())}

    assert set(re.findall(r"^\| `(web\.[a-z_]+)` \|", PAGE, re.MULTILINE)) == raised


def test_its_numbers_are_those_of_the_code() -> None:
    limits = Limits()
    rows = (
        f"| a page, unpacked | {limits.body >> 20} MiB, {port.MAX_TAGS:,} tags |",
        f"| its text | {port.MAX_TEXT:,} characters |",
        f"| its unpacked size | {web_download.MAX_RATIO} times its packed size |",
        f"| the whole request, with redirects | {limits.wall_s:g} s |",
        f"| a connection | {limits.connect_s:g} s |",
        f"| reading the page | {web.MAX_CPU_S} s of CPU, {web.MAX_MEMORY >> 30} GiB, {reach.READING_S:g} s |",
        f"| requests at once | {reach.MAX_PROCESSES} |",
        f"| links of a page that count as given by it | {port.MAX_LINKS}, of {port.MAX_LINK} characters each |",
        f"| a search query | {port.MAX_QUERY} characters, {port.MAX_HITS} results |",
    )

    assert [row for row in rows if row not in PAGE] == []
    assert limits.redirects == 5
    assert limits.wall_s + reach.READING_S < web.MAX_WALL_S
