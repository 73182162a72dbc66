"""What somebody asks who lives in exports, reports and figures of the month."""

from collections import Counter
from functools import partial

from tests.workloads.workload import Workload, calc, look, now, page, read, reading, total, write

_of = partial(Workload, who="analyst")

MAY = "order,customer,region,amount\n1001,c7,North,120.50\n1002,c2,South,80\n1003,c7,North,19.50\n1004,c9,West,300\n"
JUNE = "order,customer,region,amount\n1005,c2,South,95\n1006,c7,North,160\n1007,c4,West,310\n1007,c4,West,310\n"
CUSTOMERS = "customer,name\nc2,Baker\nc4,Costa\nc7,Ndiaye\n"
MINUTES = "# Monday\n\n- Ndiaye wants invoices by the 5th.\n- Decision: discounts end in July.\n- Open: churn report?\n"
EXPORT = "id,state\n" + "".join(f"{number},{'lost' if number % 400 == 0 else 'won'}\n" for number in range(1, 3001))
INVOICES = "".join(f"INV-{number:05d};{number * 3}.00;paid\n" for number in range(1, 121)) + "INV-00121;77.10;open\n"
QUERY = "SELECT region, SUM(amount) FROM orders\nWHERE day >= '2026-01-01'\nGROUP BY region HAVING SUM(amount) > 100;\n"
REPORT = '{"month": "2026-05", "revenue": 520.0, "orders": 4}\n'
TARGETS = "region,target\nNorth,150\nSouth,100\nWest,250\n"


def _by_region(rows: list[dict[str, str]], region: str) -> list[dict[str, str]]:
    return [row for row in rows if row["region"] == region]


