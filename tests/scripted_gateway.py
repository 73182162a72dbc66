"""A gateway without HTTP in which the model is a script: log, tools, rules, approvals and files are real."""

from dataclasses import replace

from ozzie_server_ext.app import Ozzie
from ozzie_server_ext.models.router import Models
from ozzie_server_ext.models.scripted import Round, ScriptedDriver, Use


class ScriptedOzzie(Ozzie):
    """With a script in the place of the offline model."""

    def plays(self, *rounds: Round | Use | tuple[Use, ...]) -> ScriptedDriver:
        """From now on: a round each, of one call, of several at once, or of what a script's round may be."""
        driver = ScriptedDriver([[each] if isinstance(each, Use) else each for each in rounds])
        self._runner.parts = replace(self._runner.parts, models=Models(offline=driver))
        return driver
