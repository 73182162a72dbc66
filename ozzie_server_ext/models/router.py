"""Finds the driver of a model choice."""

from collections.abc import AsyncGenerator

from ozzie_server_ext.domain.errors import InputError
from ozzie_server_ext.models.driver import ModelDriver, ModelEvent, ModelRequest

OFFLINE = "offline"
SCRIPTED = "scripted"


class Models:
    """Every model behind one port: `offline` and `scripted` answer in this process, all others in the model worker."""

    def __init__(
        self, *, offline: ModelDriver, worker: ModelDriver | None = None, scripted: ModelDriver | None = None
    ) -> None:
        self._worker = worker
        self._in_process = {OFFLINE: offline}
        if scripted is not None:
            self._in_process[SCRIPTED] = scripted

    def generate(self, request: ModelRequest) -> AsyncGenerator[ModelEvent, None]:
        """See ModelDriver. Raises InputError for a driver that is not there."""
        return self._driver(request.choice.driver).generate(request)

    def _driver(self, name: str) -> ModelDriver:
        found = self._in_process.get(name, None if name == SCRIPTED else self._worker)
        if found is None:
            raise InputError(
                f'There is no model driver "{name}" here.',
                hint="Choose another model with %model.",
                code="model.driver",
            )
        return found
