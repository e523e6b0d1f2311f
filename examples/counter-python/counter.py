"""Adds one to the number in a JSON file.

usage: counter.py [--right] FILE

Without --right it reads, adds and writes with nobody kept out meanwhile: two
that run at once may both write the same number.
"""

import fcntl
import json
import os
import sys
import tempfile


def read(path):
    with open(path) as f:
        return json.load(f)["n"]


def write(path, n):
    """Replaces the file as a whole, and has it on the disk when it returns."""
    folder = os.path.dirname(path)
    fd, temp = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(fd, "w") as f:
            json.dump({"n": n}, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(temp, path)
    except BaseException:
        os.unlink(temp)
        raise
    d = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(d)
    finally:
        os.close(d)


def add(path):
    n = read(path) + 1
    write(path, n)
    print(n)


def main():
    right = "--right" in sys.argv
    path = sys.argv[-1]
    if not right:
        return add(path)
    # The system frees the lock when the process ends, however it ends.
    with open(path + ".lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        add(path)


if __name__ == "__main__":
    main()
