"""Ozzie, the agent server that lives in Jupyter. Stays light: the kernel imports parts of this package."""

__version__ = "0.1.0"


def _jupyter_server_extension_points() -> list[dict[str, object]]:
    from ozzie_server_ext.extension import OzzieExtension

    return [{"module": "ozzie_server_ext", "app": OzzieExtension}]
