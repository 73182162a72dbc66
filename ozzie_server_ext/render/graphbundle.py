"""The output in which a cell keeps a workflow, whoever writes it: a kernel, or a page that saw its end (UX §4)."""

from ozzie_server_ext.render.graphsvg import graph_svg
from ozzie_server_ext.render.graphtext import graph_text
from ozzie_server_ext.render.graphview import GraphView


def graph_bundle(view: GraphView) -> dict[str, str]:
    """A picture of its own, beside the turn's output, and the same as text."""
    return {"image/svg+xml": graph_svg(view), "text/plain": graph_text(view)}
