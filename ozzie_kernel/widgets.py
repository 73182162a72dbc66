"""Making, showing and closing widgets, without one left behind in the kernel."""

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ipywidgets import HTML, DOMWidget, VBox


@cache
def _shared_style() -> dict[str, Any]:
    """The shared default layout and style: otherwise each widget opens two comms of its own for them."""
    from ipywidgets import Layout
    from ipywidgets.widgets.widget_string import HTMLStyle

    return {"layout": Layout(), "style": HTMLStyle()}


def html_widget(html: str) -> "HTML":
    """Return a widget that shows our HTML."""
    from ipywidgets import HTML  # takes 0.1 s; the kernel imports it in the background, once it is ready

    return HTML(value=html, **_shared_style())


def box_of(children: "list[Any]") -> "VBox":
    """Return the widgets in a column."""
    from ipywidgets import VBox

    return VBox(children)


def close_all(widget: "DOMWidget") -> None:
    """Close a widget with all that belong to it. Closing it alone leaves the others in the kernel, for good."""
    own = [widget.layout, getattr(widget, "style", None)]
    shared = list(_shared_style().values())
    for part in getattr(widget, "children", ()):
        close_all(part)
    widget.close()
    for part in own:
        if part is not None and not any(part is each for each in shared):
            part.close()


def widget_output(widget: "DOMWidget", others: Mapping[str, Any]) -> dict[str, Any]:
    """Return a widget as an output. `others` are its other forms, for where there is no such widget."""
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    return {"data": {"application/vnd.jupyter.widget-view+json": view, **others}, "metadata": {}, "transient": {}}
