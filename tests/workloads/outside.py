"""What people ask for that needs the web, and then something done with it in the project.

How the mix was chosen: things that somebody at that work asks of an assistant that can read pages, 15 or 16 for each
kind of user. All of them read something outside; most end in an answer, a reckoning, a note of the agent's own or a
file of the sandbox's, and the others change files. Prompts are those of the default policy. It is a judgement, as in
`WORKLOADS`.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ozzie_server_ext.models.scripted import Use
from tests.workloads.internet import rows
from tests.workloads.workload import Asks, Seen, Workload, calc, edit, look, now, read, write

SERVICE = '{"workers": 4, "timeout_s": 30}\n'
PROJECT = '[project]\nname = "app"\ndependencies = ["frame>=3.1"]\n'
CODE = "import frame\n\ntable = frame.load('sales.csv')\n"
OTHER = "import frame\n\nprices = frame.load('prices.csv')\n"
SALES = "day,eur\n2026-02-25,100\n2026-02-26,50\n"
REPORT = "# Report\n\nAll runs - great!\n"
NOTES = "# Suppliers\n\n- Large: 45\n"
SITES = "site,height\nBern,540\nLugano,273\n"
BIB = "@article{okafor2019,\n title={B}}\n"


def get(path: str) -> Use:
    return Use("fetch_url", {"url": f"{{site}}{path}"})


def find(query: str) -> Use:
    return Use("web_search", {"query": query})


def note(name: str, text: str) -> Use:
    return Use("write_note", {"name": name, "text": text})


def run(code: str) -> Use:
    return Use("python", {"code": code})


def follow(words: str) -> Callable[[Seen], Use]:
    """The link of that text on the page that was read last."""

    def use(seen: Seen) -> Use:
        return Use("fetch_url", {"url": _text(seen).split(f"[{words}](")[1].split(")")[0]})

    return use


def hit(number: int = 0) -> Callable[[Seen], Use]:
    return lambda seen: Use("fetch_url", {"url": seen.last["results"][number]["url"]})


def keep(name: str, made: Callable[[Seen], str]) -> Callable[[Seen], Use]:
    return lambda seen: note(name, made(seen))


def _text(seen: Seen) -> str:
    """Of the page that was read last."""
    return str([call for call in seen.calls if call.name == "fetch_url"][-1].data["text"])


def _data(seen: Seen) -> Any:
    return json.loads(_text(seen))


def _printed(seen: Seen) -> str:
    return str(seen.last["output"]).strip()


def _line(seen: Seen, word: str) -> str:
    return next(line.strip() for line in _text(seen).splitlines() if word in line)


def _of(who: str, name: str, message: str, rounds: Sequence[Asks], says: str, **more: Any) -> Workload:
    settings: dict[str, Any] = {"files": {}, "answer": lambda seen: says}
    return Workload(who=who, name=name, message=message, rounds=rounds, says=says, **(settings | more))  # type: ignore[arg-type]


_scientist, _analyst = partial(_of, "scientist"), partial(_of, "analyst")
_engineer, _operator = partial(_of, "engineer"), partial(_of, "operator")

OUTSIDE = (
    # --- scientist
    _scientist("sum up a paper", "What does {site}/paper find?", [get("/paper")], "18 days", answer=_text),
    _scientist(
        "follow a DOI", "What is {site}/doi/10.1000/snow about?", [get("/doi/10.1000/snow")], "Snow", answer=_text
    ),
    _scientist(
        "find a paper",
        "Find the paper on snow and runoff.",
        [find("snow runoff paper"), hit()],
        "41 stations",
        answer=_text,
    ),
    _scientist(
        "data behind a paper",
        "How many years has the data of {site}/paper?",
        [get("/paper"), follow("Data"), lambda seen: calc(f"{len(rows(_text(seen)))}+0")],
        "36",
        answer=lambda seen: seen.values[0],
    ),
    _scientist(
        "trend of a series",
        "What is the slope per year of {site}/paper/data.csv?",
        [
            get("/paper/data.csv"),
            lambda seen: run(
                f"rows = [l.split(',') for l in {_text(seen)!r}.split()[1:]]\n"
                "a, b = rows[0], rows[-1]\nprint(round((float(b[1]) - float(a[1])) / (int(b[0]) - int(a[0])), 2))"
            ),
        ],
        "2.1",
        answer=_printed,
    ),
    _scientist(
        "check heights against a source",
        "Do our heights in @sites.csv agree with {site}/stations.csv?",
        [get("/stations.csv"), read("sites.csv")],
        "Bern",
        files={"sites.csv": SITES},
        answer=lambda seen: ", ".join(
            row["site"]
            for row in seen.rows("sites.csv")
            if row["height"] not in {each["height"] for each in rows(_text(seen))}
        ),
    ),
    _scientist(
        "correct a height",
        "Correct sites.csv by {site}/stations.csv.",
        [get("/stations.csv"), read("sites.csv"), edit("sites.csv", "Bern,540", "Bern,553")],
        "Bern",
        files={"sites.csv": SITES},
        leaves={"sites.csv": SITES.replace("540", "553")},
    ),
    _scientist(
        "may we use the data",
        "May we publish with the data of {site}/licence.txt?",
        [get("/licence.txt")],
        "attribution",
        answer=_text,
    ),
    _scientist(
        "remember a source",
        "Keep in your notes what {site}/paper used.",
        [get("/paper"), keep("snow", lambda seen: _line(seen, "stations"))],
        "41 stations",
        answer=lambda seen: _line(seen, "stations"),
    ),
    _scientist(
        "cite a paper",
        "Add {site}/paper to refs.bib.",
        [get("/paper"), read("refs.bib"), edit("refs.bib", "title={B}}", "title={B}}\n@article{snow,\n title={Snow}}")],
        "snow",
        files={"refs.bib": BIB},
        leaves={"refs.bib": BIB + "@article{snow,\n title={Snow}}\n"},
    ),
    _scientist(
        "stations above a height",
        "Which stations of {site}/stations.csv lie above 500 m?",
        [get("/stations.csv")],
        "Bern, Jungfraujoch",
        answer=lambda seen: ", ".join(row["name"] for row in rows(_text(seen)) if int(row["height"]) > 500),
    ),
    _scientist(
        "mean height",
        "Mean height of the stations in {site}/stations.csv?",
        [get("/stations.csv"), lambda seen: calc("+".join(row["height"] for row in rows(_text(seen))) + "+0")],
        "4406",
        answer=lambda seen: seen.values[0],
    ),
    _scientist(
        "decision in long minutes",
        "What was decided at {site}/minutes?",
        [get("/minutes")],
        "15 May",
        answer=lambda seen: str(seen.last["kept"][0]["tail"]),
    ),
    _scientist(
        "days until a deadline",
        "How many days are left until what {site}/minutes decided?",
        [get("/minutes"), now("Europe/Zurich"), calc("29+30+15")],
        "74 days",
        answer=lambda seen: f"{seen.values[0]} days",
    ),
    _scientist(
        "two papers in a row",
        "Find the paper on snow and runoff, then look for the queue's runbook.",
        [find("snow runoff paper"), hit(), find("queue full runbook")],
        "Runbook",
        answer=lambda seen: str(seen.last["results"][0]["title"]),
    ),
    # --- analyst
    _analyst(
        "rate of today",
        "What is 250 EUR in CHF by {site}/api/rates?",
        [get("/api/rates"), lambda seen: calc(f"round(250/{_data(seen)['rates']['EUR']}, 2)")],
        "233.64",
        answer=lambda seen: seen.values[0],
    ),
    _analyst(
        "sales in another currency",
        "What do the sales of @sales.csv make in CHF by {site}/api/rates?",
        [
            get("/api/rates"),
            read("sales.csv"),
            lambda seen: calc(
                f"round(({'+'.join(r['eur'] for r in seen.rows('sales.csv'))})/{_data(seen)['rates']['EUR']}, 2)"
            ),
        ],
        "140.19",
        files={"sales.csv": SALES},
        answer=lambda seen: seen.values[0],
    ),
    _analyst(
        "price of a plan",
        "What does the large plan of {site}/prices cost a year?",
        [get("/prices"), calc("49*12")],
        "588",
        answer=lambda seen: seen.values[0],
    ),
    _analyst(
        "is our list of prices right",
        "Does notes/suppliers.md have the price of {site}/prices?",
        [get("/prices"), read("notes/suppliers.md")],
        "no, 49",
        files={"notes/suppliers.md": NOTES},
        answer=lambda seen: "yes" if "49" in seen.text("notes/suppliers.md") else "no, 49",
    ),
    _analyst(
        "correct our list of prices",
        "Put the price of {site}/prices into notes/suppliers.md.",
        [get("/prices"), read("notes/suppliers.md"), edit("notes/suppliers.md", "Large: 45", "Large: 49")],
        "49",
        files={"notes/suppliers.md": NOTES},
        leaves={"notes/suppliers.md": NOTES.replace("45", "49")},
    ),
    _analyst(
        "which holidays are left",
        "Which holidays of {site}/api/holidays come after March?",
        [get("/api/holidays")],
        "2026-04-03",
        answer=lambda seen: ", ".join(day for day in _data(seen)["2026"] if day > "2026-03-31"),
    ),
    _analyst(
        "find the holidays",
        "When are the Swiss holidays of 2026?",
        [find("swiss holidays 2026"), hit()],
        "2026-08-01",
        answer=lambda seen: ", ".join(_data(seen)["2026"]),
    ),
    _analyst(
        "how long are exports kept",
        "How long does the service keep exports, by {site}/faq?",
        [get("/faq")],
        "30 days",
        answer=_text,
    ),
    _analyst(
        "find how long exports are kept",
        "How long are exports kept? Search for it.",
        [find("export retention"), hit()],
        "30 days",
        answer=_text,
    ),
    _analyst(
        "write what was found",
        "Write what {site}/faq says of exports to notes/exports.md.",
        [get("/faq"), write("notes/exports.md", "Exports are kept for 30 days.\n")],
        "notes/exports.md",
        leaves={"notes/exports.md": "Exports are kept for 30 days.\n"},
    ),
    _analyst(
        "report in house style",
        "Bring report.md into the style of {site}/style.",
        [get("/style"), read("report.md"), edit("report.md", "great!", "great.")],
        "report.md",
        files={"report.md": REPORT},
        leaves={"report.md": REPORT.replace("!", ".")},
    ),
    _analyst(
        "is the report in house style",
        "Does report.md follow {site}/style?",
        [get("/style"), read("report.md")],
        "an exclamation mark",
        files={"report.md": REPORT},
        answer=lambda seen: "an exclamation mark" if "!" in seen.text("report.md") else "yes",
    ),
    _analyst(
        "chart of a series",
        "Draw {site}/paper/data.csv as bars of text.",
        [
            get("/paper/data.csv"),
            lambda seen: run(
                f"import os\nrows = [l.split(',') for l in {_text(seen)!r}.split()[1:]]\n"
                "bars = '\\n'.join(y + ' ' + '#' * int(float(v) / 10) for y, v in rows)\n"
                "open(os.environ['OUT'] + '/bars.txt', 'w').write(bars)\n"
                "print(len(rows))"
            ),
        ],
        "36 bars",
        answer=lambda seen: f"{_printed(seen)} bars",
    ),
    _analyst(
        "remember the rate",
        "Note the dollar of {site}/api/rates for later.",
        [get("/api/rates"), keep("rate", lambda seen: f"USD {_data(seen)['rates']['USD']}")],
        "USD 1.13",
        answer=lambda seen: f"USD {_data(seen)['rates']['USD']}",
    ),
    _analyst(
        "compare two pages",
        "Compare {site}/prices with {site}/faq: what is the limit, and what does Large cost?",
        [get("/prices"), get("/faq")],
        "100 requests",
        answer=_text,
    ),
    # --- engineer
    _engineer(
        "how to join",
        "How do I join two frames, by {site}/guide/joins?",
        [get("/guide/joins")],
        "on='id'",
        answer=_text,
    ),
    _engineer(
        "search how to join",
        "How do I join two tables with frame?",
        [find("frame join two tables"), hit()],
        "left.join",
        answer=_text,
    ),
    _engineer(
        "read on in the guide",
        "Look at {site}/guide, and what it says of joins.",
        [get("/guide"), follow("Joins")],
        "left.join",
        answer=_text,
    ),
    _engineer(
        "what changed",
        "What is new in {site}/changelog?",
        [get("/changelog")],
        "leap-day",
        answer=_text,
    ),
    _engineer(
        "latest version",
        "Which version of frame is the latest, by {site}/api/releases?",
        [get("/api/releases")],
        "3.2.0",
        answer=lambda seen: _data(seen)["latest"],
    ),
    _engineer(
        "do we need the update",
        "Are we affected by {site}/advisory/7? Look into pyproject.toml.",
        [get("/advisory/7"), read("pyproject.toml")],
        "yes",
        files={"pyproject.toml": PROJECT},
        answer=lambda seen: "yes" if "3.1" in seen.text("pyproject.toml") else "no",
    ),
    _engineer(
        "update a dependency",
        "Update frame as {site}/advisory/7 says.",
        [get("/advisory/7"), read("pyproject.toml"), edit("pyproject.toml", "frame>=3.1", "frame>=3.2")],
        "3.2",
        files={"pyproject.toml": PROJECT},
        leaves={"pyproject.toml": PROJECT.replace("3.1", "3.2")},
    ),
    _engineer(
        "who uses what is deprecated",
        "Which files use what {site}/guide calls deprecated?",
        [get("/guide"), Use("search", {"query": "frame.load"})],
        "app/a.py",
        files={"app/a.py": CODE, "app/b.py": OTHER},
        answer=lambda seen: ", ".join(match["path"] for match in seen.last["matches"]),
    ),
    _engineer(
        "replace what is deprecated in two files",
        "Replace what {site}/guide calls deprecated in app/.",
        [
            get("/guide"),
            read("app/a.py"),
            edit("app/a.py", "frame.load", "frame.read"),
            read("app/b.py"),
            edit("app/b.py", "frame.load", "frame.read"),
        ],
        "app/",
        files={"app/a.py": CODE, "app/b.py": OTHER},
        leaves={"app/a.py": CODE.replace("load", "read"), "app/b.py": OTHER.replace("load", "read")},
        extent="session",
    ),
    _engineer(
        "try an example of the guide",
        "Does 2026 have the leap day that {site}/changelog speaks of?",
        [get("/changelog"), run("import calendar\nprint(calendar.isleap(2026))")],
        "False",
        answer=_printed,
    ),
    _engineer(
        "defaults of a library",
        "Which defaults has frame, by {site}/guide, and what do we set in config.json?",
        [get("/guide"), read("config.json")],
        "timeout",
        files={"config.json": SERVICE},
        answer=_text,
    ),
    _engineer(
        "count the lines of our code beside a page",
        "Read {site}/style, then tell how many lines of Python we have.",
        [get("/style"), Use("shell", {"command": "cat app/*.py | wc -l"})],
        "6",
        files={"app/a.py": CODE, "app/b.py": OTHER},
        answer=_printed,
    ),
    _engineer(
        "plan a change as a note",
        "Read {site}/changelog and keep a plan for our update.",
        [get("/changelog"), read("pyproject.toml"), note("plan", "1. Raise frame to 3.2.0. 2. Run the tests.")],
        "plan",
        files={"pyproject.toml": PROJECT},
    ),
    _engineer(
        "advisories by a search",
        "Is there an advisory on frame? What came with the update?",
        [
            find("frame advisory"),
            hit(0),
            lambda seen: Use("fetch_url", {"url": seen.calls[0].data["results"][1]["url"]}),
        ],
        "leap-day",
        answer=_text,
    ),
    _engineer(
        "which Python does it need",
        "Which Python does frame need, by {site}/api/releases?",
        [get("/api/releases")],
        ">=3.10",
        answer=lambda seen: _data(seen)["python"],
    ),
    _engineer(
        "an address that nobody gave",
        "Read {site}/guide and then the page on its errors.",
        [get("/guide"), Use("fetch_url", {"url": "{site}/guide/errors"})],
        "no such page",
        fails=1,
    ),
    # --- operator
    _operator(
        "state of a service",
        "How is the queue, by {site}/api/status?",
        [get("/api/status")],
        "degraded",
        answer=lambda seen: _data(seen)["state"],
    ),
    _operator(
        "since when",
        "For how long is the queue down, by {site}/api/status?",
        [get("/api/status"), now("UTC"), calc("(9*60+30)-(8*60+10)")],
        "80 minutes",
        answer=lambda seen: f"{seen.values[0]} minutes",
    ),
    _operator(
        "backlog in hours",
        "How long does the backlog of {site}/api/status take at 30 a minute?",
        [get("/api/status"), lambda seen: calc(f"{_data(seen)['backlog']}/30/60")],
        "3 hours",
        answer=lambda seen: f"{float(seen.values[0]):g} hours",
    ),
    _operator(
        "find the runbook",
        "The queue is full: what does the runbook say?",
        [find("queue full runbook"), hit()],
        "workers",
        answer=_text,
    ),
    _operator(
        "what the runbook would change",
        "By {site}/runbook, what would change in service.json?",
        [get("/runbook"), read("service.json")],
        "from 4 to 8",
        files={"service.json": SERVICE},
        answer=lambda seen: f"from {json.loads(seen.text('service.json'))['workers']} to 8",
    ),
    _operator(
        "do what the runbook says",
        "Do in service.json what {site}/runbook says.",
        [get("/runbook"), read("service.json"), edit("service.json", '"workers": 4', '"workers": 8')],
        "8 workers",
        files={"service.json": SERVICE},
        leaves={"service.json": SERVICE.replace("4", "8")},
    ),
    _operator(
        "limits of an interface",
        "Are we over the limit of {site}/faq? See requests.log.",
        [get("/faq"), Use("shell", {"command": "wc -l < requests.log"})],
        "120",
        files={"requests.log": "GET /\n" * 120},
        answer=_printed,
    ),
    _operator(
        "errors since the page changed",
        "Which lines of app.log name what {site}/changelog calls yanked?",
        [get("/changelog"), Use("search", {"query": "3.1.9", "path": "logs"})],
        "1 line",
        files={"logs/app.log": "start\nframe 3.1.9 loaded\n"},
        answer=lambda seen: f"{len(seen.last['matches'])} line",
    ),
    _operator(
        "remember the incident",
        "Keep a note of the incident at {site}/api/status.",
        [
            get("/api/status"),
            keep("incident", lambda seen: f"queue {_data(seen)['state']} since {_data(seen)['since']}"),
        ],
        "queue degraded",
        answer=lambda seen: f"queue {_data(seen)['state']}",
    ),
    _operator(
        "write the incident down",
        "Write the incident at {site}/api/status to incidents/queue.md.",
        [
            get("/api/status"),
            look(),
            lambda seen: write("incidents/queue.md", f"Queue {_data(seen)['state']} since {_data(seen)['since']}.\n"),
        ],
        "incidents/queue.md",
        leaves={"incidents/queue.md": "Queue degraded since 2026-03-02T08:10:00Z.\n"},
    ),
    _operator(
        "is tomorrow a holiday",
        "Is tomorrow a holiday, by {site}/api/holidays?",
        [get("/api/holidays"), now("Europe/Zurich")],
        "no",
        answer=lambda seen: "yes" if "2026-03-03" in _data(seen)["2026"] else "no",
    ),
    _operator(
        "two services at once",
        "How are the queue ({site}/api/status) and the rates ({site}/api/rates)?",
        [(get("/api/status"), get("/api/rates"))],
        "2026-02-27",
        answer=lambda seen: _data(seen)["date"],
    ),
    _operator(
        "which plan do we need",
        "Which plan of {site}/prices for 60 a month?",
        [get("/prices")],
        "Large",
        answer=_text,
    ),
    _operator(
        "a page that was moved",
        "Read {site}/doi/10.1000/snow for its number of stations.",
        [get("/doi/10.1000/snow")],
        "41 stations",
        answer=_text,
    ),
    _operator(
        "search again after reading",
        "What does the runbook say of a full queue? Is there an advisory on frame, too?",
        [find("queue full runbook"), hit(), find("frame advisory"), hit()],
        "frame before 3.2.0",
        answer=_text,
    ),
    _operator(
        "runbook into two files",
        "Do in service.json what {site}/runbook says, and write it to changes.md.",
        [
            get("/runbook"),
            read("service.json"),
            edit("service.json", '"workers": 4', '"workers": 8'),
            write("changes.md", "Workers: 8.\n"),
        ],
        "done",
        files={"service.json": SERVICE},
        leaves={"service.json": SERVICE.replace("4", "8"), "changes.md": "Workers: 8.\n"},
    ),
)
