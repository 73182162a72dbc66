"""`%parameter`: gives names to values that a notebook's messages and Python use; papermill's `-p` arrives as this."""

from collections.abc import Sequence

from ozzie_kernel.magic import Host, Magic, Usage
from ozzie_kernel.parameters import read, shown
from ozzie_server_ext.render.page import Block, Command, Table, paragraph


async def _parameter(argument: str, host: Host) -> Sequence[Block]:
    parameters = host.parameters
    if argument:
        name, value = read(argument)
        parameters.set(name, value)
        return [paragraph(Command(f"{{{name}}}"), " in a message stands for ", Command(shown(value)), " from now on.")]
    if not parameters.values:
        return [paragraph("There is no parameter yet. Set one: ", Command('%parameter month = "May"'), ".")]
    rows = [(Command(f"{{{name}}}"), shown(value)) for name, value in parameters.values.items()]
    return [Table(heads=("Parameter", "Value"), rows=rows, flexible=frozenset({1}))]


MAGIC = Magic(
    name="parameter",
    usage=Usage("%parameter [NAME = VALUE]", "Shows the notebook's parameters, or sets one"),
    run=_parameter,
    forms=(
        Usage("%parameter", "Shows those that were set"),
        Usage("%parameter NAME = VALUE", "Sets one: {NAME} in messages, NAME in %%python"),
    ),
    examples=('%parameter month = "May"', "%parameter limit = 3"),
)