ANALYST = (
    _of(
        name="revenue of a region",
        message="What did the North make in May?",
        files={"sales/may.csv": MAY},
        rounds=[
            read("sales/may.csv"),
            lambda seen: calc(total(_by_region(seen.rows("sales/may.csv"), "North"), "amount")),
        ],
        answer=lambda seen: f"{seen.values[0]} in two orders.",
        says="140 in",
    ),
    _of(
        name="compare two months",
        message="Compare May and June by revenue.",
        files={"sales/may.csv": MAY, "sales/june.csv": JUNE},
        rounds=[
            reading("sales/may.csv", "sales/june.csv"),
            lambda seen: tuple(calc(total(seen.rows(f"sales/{month}.csv"), "amount")) for month in ("may", "june")),
        ],
        answer=lambda seen: f"May {seen.values[0]}, June {seen.values[1]}; order 1007 stands twice in June.",
        says="May 520, June 875",
    ),
    _of(
        name="growth in per cent",
        message="From 520 to 565, how much is that in per cent?",
        files={},
        rounds=[calc("round((565-520)/520*100, 1)")],
        answer=lambda seen: f"{seen.values[0]} % more.",
        says="8.7 % more",
    ),
    _of(
        name="duplicates",
        message="Are there duplicate orders in June?",
        files={"sales/june.csv": JUNE},
        rounds=[read("sales/june.csv")],
        answer=lambda seen: ", ".join(
            order for order, count in Counter(row["order"] for row in seen.rows("sales/june.csv")).items() if count > 1
        ),
        says="1007",
    ),
    _of(
        name="largest order",
        message="Which was the largest order in May?",
        files={"sales/may.csv": MAY},
        rounds=[look("sales"), read("sales/may.csv")],
        answer=lambda seen: max(seen.rows("sales/may.csv"), key=lambda row: float(row["amount"]))["order"],
        says="1004",
    ),
    _of(
        name="columns of a file",
        message="Which columns has @sales/may.csv?",
        files={"sales/may.csv": MAY},
        rounds=[read("sales/may.csv", max_lines=5)],
        answer=lambda seen: ", ".join(seen.rows("sales/may.csv")[0]),
        says="order, customer, region, amount",
    ),
    _of(
        name="orders without a customer",
        message="Which orders of May have a customer that is not in our list?",
        files={"sales/may.csv": MAY, "customers.csv": CUSTOMERS},
        rounds=[reading("sales/may.csv", "customers.csv")],
        answer=lambda seen: ", ".join(
            row["order"]
            for row in seen.rows("sales/may.csv")
            if row["customer"] not in {each["customer"] for each in seen.rows("customers.csv")}
        ),
        says="1004",
    ),
    _of(
        name="value added tax",
        message="What is 520.00 net with 8.1 % VAT?",
        files={},
        rounds=[calc("round(520*1.081, 2)")],
        answer=lambda seen: f"{seen.values[0]} gross.",
        says="562.12 gross",
    ),
    _of(
        name="which quarter",
        message="Which fiscal quarter are we in? Ours begins in February.",
        files={},
        rounds=[now("Europe/Zurich")],
        answer=lambda seen: f"Q{(int(seen.last['time'][5:7]) - 2) % 12 // 3 + 1}.",
        says="Q1.",
    ),
    _of(
        name="count in a long export",
        message="How many deals in @export.csv were lost?",
        files={"export.csv": EXPORT},
        rounds=[read("export.csv"), page("export.csv")],
        answer=lambda seen: f"{sum(row['state'] == 'lost' for row in seen.rows('export.csv'))} lost.",
        says="7 lost",
    ),
    _of(
        name="find an invoice",
        message="Is INV-00121 paid?",
        files={"finance/invoices.csv": INVOICES},
        rounds=[look("finance"), read("finance/invoices.csv")],
        answer=lambda seen: next(
            line for line in seen.text("finance/invoices.csv").splitlines() if line.startswith("INV-00121")
        ),
        says="77.10;open",
    ),
    _of(
        name="decisions of a meeting",
        message="What was decided on Monday?",
        files={"minutes/monday.md": MINUTES},
        rounds=[look("minutes"), read("minutes/monday.md")],
        answer=lambda seen: next(line for line in seen.text("minutes/monday.md").splitlines() if "Decision" in line),
        says="discounts end in July",
    ),
    _of(
        name="against target",
        message="Which regions missed their target in May?",
        files={"sales/may.csv": MAY, "targets.csv": TARGETS},
        rounds=[
            reading("sales/may.csv", "targets.csv"),
            lambda seen: tuple(
                calc(f"{total(_by_region(seen.rows('sales/may.csv'), row['region']), 'amount')}-{row['target']}")
                for row in seen.rows("targets.csv")
            ),
        ],
        answer=lambda seen: ", ".join(
            row["region"]
            for row, value in zip(seen.rows("targets.csv"), seen.values, strict=True)
            if value.startswith("-")
        ),
        says="North, South",
    ),
    _of(
        name="check a report's figure",
        message="Does report.json agree with the May file?",
        files={"report.json": REPORT, "sales/may.csv": MAY},
        rounds=[
            reading("report.json", "sales/may.csv"),
            lambda seen: calc(total(seen.rows("sales/may.csv"), "amount")),
        ],
        answer=lambda seen: f"The file has {seen.values[0]}; the report says {seen.text('report.json').strip()}",
        says='520; the report says {"month": "2026-05", "revenue": 520.0',
    ),
    _of(
        name="currency",
        message="What are 875 francs in euros at 1.0624?",
        files={},
        rounds=[calc("round(875*1.0624, 2)")],
        answer=lambda seen: f"{seen.values[0]} euros.",
        says="929.6 euros",
    ),
    _of(
        name="explain a query",
        message="What does @queries/regions.sql leave out?",
        files={"queries/regions.sql": QUERY},
        rounds=[read("queries/regions.sql")],
        answer=lambda seen: f"Regions of 100 or less: {seen.text('queries/regions.sql').splitlines()[-1]}",
        says="HAVING SUM(amount) > 100",
    ),
    _of(
        name="write the weekly report",
        message="Write reports/may.md with the revenue of May by region.",
        files={"sales/may.csv": MAY, "reports/april.md": "# April\n"},
        rounds=[
            (read("sales/may.csv"), look("reports")),
            lambda seen: calc(total(_by_region(seen.rows("sales/may.csv"), "North"), "amount")),
            lambda seen: write("reports/may.md", f"# May\n\n- North {seen.values[0]}\n- South 80\n- West 300\n"),
        ],
        answer=lambda seen: f"Written: {seen.last['path']}.",
        says="reports/may.md",
        leaves={"reports/may.md": "# May\n\n- North 140\n- South 80\n- West 300\n"},
    ),
    _of(
        name="write a cleaned copy",
        message="Make a copy of June without the duplicate order.",
        files={"sales/june.csv": JUNE},
        rounds=[
            read("sales/june.csv"),
            lambda seen: write(
                "sales/june_clean.csv", "\n".join(dict.fromkeys(seen.text("sales/june.csv").splitlines())) + "\n"
            ),
        ],
        answer=lambda seen: f"{seen.last['path']} has three orders.",
        says="june_clean.csv",
        leaves={"sales/june_clean.csv": JUNE.replace("1007,c4,West,310\n", "", 1), "sales/june.csv": JUNE},
    ),
)
