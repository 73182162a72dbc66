"""Finds the driver of a model choice."""

from collections.abc import AsyncGenerator

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.models.driver import ModelChoice, ModelDriver, ModelEvent, ModelRequest

OFFLINE = "offline"
FOREIGN = "worker"
SCRIPTED = "scripted"


def answers_in_worker(choice: ModelChoice) -> bool:
    """Whether the model worker has to run for this choice."""
    return choice.driver not in (OFFLINE, FOREIGN, SCRIPTED)


class Models:
    """Every model behind one port: `offline` and `scripted` answer in this process, a foreign `worker` at its socket,
    all others in the model worker."""

    def __init__(
        self,
        *,
        offline: ModelDriver,
        worker: ModelDriver | None = None,
        foreign: ModelDriver | None = None,
        scripted: ModelDriver | None = None,
    ) -> None:
        self._worker = worker
        self._named = {OFFLINE: offline, FOREIGN: foreign, SCRIPTED: scripted}

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See ModelDriver. Raises InputError for a driver that is not there."""
        return self._driver(request.choice.driver).generate(request)

    def _driver(self, name: str) -> ModelDriver:
        found = self._named.get(name, self._worker)
        if found is None:
            raise InputError(
                f'There is no model driver "{name}" here.',
                hint="Choose another model with %model.",
                code="model.driver",
            )
        return found
