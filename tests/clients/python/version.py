"""Which major version of the official client this Python has."""

from importlib.util import find_spec


def pick(first, second):
    """The one for this version: only the second comes with `httpx2`."""
    return second if find_spec("httpx2") else first
