"""The one line that matters of what jsonargparse says of a wrong setting, and the setting that was meant."""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
from collections.abc import Iterable

_NO_OPTION = re.compile(r"unrecognized arguments: (\S+)|does not accept option '([^']+)'")
_REFUSED = re.compile(r"Option '([^']+)' is not accepted")
_CLASS = re.compile(r"Problem with given class_path '([^']+)'")
_KEY = re.compile(r'Parser key "([^"]+)"')
_TYPE = re.compile(r"Expected an? <class '([^']+)'>")
_NO_SETTINGS = re.compile(r"Not a valid subclass of (\w+)\. Got value: (.*)")
_SHOWN = {"Sequence": "a list", "tuple": "a list", "list": "a list", "dict": "settings {name: value}"}
_OF_ONE_TYPE = re.compile(
    r"^\s*- (?!Import path|Expected an? <class|Problem with|Not a valid)(\S.*)$", re.MULTILINE
)
_REASON = re.compile(
    r"No module named .*|[Mm]odule '\S+' has no attribute .*|Import path (?!\S+ does not correspond).*|"
    r"Expected a (?!path)\w.*"
)


def shortened(message: str, options: Iterable[str]) -> str:
    """One line of a parser's error.

    Args:
        message: what the parser said; for a setting of several types it has a paragraph a type.
        options: the names of all settings of the command.

    Returns:
        The setting, what was expected of it and what came, and for an unknown one the closest that there is.
        A message of another kind loses its line breaks.
    """
    if unknown := _NO_OPTION.search(message):
        name = (unknown[1] or unknown[2]).partition("=")[0]
        return f"there is no setting {name}{_meant(name.lstrip('-'), options)}"
    key = ".".join(_KEY.findall(message))
    if refused := _REFUSED.search(message):
        name = refused[1]
        class_path = _CLASS.findall(message[: refused.start()])[-1]
        return f"{key}: {class_path} has no setting {name}{_meant(name, _settings(class_path))}"
    if nested := _NO_SETTINGS.search(message):
        return f"{key}: expected settings {{name: value, ...}} of a {nested[1]}, got {nested[2]}"
    given = re.search(r"(?:Given value|Got value): (.*)", message)
    types = [name.rpartition(".")[2] for name in _TYPE.findall(message) if name != "NoneType"]
    types = [_SHOWN.get(name, name) for name in types]
    if key and types and given:
        return f"{key}: expected {' or '.join(dict.fromkeys(types))}, got {given[1]}"
    reason = next((line[0] for line in _REASON.finditer(message)), None)
    if key and reason:
        return f"{key}: {reason}"
    refused_by_class = _OF_ONE_TYPE.search(message)
    where = f"{key}: " if key else ""
    return f"{where}{refused_by_class[1]}" if refused_by_class else " ".join(message.split())


def _meant(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _settings(class_path: str) -> list[str]:
    """The arguments of a class; none if it cannot be looked at."""
    module, _, name = class_path.rpartition(".")
    try:
        return list(inspect.signature(getattr(importlib.import_module(module), name)).parameters)
    except (ImportError, AttributeError, TypeError, ValueError):
        return []
