"""A home with artifacts and incidents in it, as an earlier gateway left them."""

from ozzie_server_ext.artifacts.store import ArtifactStore
from ozzie_server_ext.config.home import Home
from ozzie_server_ext.domain.artifacts import ArtifactKind
from ozzie_server_ext.domain.ids import SessionId, TaskId
from ozzie_server_ext.observability.clock import FakeClock, SystemClock, UlidSource
from ozzie_server_ext.store.blobs import FileBlobs
from ozzie_server_ext.store.recorder import Recorder
from ozzie_server_ext.store.sqlite import SqliteEventLog
from ozzie_server_ext.store.texts import ArtifactTexts
from ozzie_server_ext.tasks.incidents import Incidents
from tests.rig import GatewayHome

SESSION = "sess_01M800000000000000000000ZZ"
TASK = "01M800000000000000000000ZZ"
SCRIPT = b"<script>fetch('/ozzie/api/message', {method: 'POST'})</script>"
MADE: tuple[tuple[bytes, ArtifactKind, str, str], ...] = (
    ("größe\n".encode(), "log", "out.txt", "text/plain"),
    (b'{"a": 1}', "json", "out.json", "application/json"),
    (SCRIPT, "file", "evil.html", "text/html"),
    (b"<svg>" + SCRIPT + b"</svg>", "image", "evil.svg", "image/svg+xml"),
    (b"\x89PNG\r\n\x1a\n", "image", 'pictures/a"b ö.png', "image/png"),
    (b"two", "log", "out.txt", "text/plain"),
)


async def make_artifacts(home: GatewayHome, clock: SystemClock | FakeClock | None = None) -> list[str]:
    """Those of `MADE`; returns their ids in that order. No gateway runs on the home."""
    place = Home(home.home)
    place.create()
    clock = clock or SystemClock()
    ids = UlidSource(clock)
    log = await SqliteEventLog.open(place.database, clock=clock, ids=ids, texts=ArtifactTexts(place.blobs))
    store = ArtifactStore(log, FileBlobs(place.blobs), ids)
    recorder = Recorder(log=log, session_id=SessionId(SESSION), task_id=TaskId(TASK))
    made: list[str] = []
    for content, kind, name, mime in MADE:
        kept = await store.keep(content, kind=kind, name=name, mime=mime)
        await store.record(recorder, kept)
        made.append(kept.artifact_id)
    await log.close()
    return made


async def make_incidents(home: GatewayHome) -> None:
    """Two incidents, each about another plugin. No gateway runs on the home."""
    place, clock = Home(home.home), SystemClock()
    ids = UlidSource(clock)
    log = await SqliteEventLog.open(place.database, clock=clock, ids=ids, texts=ArtifactTexts(place.blobs))
    incidents = Incidents(log, ids)
    for name in ("weather", "courier"):
        await incidents.open("refused", name, detail="kv", message="Nobody granted this plugin notes of its own.")
    await log.close()
