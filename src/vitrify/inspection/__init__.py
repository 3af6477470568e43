"""Look at a file without running it: what it is, what it says, whether it could hurt, what its graph looks like."""
