"""What can be seen of a server: figures, an access log, traces, a log of predictions, a live page.

``observer`` joins the rest and is all that the server knows: it is told when a call begins, what a model answered in
it, and when it has ended. ``metrics`` counts, in the text of ``exposition``; ``access`` writes a line a request;
``traces`` tells an OpenTelemetry collector; ``predictions`` keeps what models were asked and answered, for ``vitrify
replay`` and for monitoring; ``dashboard`` is what the live page shows. Nothing here delays an answer: whatever cannot
keep up drops what it would have said, and counts it.
"""
