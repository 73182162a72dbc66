"""What somebody asks who measures, reads protocols, and writes it up."""

from collections import Counter
from functools import partial

from ozzie_server_ext.models.scripted import Use
from tests.workloads.workload import Workload, calc, edit, look, now, page, read, reading, total, write

_of = partial(Workload, who="scientist")

RUN_17 = "sample,time_s,od600\nA1,0,0.051\nA2,0,0.049\nB1,0,0.053\nA1,60,0.102\nA2,60,\nB1,60,0.110\n"
RUN_18 = "sample,time_s,od600\nA1,0,0.050\nA2,0,0.050\nC1,0,0.048\n"
PROTOCOL = """# Growth curves

1. Inoculate 5 mL of LB with one colony, overnight at 37 °C.
2. Dilute 1:100 into fresh medium with 50 µg/mL kanamycin.
3. Measure OD600 each 60 s for 12 h, shaking at 200 rpm.

Blank every plate with medium only. Discard wells above OD 1.5.
"""
METHODS = (
    "Cells were grown in M9 with 0.4 % glucose.\nProtein was eluted with 250 mM imidazole.\nGels were run at 120 V.\n"
)
DRAFT = "# Results\n\nThe growth rate was 0.031 per minute in LB and occured in all six replicates.\n"
INSTRUMENT = (
    "".join(f"{line:05d} stage ok temperature 37.{line % 10} C\n" for line in range(1, 701)) + "00701 lamp lost\n"
)
FRAMES = {f"frames/2026-03-01_camera-2_position-07_frame-{number:05d}.tif": "x" * number for number in range(1, 401)}
BIB = "@article{chen2021,\n title={A}}\n@article{okafor2019,\n title={B}}\n@article{chen2021,\n title={A, again}}\n"
SCRIPT = """def slope(points):
    (x0, y0), (x1, y1) = points[0], points[-1]
    return (y1 - y0) / (x1 - x0)
"""
DICTIONARY = (
    "# Columns\n\n- `time_s`: seconds since inoculation\n- `od600`: optical density at 600 nm, blank subtracted\n"
)


def _doubled(text: str) -> list[str]:
    keys = [line.split("{")[1].rstrip(",") for line in text.splitlines() if line.startswith("@")]
    return [key for key, count in Counter(keys).items() if count > 1]


