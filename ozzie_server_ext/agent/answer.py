"""One answer of a model: its text while it comes, and whether what came is a whole one."""

from collections.abc import Sequence

from ozzie_server_ext.agent.rounds import Round
from ozzie_server_ext.domain.errors import OzzieError
from ozzie_server_ext.domain.events import Finish, MessageCompleted
from ozzie_server_ext.domain.ids import ReplyId
from ozzie_server_ext.domain.redaction import StreamMask
from ozzie_server_ext.models.remedies import EMPTY

MAX_ANSWER_CHARS = 1_000_000


class IncompleteAnswer(OzzieError):
    """The model ended its answer before it was whole."""

    code = "provider.incomplete"


class Reply:
    """The text of one answer while it comes, in pieces: joining at each of them would cost the square of its length.
    `has_begun` is set by whoever hears anything of it. `known` are keys that a model may have read somewhere and quote:
    they are masked before anybody sees or stores them."""

    def __init__(self, reply_id: ReplyId, known: Sequence[str] = ()) -> None:
        self.reply_id = reply_id
        self.length = 0
        self.has_begun = False
        self._pieces: list[str] = []
        self._mask = StreamMask(known)

    def add(self, piece: str) -> str:
        """Take in what came; returns what of the answer can be shown by now. The beginning of a known key is held back
        until more of it comes, or something else."""
        return self._keep(self._mask.feed(piece))

    def close(self) -> str:
        """Return what was held back, once nothing more comes."""
        return self._keep(self._mask.end())

    def _keep(self, text: str) -> str:
        if text:
            self._pieces.append(text)
            self.length += len(text)
        return text

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def ended(self, finish: Finish) -> tuple[MessageCompleted, ...]:
        """The fact that keeps the text; none where nothing was said."""
        if not self._pieces:
            return ()
        return (MessageCompleted(reply_id=self.reply_id, text=self.text, finish=finish),)


def empty_answer(alias: str) -> IncompleteAnswer:
    return IncompleteAnswer(
        f'"{alias}" answered nothing.',
        hint="Run the cell again, or choose another model with %model. Your message is kept.",
        code=EMPTY,
    )


def check_whole(answer: Round, alias: str) -> None:
    """An answer that was recorded and yet is no whole one ends the turn, in words. Raises IncompleteAnswer."""
    if answer.finish == "length":
        raise IncompleteAnswer(
            f'"{alias}" reached the length limit of one answer. What came is kept.',
            hint="Raise max_tokens of that provider in the configuration, or ask for the rest.",
            code="provider.length",
        )
    if answer.finish == "content_filter":
        raise IncompleteAnswer(
            f'The provider of "{alias}" withheld the answer by its content filter.',
            hint="Say it differently, or choose another model with %model. Your message is kept.",
            code="provider.content_filter",
        )
    if not answer.text and not answer.uses:
        raise empty_answer(alias)
