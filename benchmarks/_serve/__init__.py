"""What the benchmarks of serving share: models, servers as processes, what is sent to them, and the load client."""
