"""What somebody asks who keeps machines running: what went wrong, when, and what is due."""

from functools import partial

from tests.workloads.workload import Workload, calc, edit, look, now, page, read, reading, trash, write

_of = partial(Workload, who="operator")

LOG = (
    "08:00:01 INFO start\n08:14:09 ERROR db: refused\n08:14:10 INFO retry\n08:14:12 ERROR db: refused\n"
    "08:15:00 INFO up\n09:02:33 ERROR cache: full\n"
)
LONG = "".join(f"{number:06d} GET /health 200\n" for number in range(1, 1401)) + "001401 GET /pay 502\n"
WEB = "workers: 4\nmemory: 512M\nport: 8080\n"
CRON = "0 3 * * 1-5 /opt/backup\n*/10 * * * * /opt/probe\n"
CERTIFICATES = "host,expires\nwww.example.org,2026-03-20\nmail.example.org,2026-09-01\n"
ROSTER = "day,who\nMonday,Ada\nTuesday,Bo\nWednesday,Cy\n"
HOSTS = "10.0.0.4 web-1\n10.0.0.5 web-2\n10.0.0.9 db-1\n"
OLD, NEW = "web-1\nweb-2\ndb-1\n", "web-1\nweb-3\ndb-1\n"
SERVICE = "[service]\nname = shop\napi_key = sk-proj-Zx81mVq20PtYw7LkR5aBnC3dEfGhJ9\nregion = eu\n"
RUNBOOK = "# Database\n\n1. Check `db-1`.\n2. Fail over with `promote db-2`.\n3. Tell the channel.\n"
UNITS = "Restart=no\nExecStart=/opt/shop\n"
BACKUPS = {f"backups/shop-2026-02-{day:02d}.sql.txt": "x" * day for day in range(1, 29)}
DISK = "mount,used_gb,size_gb\n/,41,50\n/data,730,1000\n"

