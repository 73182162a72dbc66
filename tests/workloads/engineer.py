"""What somebody asks who keeps a small code base."""

from functools import partial

from tests.workloads.workload import Workload, calc, edit, look, page, read, reading, trash, write

_of = partial(Workload, who="engineer")

CLIENT = "import time\n\nfrom app.errors import Gone\n\n\ndef fetch_all(url):\n    # TODO: retry\n    return [url]\n"
MAIN = "from app.client import fetch_all\n\nprint(fetch_all('http://localhost'))\n"
CHECKS = "from app.client import fetch_all\n\n\ndef test_one():\n    assert fetch_all('a') == ['a']\n"
PROJECT = '[project]\nname = "app"\nrequires-python = ">=3.11"\ndependencies = ["httpx>=0.27", "pydantic>=2"]\n'
FAILURE = (
    "".join(f"tests/test_{number:03d}.py .\n" for number in range(1, 900))
    + "FAILED tests/test_client.py::test_one - AssertionError: assert [] == ['a']\n1 failed, 899 passed\n"
)
STAGING = '{"timeout_s": 30, "retries": 3, "debug": true}\n'
PRODUCTION = '{"timeout_s": 30, "retries": 5, "debug": false}\n'
README = "# app\n\nInstal it with pip, then run `python -m app`.\n"
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- Retries.\n"
SETTINGS = "import os\n\nURL = os.environ['APP_URL']\nTOKEN = os.environ['APP_TOKEN']\n"
EXAMPLE = "APP_URL=http://localhost\n"
TRACE = "Traceback (most recent call last):\n" + '  File "app/loop.py", line 7, in step\n    step()\n' * 300
PATTERN = "KEY = re.compile(r'^[A-Z]{3}-\\d{4,6}$')\n"

