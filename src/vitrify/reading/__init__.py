"""Bytes from strangers: one guarded reader a container, shared by everything that looks into files.

A reader here takes a read-only ``memoryview`` and hands out parts of it. It believes no length, offset or count
before it has compared it with what is there, it never follows a path out of its directory, and it says the same
about the same bytes to whoever asks: what is inspected is what is scanned is what is loaded.

Whatever does not fit raises :class:`vitrify.core.errors.MalformedError`; what is larger than any honest file
raises :class:`vitrify.core.errors.LimitExceededError`.
"""
