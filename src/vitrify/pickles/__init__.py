"""The pickle machine: reads a pickle as data, decides on it, and builds it from allowed constructors only."""
