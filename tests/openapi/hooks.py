"""What schemathesis is told beyond its settings."""

import ast
import itertools
import threading

import schemathesis

_numbers = itertools.count(1)

# Python before 3.11.8 and 3.12.2 counts the depth of all threads' syntax trees in one place and fails where two are made
# at a time (github.com/python/cpython/issues/106905); the run's two threads make them all the time.
_parse, _one_at_a_time = ast.parse, threading.RLock()


def _parse_alone(*arguments, **named):
    with _one_at_a_time:
        return _parse(*arguments, **named)


ast.parse = _parse_alone

for media_type in ("application/x-ndjson", "text/csv"):
    schemathesis.serializer.alias(media_type, "text/plain")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Each request comes from another address: limits per address are not what is tried here."""
    number = next(_numbers)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    case.headers = {**(case.headers or {}), "X-Forwarded-For": address}
