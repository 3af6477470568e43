"""The languages of the clients: each protocol is a function from the engine to routes (REST) or methods (gRPC).

A protocol knows neither sockets nor models: it reads a call's bytes, asks the engine, and writes the answer's bytes.
``proto`` has the messages of gRPC as text.
"""
