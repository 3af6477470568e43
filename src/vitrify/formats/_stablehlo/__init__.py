"""A StableHLO module as values, from bytecode or from text."""