OPERATOR = (
    _of(
        name="count errors",
        message="How many errors are in @logs/shop.log?",
        files={"logs/shop.log": LOG},
        rounds=[read("logs/shop.log")],
        answer=lambda seen: f"{seen.text('logs/shop.log').count(' ERROR ')} errors.",
        says="3 errors",
    ),
    _of(
        name="first error after a time",
        message="What was the first error after nine?",
        files={"logs/shop.log": LOG},
        rounds=[look("logs"), read("logs/shop.log")],
        answer=lambda seen: next(
            line for line in seen.text("logs/shop.log").splitlines() if line > "09" and "ERROR" in line
        ),
        says="cache: full",
    ),
    _of(
        name="a long access log",
        message="Was there any 502 today in access.log?",
        files={"access.log": LONG},
        rounds=[read("access.log"), page("access.log"), page("access.log")],
        answer=lambda seen: next(line for line in seen.text("access.log").splitlines() if line.endswith("502")),
        says="GET /pay 502",
    ),
    _of(
        name="time in UTC",
        message="What is the time in UTC, and in New York?",
        files={},
        rounds=[(now("UTC"), now("America/New_York"))],
        answer=lambda seen: " and ".join(call.data["time"][11:16] for call in seen.calls),
        says="09:30 and 04:30",
    ),
    _of(
        name="expiring certificates",
        message="Which certificates expire within 30 days?",
        files={"certificates.csv": CERTIFICATES},
        rounds=[(now("UTC"), read("certificates.csv"))],
        answer=lambda seen: ", ".join(
            row["host"]
            for row in seen.rows("certificates.csv")
            if seen.calls[0].data["time"][:10] < row["expires"] < "2026-04-01"
        ),
        says="www.example.org",
    ),
    _of(
        name="who is on call",
        message="Who is on call today?",
        files={"roster.csv": ROSTER},
        rounds=[(now("Europe/Zurich"), read("roster.csv"))],
        answer=lambda seen: next(
            row["who"] for row in seen.rows("roster.csv") if row["day"] == seen.calls[0].data["weekday"]
        ),
        says="Ada",
    ),
    _of(
        name="latest backup",
        message="When was the last backup of the shop?",
        files=BACKUPS,
        rounds=[look("backups")],
        answer=lambda seen: max(seen.names()),
        says="2026-02-28",
    ),
    _of(
        name="uptime",
        message="43 minutes down in 30 days, what is that as uptime?",
        files={},
        rounds=[calc("round(100*(1-43/(30*24*60)), 3)")],
        answer=lambda seen: f"{seen.values[0]} %.",
        says="99.9 %",
    ),
    _of(
        name="fullest disk",
        message="Which disk is fullest?",
        files={"disks.csv": DISK},
        rounds=[
            read("disks.csv"),
            lambda seen: tuple(calc(f"{row['used_gb']}/{row['size_gb']}*100") for row in seen.rows("disks.csv")),
        ],
        answer=lambda seen: f"/ at {seen.values[0]} %, /data at {seen.values[1]} %.",
        says="/ at 82 %",
    ),
    _of(
        name="explain a crontab",
        message="When does the backup run?",
        files={"etc/crontab.txt": CRON},
        rounds=[look("etc"), read("etc/crontab.txt")],
        answer=lambda seen: f"At three on weekdays: {seen.text('etc/crontab.txt').splitlines()[0]}",
        says="0 3 * * 1-5",
    ),
    _of(
        name="which host is that",
        message="Who is 10.0.0.9?",
        files={"hosts.txt": HOSTS},
        rounds=[read("hosts.txt")],
        answer=lambda seen: next(
            line.split()[1] for line in seen.text("hosts.txt").splitlines() if line.startswith("10.0.0.9 ")
        ),
        says="db-1",
    ),
    _of(
        name="compare inventories",
        message="What changed between the two inventories?",
        files={"inventory/old.txt": OLD, "inventory/new.txt": NEW},
        rounds=[reading("inventory/old.txt", "inventory/new.txt")],
        answer=lambda seen: " ".join(
            sorted(set(seen.text("inventory/old.txt").split()) ^ set(seen.text("inventory/new.txt").split()))
        ),
        says="web-2 web-3",
    ),
    _of(
        name="a setting beside a key",
        message="Which region is the shop configured for?",
        files={"etc/service.ini": SERVICE},
        rounds=[read("etc/service.ini")],
        answer=lambda seen: (
            f"{seen.text('etc/service.ini').split('region = ')[1].strip()}; "
            f"the key is {'not shown to me' if '[redacted' in seen.text('etc/service.ini') else 'there'}."
        ),
        says="eu; the key is not shown to me.",
    ),
    _of(
        name="look into a runbook",
        message="How do I fail over the database?",
        files={"runbooks/database.md": RUNBOOK, "runbooks/web.md": "# Web\n"},
        rounds=[look("runbooks"), read("runbooks/database.md")],
        answer=lambda seen: seen.text("runbooks/database.md").splitlines()[3],
        says="promote db-2",
    ),
    _of(
        name="capacity",
        message="At 12 GB a day, how long until /data is full?",
        files={"disks.csv": DISK},
        rounds=[read("disks.csv"), calc("floor((1000-730)/12)")],
        answer=lambda seen: f"{seen.values[0]} days.",
        says="22 days",
    ),
    _of(
        name="raise a limit",
        message="Give the web service 1 GB of memory.",
        files={"deploy/web.yaml": WEB},
        rounds=[read("deploy/web.yaml"), edit("deploy/web.yaml", "memory: 512M", "memory: 1G")],
        answer=lambda seen: "Changed; it counts from the next deployment.",
        says="Changed;",
        leaves={"deploy/web.yaml": WEB.replace("512M", "1G")},
    ),
    _of(
        name="write an incident note",
        message="Write down this morning's incident from the log, in incidents/2026-03-02.md.",
        files={"logs/shop.log": LOG},
        rounds=[
            (read("logs/shop.log"), look()),
            lambda seen: write(
                "incidents/2026-03-02.md",
                f"# Database refused\n\n{seen.text('logs/shop.log').count('db: refused')} times, 08:14 to 08:15.\n",
            ),
        ],
        answer=lambda seen: f"It is in {seen.last['path']}.",
        says="incidents/2026-03-02.md",
        leaves={"incidents/2026-03-02.md": "# Database refused\n\n2 times, 08:14 to 08:15.\n"},
    ),
    _of(
        name="clear away an old file",
        message="Move units/old.txt to the trash, it is not used any more.",
        files={"units/old.txt": UNITS, "units/shop.txt": UNITS},
        rounds=[read("units/old.txt"), trash("units/old.txt")],
        answer=lambda seen: f"It is in {seen.last['trash']}.",
        says=".ozzie/trash/",
        leaves={"units/old.txt": None, "units/shop.txt": UNITS},
    ),
)
