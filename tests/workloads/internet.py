"""The pages that the tasks of `outside` read: a small web, as there is a large one. `{site}` stands for its address."""

import csv
import io
import json
from collections.abc import Mapping

from tests.fakes.web_server import FakeWeb, answer, leads
from tests.unit.programs.test_web_hits import result, results_page, through

RATES = {"base": "CHF", "date": "2026-02-27", "rates": {"EUR": 1.07, "USD": 1.13}}
STATUS = {"service": "queue", "state": "degraded", "since": "2026-03-02T08:10:00Z", "backlog": 5400}
RELEASES = {"name": "frame", "latest": "3.2.0", "yanked": ["3.1.9"], "python": ">=3.10"}
HOLIDAYS = {"2026": ["2026-01-01", "2026-04-03", "2026-04-06", "2026-05-14", "2026-08-01", "2026-12-25"]}
SERIES = "year,co2\n" + "".join(f"{year},{350 + (year - 1990) * 2.1:.1f}\n" for year in range(1990, 2026))
STATIONS = "id,name,height\nb,Bern,553\nj,Jungfraujoch,3580\nl,Lugano,273\n"
GUIDE = """<title>Guide</title><nav><a href="/">Home</a></nav><main><h1>Frames</h1>
<p>Call <code>frame.read(path, sep=",")</code>. Since 3.0 <code>load</code> is deprecated: use <code>read</code>.</p>
<p>Defaults: <code>timeout=30</code>, <code>retries=2</code>.</p>
<ul><li><a href="/guide/joins">Joins</a></li><li><a href="/changelog">Changes</a></li></ul></main>"""
JOINS = "<main><h1>Joins</h1><p>Use <code>left.join(right, on='id', how='inner')</code>.</p></main>"
CHANGES = """<main><h1>Changes</h1><h2>3.2.0</h2><p>Faster joins. Fixes the leap-day bug.</p>
<h2>3.1.9</h2><p>Yanked: it lost rows.</p></main>"""
PAPER = """<article><h1>Snow and runoff</h1><p>Abstract. We used 41 stations from 1990 to 2020. Runoff peaks
18 days earlier (p = 0.004).</p><p>DOI 10.1000/snow</p><a href="/paper/data.csv">Data</a></article>"""
LICENCE = (
    "Permission is granted to use, copy and modify this data for any purpose, with attribution to the Snow Office.\n"
)
FAQ = (
    "<main><h2>How long are exports kept?</h2><p>30 days.</p><h2>Which limit?</h2><p>100 requests a minute.</p></main>"
)
PRICES = """<main><table><tr><th>Plan</th><th>Month</th></tr><tr><td>Small</td><td>12</td></tr>
<tr><td>Large</td><td>49</td></tr></table></main>"""
ADVISORY = """<article><h1>Advisory 7</h1>
<p>frame before 3.2.0 reads files outside of its folder. Update to 3.2.0.</p></article>"""
RUNBOOK = """<main><h1>Queue is full</h1><ol><li>Set <code>workers</code> to 8.</li><li>Restart.</li></ol></main>"""
STYLE = (
    "<main><h1>Style</h1><p>Dates are written 2026-03-02. Numbers have a thin space. No exclamation marks.</p></main>"
)
LONG = (
    "<main><h1>Minutes</h1>" + "<p>Talk and more talk.</p>" * 3000 + "<p>Decision: the deadline is 15 May.</p></main>"
)

_SITE: Mapping[str, tuple[str, str]] = {
    "/guide": (GUIDE, "text/html"),
    "/guide/joins": (JOINS, "text/html"),
    "/changelog": (CHANGES, "text/html"),
    "/faq": (FAQ, "text/html"),
    "/prices": (PRICES, "text/html"),
    "/advisory/7": (ADVISORY, "text/html"),
    "/runbook": (RUNBOOK, "text/html"),
    "/style": (STYLE, "text/html"),
    "/minutes": (LONG, "text/html"),
    "/paper": (PAPER, "text/html"),
    "/paper/data.csv": (SERIES, "text/csv"),
    "/stations.csv": (STATIONS, "text/csv"),
    "/licence.txt": (LICENCE, "text/plain"),
    "/api/rates": (json.dumps(RATES), "application/json"),
    "/api/status": (json.dumps(STATUS), "application/json"),
    "/api/releases": (json.dumps(RELEASES), "application/json"),
    "/api/holidays": (json.dumps(HOLIDAYS), "application/json"),
}
_FOUND: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "frame+join+two+tables": (("Joins", "{site}/guide/joins", "How to join."), ("Guide", "{site}/guide", "All of it.")),
    "snow+runoff+paper": (("Snow and runoff", "{site}/paper", "41 stations."),),
    "queue+full+runbook": (("Runbook", "{site}/runbook", "What to do."),),
    "frame+advisory": (("Advisory 7", "{site}/advisory/7", "Update."), ("Changes", "{site}/changelog", "3.2.0")),
    "export+retention": (("Questions", "{site}/faq", "30 days"),),
    "swiss+holidays+2026": (("Holidays", "{site}/api/holidays", "Dates."),),
}


def fill(web: FakeWeb) -> None:
    """Put the pages up."""

    def there(text: str) -> str:
        return text.replace("{site}", web.url(""))

    for path, (body, kind) in _SITE.items():
        web.pages[path] = answer(there(body), kind)
    web.pages["/doi/10.1000/snow"] = leads(web.url("/paper"))
    for query, hits in _FOUND.items():
        found = results_page(*(result(title, through(there(url)), words) for title, url, words in hits))
        web.pages[f"/html/?q={query}"] = answer(found.body)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))
