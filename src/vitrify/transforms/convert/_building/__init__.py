"""What every converter of estimators builds with: the graph, the data that flows, the ports, the register of steps."""
