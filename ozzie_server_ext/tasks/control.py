"""What people do to tasks that are there already, beside stopping and answering them: one object for each way."""

from ozzie_server_ext.store.blobs import BlobStore
from ozzie_server_ext.store.log import EventLog
from ozzie_server_ext.tasks.outside_events import Tells
from ozzie_server_ext.tasks.pauses import Pauses
from ozzie_server_ext.tasks.retries import Retries
from ozzie_server_ext.tasks.service import Runner, TaskService
from ozzie_server_ext.tasks.sessions import Sessions
from ozzie_server_ext.tasks.skill_starts import SkillStarts
from ozzie_server_ext.tasks.task_times import TaskTimes
from ozzie_server_ext.tasks.updates import Updates


class TaskControl:
    """Those of one gateway."""

    def __init__(
        self,
        log: EventLog,
        blobs: BlobStore,
        tasks: TaskService,
        sessions: Sessions,
        runner: Runner,
        starts: SkillStarts,
        times: TaskTimes,
    ) -> None:
        self.pauses = Pauses(log, tasks)
        self.tells = Tells(log, tasks)
        self.updates = Updates(log, tasks)
        self.retries = Retries(log, blobs, tasks, sessions, runner, starts, times)
