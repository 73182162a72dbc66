"""Who may answer a request: models in the order in which they are asked (MD-4; S4 §8.3.4, §8.9)."""

from dataclasses import dataclass

from ozzie_server_ext.models.driver import ModelChoice


@dataclass(frozen=True, slots=True)
class Chain:
    """`choices`, never empty, are asked one after the other while none can answer. `stronger` are asked, before what is
    left of them, where a model is not up to the request. `wanted` is the provider that stood first when nothing was
    missing: who answers in its place says so."""

    choices: tuple[ModelChoice, ...]
    stronger: tuple[ModelChoice, ...] = ()
    wanted: str = ""

    def __post_init__(self) -> None:
        if not self.choices:
            raise ValueError("a chain has a first model")

    def seeing(self) -> "Chain | None":
        """Those of them that can be shown pictures; None where none can."""
        choices = tuple(choice for choice in self.choices if choice.sees)
        stronger = tuple(choice for choice in self.stronger if choice.sees)
        return Chain(choices, stronger, self.wanted or self.first.provider) if choices else None

    @property
    def first(self) -> ModelChoice:
        return self.choices[0]
