"""The server: every artifact behind REST and gRPC, batched, versioned, rolled out, never overrun.

``values`` is what is asked and answered; ``ports`` is what a signature is on the wire; ``models`` holds the versions
that are served and how each came to be trusted; ``lanes`` is where requests wait and become batches; ``protocols``
speaks the languages of the clients; ``rollout`` decides which version answers; ``observe`` is what can be seen of it;
``workers`` runs models in processes of their own; ``planes`` moves the bytes: in Python, or in the native extension.
"""