SCIENTIST = (
    _of(
        name="count measurements",
        message="How many measurements are in data/run_17.csv?",
        files={"data/run_17.csv": RUN_17},
        rounds=[read("data/run_17.csv")],
        answer=lambda seen: f"There are {len(seen.rows('data/run_17.csv'))} measurements.",
        says="6 measurements",
    ),
    _of(
        name="find missing values",
        message="Which wells of run 17 have gaps?",
        files={"data/run_17.csv": RUN_17},
        rounds=[look("data"), read("data/run_17.csv")],
        answer=lambda seen: ", ".join(
            f"{row['sample']} at {row['time_s']} s" for row in seen.rows("data/run_17.csv") if not row["od600"]
        ),
        says="A2 at 60 s",
    ),
    _of(
        name="compare two runs",
        message="Which samples are in run 17 but not in run 18, and the other way round?",
        files={"data/run_17.csv": RUN_17, "data/run_18.csv": RUN_18},
        rounds=[reading("data/run_17.csv", "data/run_18.csv")],
        answer=lambda seen: " ".join(
            sorted(
                {row["sample"] for row in seen.rows("data/run_17.csv")}
                ^ {row["sample"] for row in seen.rows("data/run_18.csv")}
            )
        ),
        says="B1 C1",
    ),
    _of(
        name="mean of a column",
        message="What is the mean OD at the start of run 17?",
        files={"data/run_17.csv": RUN_17},
        rounds=[
            read("data/run_17.csv"),
            lambda seen: calc(
                f"({total([row for row in seen.rows('data/run_17.csv') if row['time_s'] == '0'], 'od600')})/3"
            ),
        ],
        answer=lambda seen: f"The mean is {seen.values[0]}.",
        says="0.051.",
    ),
    _of(
        name="dilution",
        message="How much of a 10 mg/mL stock do I need for 25 mL at 50 µg/mL?",
        files={},
        rounds=[calc("50*25/10000*1000")],
        answer=lambda seen: f"Take {seen.values[0]} µL and fill up to 25 mL.",
        says="125 µL",
    ),
    _of(
        name="summarise a protocol",
        message="Summarise @protocols/growth.md for a new student.",
        files={"protocols/growth.md": PROTOCOL},
        rounds=[read("protocols/growth.md")],
        answer=lambda seen: f"{seen.text('protocols/growth.md').count('. ')} steps; blank every plate.",
        says="blank every plate",
    ),
    _of(
        name="look up a concentration",
        message="What did we elute the protein with?",
        files={"notes/methods.txt": METHODS, "notes/plan.txt": "Order columns.\n"},
        rounds=[look("notes"), read("notes/methods.txt")],
        answer=lambda seen: next(line for line in seen.text("notes/methods.txt").splitlines() if "eluted" in line),
        says="250 mM imidazole",
    ),
    _of(
        name="which runs are there",
        message="Which runs do we have, and which is the largest?",
        files={"data/run_17.csv": RUN_17, "data/run_18.csv": RUN_18, "data/README.md": DICTIONARY},
        rounds=[look("data")],
        answer=lambda seen: max(
            (name for name in seen.names() if name.endswith(".csv")), key=lambda name: seen.sizes()[name]
        ),
        says="run_17.csv",
    ),
    _of(
        name="end of an instrument's log",
        message="Did anything go wrong at the end of logs/reader.log?",
        files={"logs/reader.log": INSTRUMENT},
        rounds=[read("logs/reader.log"), page("logs/reader.log")],
        answer=lambda seen: seen.text("logs/reader.log").splitlines()[-1],
        says="lamp lost",
    ),
    _of(
        name="time at a partner's",
        message="Can I call the lab in Tokyo now?",
        files={},
        rounds=[now("Asia/Tokyo")],
        answer=lambda seen: f"It is {seen.last['time'][11:16]} there, {seen.last['weekday']}.",
        says="18:30 there, Monday",
    ),
    _of(
        name="sample size",
        message="How many per group for an effect of 0.8 sd, alpha 5 %, power 80 %?",
        files={},
        rounds=[calc("ceil(2*(1.959964+0.841621)**2/0.8**2)")],
        answer=lambda seen: f"{seen.values[0]} per group, by the normal approximation.",
        says="25 per group",
    ),
    _of(
        name="doubled references",
        message="Are there duplicate keys in refs.bib?",
        files={"paper/refs.bib": BIB},
        rounds=[look("paper"), read("paper/refs.bib")],
        answer=lambda seen: f"Yes: {', '.join(_doubled(seen.text('paper/refs.bib')))}.",
        says="Yes: chen2021.",
    ),
    _of(
        name="a folder with hundreds of frames",
        message="How many frames has position 7, and is the last one there?",
        files=FRAMES,
        rounds=[
            look("frames"),
            lambda seen: Use("read_artifact", {"artifact_id": seen.last["artifact"], "first_line": 1_900}),
        ],
        answer=lambda seen: f"{'frame-00400' in seen.last['text']}, in {seen.calls[0].data['lines']:,} lines.",
        says="True, in 2,00",
    ),
    _of(
        name="explain a script",
        message="What does @analysis/slope.py do?",
        files={"analysis/slope.py": SCRIPT},
        rounds=[read("analysis/slope.py")],
        answer=lambda seen: f"It has {seen.text('analysis/slope.py').count('def ')} function: the slope of two points.",
        says="1 function",
    ),
    _of(
        name="meaning of a column",
        message="Is od600 in these files blank subtracted?",
        files={"data/README.md": DICTIONARY, "data/run_17.csv": RUN_17},
        rounds=[look("data"), read("data/README.md")],
        answer=lambda seen: "Yes." if "blank subtracted" in seen.text("data/README.md") else "It does not say.",
        says="Yes.",
    ),
    _of(
        name="check a number of the paper",
        message="The draft says 0.031 per minute. Is that what the fit gave?",
        files={"paper/results.md": DRAFT, "data/fit.json": '{"rate_per_min": 0.0311, "n": 6}\n'},
        rounds=[reading("paper/results.md", "data/fit.json")],
        answer=lambda seen: f"Yes, rounded: {seen.text('data/fit.json').strip()}",
        says="0.0311",
    ),
    _of(
        name="fix a typo in a draft",
        message="There is a typo in the results, occured. Please fix it.",
        files={"paper/results.md": DRAFT},
        rounds=[read("paper/results.md"), edit("paper/results.md", "occured", "occurred")],
        answer=lambda seen: "Fixed." if seen.last["changed"] else "It was right already.",
        says="Fixed.",
        leaves={"paper/results.md": DRAFT.replace("occured", "occurred")},
    ),
    _of(
        name="write a methods paragraph",
        message="Write a methods paragraph on growth into paper/methods.md, from the protocol.",
        files={"protocols/growth.md": PROTOCOL, "paper/results.md": DRAFT},
        rounds=[
            read("protocols/growth.md"),
            write("paper/methods.md", "Cultures were diluted 1:100 and measured each 60 s for 12 h.\n"),
        ],
        answer=lambda seen: f"It is in {seen.last['path']}.",
        says="paper/methods.md",
        leaves={"paper/methods.md": "Cultures were diluted 1:100 and measured each 60 s for 12 h.\n"},
    ),
)
