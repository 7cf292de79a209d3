"""Packages that only some functions need, and the extra of crossprop that installs each."""

from importlib.util import find_spec

NAMES = {"sklearn": "scikit-learn", "PIL": "pillow"}
"""Names to install by, where the module's differs."""


def missing(*modules: str) -> list[str]:
    """The names to install of those `modules` that are missing."""
    return [NAMES.get(module, module) for module in modules if not _is_installed(module)]


def require(user: str, *modules: str, extra: str) -> None:
    """A ModuleNotFoundError that says what to install if any of `modules` is missing.

    ```python
    require("crossprop plot", "matplotlib", extra="paper")
    ```
    """
    if lacking := missing(*modules):
        raise ModuleNotFoundError(needs(user, lacking, extra))


def needs(user: str, packages: list[str], extra: str) -> str:
    return f"{user} needs {', '.join(packages)}: pip install 'crossprop[{extra}]'"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:
        return False
