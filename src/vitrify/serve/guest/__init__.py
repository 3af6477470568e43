"""Guest: our models inside of other people's servers.

What ``vitrify export`` writes for Triton's Python backend, TorchServe and Ray Serve imports one line from here. Each of
them runs the same engine as ``vitrify serve``: a model answers only when every byte of it was verified, this machine's
policy permits to serve it, and its golden samples gave what they gave; it is batched only if batches are proven equal.
"""
