"""A model that does what it is told: it answers, or harms its process. Tests seal this text as the module ``rogue``."""

import os
import sys
import time

import numpy as np

RAISES, HANGS, CRASHES, EXITS, LEAKS, PRINTS, SAYS, REACHES = range(-1, -9, -1)
HELD = []


def predict(x):
    """Double ``x``, but for the magic numbers in its first column; ``[0, 1]`` of an answer is the process number."""
    magic = int(x[0, 0]) if len(x) else 0
    if magic == RAISES:
        raise ValueError("I do not like this row")
    if magic == HANGS:
        time.sleep(3600)
    if magic == CRASHES:
        os.kill(os.getpid(), 11)
    if magic == EXITS:
        os._exit(3)
    if magic == REACHES:
        sys.exit("enough")
    if magic == LEAKS:
        HELD.append(np.ones(int(x[0, 1]), np.uint8))
    if magic == PRINTS:
        sys.stdout.write("hello from the model\n")
        sys.stdout.flush()
        sys.stderr.write("and from its other side\n")
    return np.column_stack([x[:, 0] * 2, np.full(len(x), os.getpid(), np.float64)])


def count(x):
    """Give one part after the other, so many as the first number says."""
    try:
        for number in range(int(x[0, 0])):
            if x[0, 1] == RAISES and number == 2:
                raise ValueError("no third part")
            yield x * number
    finally:
        sys.stdout.write("the stream has ended\n")
        sys.stdout.flush()
