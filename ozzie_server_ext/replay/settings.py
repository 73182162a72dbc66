"""The settings, rules and skills of a replay: those of the time of each turn, or those that are tried."""

from collections.abc import Callable
from pathlib import Path

from ozzie_server_ext.agent.requests import PERSONA, soul_of
from ozzie_server_ext.config.home import Home, shipped
from ozzie_server_ext.config.jsonc import KeyPath, SourceLocation
from ozzie_server_ext.config.loader import Config
from ozzie_server_ext.config.settings import TEMPLATE, Settings
from ozzie_server_ext.config.validation import validate
from ozzie_server_ext.domain.clock import Clock
from ozzie_server_ext.domain.events import ModelCallStarted, ToolCallDecided, ToolCallRequested
from ozzie_server_ext.domain.ids import BlobRef
from ozzie_server_ext.domain.json import Json, JsonObject, objects
from ozzie_server_ext.domain.toolmeta import ToolMeta
from ozzie_server_ext.policy.decision import UNREAD, Caller, Decision, Reading, Spent, Verdict
from ozzie_server_ext.policy.engine import Ruling
from ozzie_server_ext.policy.files import CLASSES, PROJECT_FILE, Policy, classes_of
from ozzie_server_ext.policy.files import read as read_rules
from ozzie_server_ext.protocol.jsontext import loads_object
from ozzie_server_ext.replay.changes import Changes
from ozzie_server_ext.replay.record import Record
from ozzie_server_ext.replay.stage import RUNNING, Stage
from ozzie_server_ext.skills.library import Library
from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.configuration import CONFIG_STREAM, SOUL, Configuration
from ozzie_server_ext.tasks.rules import BROKEN, RulesInForce
from ozzie_server_ext.tasks.rules import STREAM as POLICY_STREAM
from ozzie_server_ext.tasks.spent import SpentToday, spent_of
from ozzie_server_ext.tools.registry import ToolRegistry

NOWHERE = Home(Path("/nonexistent"))


class RecordedConfiguration(Configuration):
    """The settings of the time that the replay has come to."""

    def __init__(self, record: Record, stage: Stage, log: EventLog, blobs: BlobStore, changes: Changes) -> None:
        super().__init__(NOWHERE, record.project, log, blobs)
        self._record = record
        self._stage = stage
        self._changes = changes
        self._texts: dict[str, tuple[Config, str | None]] = {}
        self._recorded_soul: str | None = None
        self._souls: dict[str, str] = {}

    @property
    def soul(self) -> str:
        """The text of SOUL.md. Earlier versions did not record it: then it is the beginning of the prompt that the
        running task is to send."""
        if self._changes.prompt is not None:
            return self._changes.prompt
        if self._recorded_soul is not None:
            return self._recorded_soul
        calls = (event.body for event in self._stage.ahead(RUNNING.get()))
        started = next(
            (body for body in calls if isinstance(body, ModelCallStarted) and body.purpose == "answer"), None
        )
        if started is None:
            return ""
        if started.prompt not in self._souls:
            request = self._record.calls[started.call_id].request(self._record)
            self._souls[started.prompt] = "" if request is None else self._soul_in(request)
        return self._souls[started.prompt]

    @soul.setter
    def soul(self, value: str) -> None:
        """Ignore what the files have now."""

    def _soul_in(self, request: JsonObject) -> str:
        messages = request["messages"]
        prompt = objects(messages)[0]  # every request begins with it
        head = soul_of(str(prompt["content"]), self.current.settings.agent.system_prompt)
        return "" if head == PERSONA else head

    async def refresh(self) -> Config:
        """Take over the settings that were in force now. Raises MissingFact."""
        found = self._record.settings_at(CONFIG_STREAM, self._stage.cursor.position)
        if found is not None and found.version != self.version:
            if found.version not in self._texts:
                raw = self._record.blob(found.blob, "the configuration of then")
                settings = loads_object(raw, max_bytes=len(raw))
                soul = settings.pop(SOUL, None)
                self._texts[found.version] = _config(settings, found.files), None if soul is None else str(soul)
            (self.current, self._recorded_soul), self.version = self._texts[found.version], found.version
        return self.current


def _config(raw: JsonObject, files: tuple[str, ...]) -> Config:
    """Return settings as recorded. Variables of the environment were not; a placeholder stands for each."""
    filled = _filled(raw)
    places: dict[KeyPath, SourceLocation] = {}
    return Config(validate(Settings, filled, places), raw, files, (), {})


def _filled(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _filled(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item) for item in value]
    if not isinstance(value, str):
        return value
    return TEMPLATE.sub(lambda found: str(found["long"] or found["short"]), value)


