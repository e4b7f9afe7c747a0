"""Cuts histories of plates into windows, each a history of its own.

    python3 cut_windows.py long.npz windows.npz LENGTH STRIDE

A model that is trained on windows has seen plates at any time, and can go on from
what it gave itself. Needs numpy.
"""
import sys

import numpy as np


def main():
    source, target, length, stride = sys.argv[1:]
    with np.load(source) as whole:
        fields = whole["fields"]
        begins = range(0, fields.shape[1] - int(length) + 1, int(stride))
        windows = [fields[:, begin:begin + int(length)] for begin in begins]
        rest = {name: np.tile(whole[name], len(begins)) for name in ("alpha", "dt")}
    np.savez(target, fields=np.concatenate(windows), **rest)


if __name__ == "__main__":
    main()
