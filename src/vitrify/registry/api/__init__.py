"""The registry over HTTP: an ASGI application whose routes are the operations, the content and MLflow's wire API.

It holds no state between requests: any number of servers stand before one database and one place for content.

``routing`` is what an endpoint is; ``operations``, ``content``, ``pages`` are the endpoints; ``authentication`` is who
asks; ``errors`` is the one table from errors to statuses and back; ``app`` joins them; ``serving`` runs it.
"""
