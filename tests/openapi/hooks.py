"""What schemathesis is told beyond its settings."""

import itertools

import schemathesis

_numbers = itertools.count(1)

for media_type in ("application/x-ndjson", "text/csv"):
    schemathesis.serializer.alias(media_type, "text/plain")


@schemathesis.hook
def before_call(context, case, kwargs):
    """Each request comes from another address: limits per address are not what is tried here."""
    number = next(_numbers)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    case.headers = {**(case.headers or {}), "X-Forwarded-For": address}