ENGINEER = (
    _of(
        name="explain a module",
        message="What does @app/client.py do?",
        files={"app/client.py": CLIENT, "app/main.py": MAIN},
        rounds=[read("app/client.py")],
        answer=lambda seen: f"`{seen.text('app/client.py').split('def ')[1].split('(')[0]}` returns the url in a list.",
        says="`fetch_all`",
    ),
    _of(
        name="where is it used",
        message="Where do we call fetch_all?",
        files={"app/client.py": CLIENT, "app/main.py": MAIN, "tests/test_client.py": CHECKS},
        rounds=[(look("app"), look("tests")), reading("app/client.py", "app/main.py", "tests/test_client.py")],
        answer=lambda seen: ", ".join(
            path for path in ("app/main.py", "tests/test_client.py") if "fetch_all(" in seen.text(path)
        ),
        says="app/main.py, tests/test_client.py",
    ),
    _of(
        name="which Python",
        message="Which Python do we need?",
        files={"pyproject.toml": PROJECT},
        rounds=[look(), read("pyproject.toml")],
        answer=lambda seen: next(line for line in seen.text("pyproject.toml").splitlines() if "requires" in line),
        says=">=3.11",
    ),
    _of(
        name="why did the tests fail",
        message="Why did the last run in ci.log fail?",
        files={"ci.log": FAILURE},
        rounds=[read("ci.log"), page("ci.log")],
        answer=lambda seen: next(line for line in seen.text("ci.log").splitlines() if line.startswith("FAILED")),
        says="tests/test_client.py::test_one",
    ),
    _of(
        name="compare two configurations",
        message="How do staging and production differ?",
        files={"config/staging.json": STAGING, "config/production.json": PRODUCTION},
        rounds=[reading("config/staging.json", "config/production.json")],
        answer=lambda seen: (
            "retries and debug"
            if seen.text("config/staging.json") != seen.text("config/production.json")
            else "not at all"
        ),
        says="retries and debug",
    ),
    _of(
        name="list of what is to do",
        message="Which TODOs are left in app/?",
        files={"app/client.py": CLIENT, "app/main.py": MAIN},
        rounds=[look("app"), reading("app/client.py", "app/main.py")],
        answer=lambda seen: "\n".join(
            f"{path}: {line.strip()}"
            for path in ("app/client.py", "app/main.py")
            for line in seen.text(path).splitlines()
            if "TODO" in line
        ),
        says="app/client.py: # TODO: retry",
    ),
    _of(
        name="dependencies",
        message="What do we depend on?",
        files={"pyproject.toml": PROJECT},
        rounds=[read("pyproject.toml")],
        answer=lambda seen: seen.text("pyproject.toml").split("dependencies = ")[1],
        says="httpx>=0.27",
    ),
    _of(
        name="bytes",
        message="How many MiB are 734003200 bytes?",
        files={},
        rounds=[calc("734003200/2**20")],
        answer=lambda seen: f"{seen.values[0]} MiB.",
        says="700 MiB",
    ),
    _of(
        name="does the example have all settings",
        message="Does env.example have all that settings.py reads?",
        files={"app/settings.py": SETTINGS, "env.example": EXAMPLE},
        rounds=[reading("app/settings.py", "env.example")],
        answer=lambda seen: ", ".join(
            name
            for name in (part.split("'")[0] for part in seen.text("app/settings.py").split("environ['")[1:])
            if name not in seen.text("env.example")
        ),
        says="APP_TOKEN",
    ),
    _of(
        name="a long traceback",
        message="What recursed in trace.txt?",
        files={"trace.txt": TRACE},
        rounds=[read("trace.txt", max_lines=40)],
        answer=lambda seen: seen.text("trace.txt").splitlines()[1].strip(),
        says='"app/loop.py", line 7, in step',
    ),
    _of(
        name="explain a pattern",
        message="Would ABC-123 match KEY in app/keys.py?",
        files={"app/keys.py": PATTERN},
        rounds=[read("app/keys.py")],
        answer=lambda seen: "No: it takes four to six digits." if "{4,6}" in seen.text("app/keys.py") else "Yes.",
        says="No:",
    ),
    _of(
        name="unused import",
        message="Does client.py import something that it does not use?",
        files={"app/client.py": CLIENT},
        rounds=[read("app/client.py")],
        answer=lambda seen: ", ".join(name for name in ("time", "Gone") if seen.text("app/client.py").count(name) == 1),
        says="time, Gone",
    ),
    _of(
        name="change a time-out",
        message="Raise the time-out of staging to 60 s.",
        files={"config/staging.json": STAGING},
        rounds=[read("config/staging.json"), edit("config/staging.json", '"timeout_s": 30', '"timeout_s": 60')],
        answer=lambda seen: "It is 60 s now." if seen.last["changed"] else "It was already.",
        says="60 s now",
        leaves={"config/staging.json": STAGING.replace("30", "60")},
    ),
    _of(
        name="fix a typo in the README",
        message="Fix the spelling in the README.",
        files={"README.md": README},
        rounds=[read("README.md"), edit("README.md", "Instal it", "Install it")],
        answer=lambda seen: "Instal is Install now.",
        says="Install now",
        leaves={"README.md": README.replace("Instal it", "Install it")},
    ),
    _of(
        name="add to the changelog",
        message="Add to the changelog that time-outs are 60 s.",
        files={"CHANGELOG.md": CHANGELOG},
        rounds=[read("CHANGELOG.md"), edit("CHANGELOG.md", "- Retries.\n", "- Retries.\n- Time-outs of 60 s.\n")],
        answer=lambda seen: "Added.",
        says="Added.",
        leaves={"CHANGELOG.md": CHANGELOG + "- Time-outs of 60 s.\n"},
    ),
    _of(
        name="write a test",
        message="Write a test for an empty address into tests/test_empty.py.",
        files={"app/client.py": CLIENT, "tests/test_client.py": CHECKS},
        rounds=[
            reading("app/client.py", "tests/test_client.py"),
            write("tests/test_empty.py", CHECKS.replace("test_one", "test_empty").replace("'a'", "''")),
        ],
        answer=lambda seen: f"It is {seen.last['path']}.",
        says="tests/test_empty.py",
        leaves={"tests/test_empty.py": CHECKS.replace("test_one", "test_empty").replace("'a'", "''")},
    ),
    _of(
        name="rename a file",
        message="Rename app/client.py to app/fetching.py.",
        files={"app/client.py": CLIENT},
        rounds=[
            read("app/client.py"),
            lambda seen: write("app/fetching.py", seen.text("app/client.py")),
            trash("app/client.py"),
        ],
        answer=lambda seen: f"The old one lies in {seen.last['trash']}.",
        says=".ozzie/trash/",
        leaves={"app/fetching.py": CLIENT, "app/client.py": None},
    ),
    _of(
        name="rename a function in three files",
        message="Rename fetch_all to fetch everywhere below src/.",
        files={"src/client.py": CLIENT, "src/main.py": MAIN, "src/checks/one.py": "fetch_all = None\n"},
        rounds=[
            (look("src"), look("src/checks")),
            reading("src/client.py", "src/main.py", "src/checks/one.py"),
            edit("src/client.py", "def fetch_all(", "def fetch("),
            edit("src/main.py", "import fetch_all\n\nprint(fetch_all(", "import fetch\n\nprint(fetch("),
            edit("src/checks/one.py", "fetch_all", "fetch"),
        ],
        answer=lambda seen: f"{sum(call.name == 'edit_file' for call in seen.calls)} files changed.",
        says="3 files changed",
        leaves={
            "src/client.py": CLIENT.replace("fetch_all", "fetch"),
            "src/main.py": MAIN.replace("fetch_all", "fetch"),
            "src/checks/one.py": "fetch = None\n",
        },
        extent="session",
    ),
)
