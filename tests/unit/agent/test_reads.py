"""What a model has read by name: the calls from which its next text may be made."""

from ozzie_server_ext.agent.entries import UserMessage
from ozzie_server_ext.agent.reads import reads_of
from ozzie_server_ext.agent.rounds import Round, result_text
from ozzie_server_ext.domain.events import ToolUse
from ozzie_server_ext.domain.ids import CallId, TaskId
from ozzie_server_ext.domain.json import Json
from ozzie_server_ext.domain.toolmeta import Reached, Target, TargetKind, ToolMeta
from ozzie_server_ext.policy.decision import Action
from ozzie_server_ext.protocol.jsontext import dumps
from ozzie_server_ext.tools.builtin import builtin_tools
from ozzie_server_ext.tools.registry import ToolRegistry
from tests.unit.policy.rig import meta

OPEN = meta("mail.open", name="open_mail", targets=(Target("mail_id", TargetKind.OBJECT),))
BUILTIN = ToolRegistry(builtin_tools())


def meta_of(name: str) -> ToolMeta | None:
    return OPEN if name == "open_mail" else BUILTIN.meta(name)


def called(name: str, args: Json, *, error: str = "", reached: tuple[Reached, ...] = ()) -> Round:
    text = result_text(data=None, error={"code": "x", "message": error}) if error else result_text(data="x")
    return Round(
        TaskId("t"),
        1,
        uses=(ToolUse(call_id=CallId("c"), name=name, arguments=dumps(args)),),
        outcomes={"c": text},
        reached={"c": reached} if reached else {},
        whole=True,
    )


def reads(*entries: UserMessage | Round, summary: str = "") -> list[Action | None]:
    return [*reads_of(entries, summary, meta_of)]


def test_a_call_that_told_something_is_there_with_the_names_of_what_it_told() -> None:
    title = Reached(TargetKind.OBJECT, "Salaries", of="m1")
    (read,) = reads(UserMessage(None, "Hello."), called("open_mail", {"mail_id": "m1"}, reached=(title,)))
    assert read is not None
    (named,) = read.named
    assert (named.value, [each.value for each in named.known_as]) == ("m1", ["Salaries"])
    (file,) = reads(called("read_file", {"path": "data/a.csv"}))
    assert file is not None
    assert file.paths == (("data", "a.csv"),)


def test_what_tells_little_failed_or_changes_something_is_not() -> None:
    assert reads(called("calculator", {"expr": "1+1"}), called("list_files", {"path": "data"})) == []
    assert reads(called("read_file", {"path": "a"}, error="There is no file a.")) == []
    assert reads(called("write_file", {"path": "a", "text": "x"}), called("web_search", {"query": "x"})) == []


def test_nobody_can_tell_what_a_command_a_run_or_earlier_turns_told() -> None:
    assert reads(called("shell", {"command": "cat a"})) == [None]
    assert reads(called("read_note", {"key": "a"})) == [None]
    assert reads(called("gone", {})) == [None]
    assert reads(Round(TaskId("t"), 1, text="The run's report.")) == [None]
    assert reads(summary="They spoke of salaries.") == [None]
