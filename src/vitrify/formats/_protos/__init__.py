"""Schemas of Protocol Buffers as data: of each format the messages and fields that we look at, one file a format."""