class RecordedSpent(SpentToday):
    """What had been spent today, as it was recorded with the decision: other sessions spent it, too."""

    def __init__(self, stage: Stage, log: EventLog, clock: Clock) -> None:
        super().__init__(log, clock)
        self._stage = stage

    async def before(self, meta: ToolMeta, args: JsonObject) -> Spent:
        """Return that of the decision on this call which the running task comes to next."""
        is_this = True  # a decision without a request before it is on a call that was requested before a question
        for event in self._stage.ahead(RUNNING.get()):
            match event.body:
                case ToolCallRequested(tool_id=tool_id, args=asked):
                    is_this = tool_id == meta.tool_id and asked == args
                case ToolCallDecided(spent=spent) if is_this:
                    return spent_of(spent)
                case _:
                    pass
        return {}


class RecordedRules(RulesInForce):
    """The rules of the time that the replay has come to, or those that are tried."""

    def __init__(
        self,
        record: Record,
        stage: Stage,
        registry: ToolRegistry,
        log: EventLog,
        blobs: BlobStore,
        clock: Clock,
        changes: Changes,
    ) -> None:
        super().__init__(NOWHERE, record.project, registry, log, blobs, RecordedSpent(stage, log, clock))
        self._of = record
        self._stage = stage
        self._registry = registry
        self._tried = changes.policy
        self._policies: dict[str, Policy] = {}

    async def refresh(self) -> Policy:
        """Take over the rules that were in force now. Raises MissingFact, ConfigError for tried rules that are
        invalid."""
        if self._tried is not None:
            if "tried" not in self._policies:
                file = read_rules(Path("policy.jsonc"), self._tried, self._registry.find)
                self._policies["tried"] = Policy(files=(file, *classes_of((file,))))
            self.policy = self._policies["tried"]
            return self.policy
        found = self._of.settings_at(POLICY_STREAM, self._stage.cursor.position)
        if found is not None and found.version != self.policy.version:
            if found.version not in self._policies:
                raw = self._of.blob(found.blob, "the rules of then")
                self._policies[found.version] = self._policy(loads_object(raw, max_bytes=len(raw)))
            self.policy = self._policies[found.version]
        return self.policy

    async def of_last_read(self, meta: ToolMeta, args: JsonObject, caller: Caller, reading: Reading = UNREAD) -> Ruling:
        """See `RulesInForce`. While a file of rules was invalid, all calls were denied: the log has that alone."""
        decisions = (event.body for event in self._stage.ahead(RUNNING.get()))
        decided = next((body for body in decisions if isinstance(body, ToolCallDecided)), None)
        if self._tried is None and decided is not None and decided.rule == BROKEN:
            return Ruling(Verdict(decision=Decision.DENY, rule=BROKEN, reason=decided.reason))
        return await super().of_last_read(meta, args, caller, reading)

    def _policy(self, texts: JsonObject) -> Policy:
        projects = self._of.project / PROJECT_FILE
        files = [
            read_rules(Path(path), str(text).encode(), self._registry.find, tightens_only=Path(path) == projects)
            for path, text in texts.items()
            if path != str(CLASSES)
        ]
        classes = texts.get(str(CLASSES))  # sessions of earlier versions have none
        return Policy(files=(*files, *(() if classes is None else classes_of(files, str(classes).encode()))))


class Skills:
    """The skills of the record and those that are tried; where there is neither, the present ones. If there are any,
    all files are written to a folder of their own."""

    def __init__(self, record: Record, home: Home, changes: Changes, at: Path) -> None:
        """`home` has the present skills. Raises MissingFact, ConfigError."""
        self._record = record
        self._home = home
        self._folder = at / "skills"
        self._names = [name for name in record.skills if name not in changes.texts]
        self._written: dict[str, BlobRef] = {}
        if not record.skills and not changes.texts:
            return
        present = Library(home, record.project, shipped("skills"), Settings).shelf()
        texts = {file.skill.name: file.path.read_bytes() for file in present.skills}
        self._home = Home(at)
        self._folder.mkdir(parents=True)
        for name, text in (texts | changes.texts).items():
            self._write(name, text)
        self.use(0)

    def under(self, settings: Callable[[], Settings]) -> Library:
        """Return them as they are used under settings."""
        return Library(self._home, self._record.project, shipped("skills"), settings)

    def use(self, position: int) -> None:
        """Use the files that are used next, from a position of the log on. Raises MissingFact."""
        for name in self._names:
            used = self._record.skills[name]
            file = next((file for at, file in used if at >= position), used[-1][1])
            if self._written.get(name) != file:
                self._written[name] = file
                self._write(name, self._record.blob(file, f'the skill "{name}" of then'))

    def _write(self, name: str, text: bytes) -> None:
        (self._folder / f"{name}.jsonc").write_bytes(text)
