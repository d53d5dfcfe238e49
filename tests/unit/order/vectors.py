#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The orders once more, from docs/orders.md instead of from the C code; prints vectors.def."""

M = (1 << 64) - 1
SHAPES = (1, 2, 3, 10, 128, 129, 1000, 10**6, 10**9, 2**40)
KEYS = ((0, 0), (0, 1), (42, 7), (M, M))


class Stream:
    def __init__(self, state):
        self.state = state

    def next(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & M
        z = self.state
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M
        z = (z ^ z >> 27) * 0x94D049BB133111EB & M
        return z ^ z >> 31


def mix(x):
    x = x * 0xD6E8FEB86659FD93 & M
    x ^= x >> 32
    return x * 0x9E3779B97F4A7C15 & M


def stream(n, seed, epoch):
    state = Stream(seed).next() ^ epoch
    state = Stream(state).next() ^ n
    return Stream(Stream(state).next())


def shuffle(n, seed, epoch):
    """A function from position to element."""
    rng = stream(n, seed, epoch)
    if n <= 128:
        table = []
        for k in range(n):
            j = rng.next() * (k + 1) >> 64
            table.append(k)
            table[k], table[j] = table[j], k
        return lambda k: table[k]
    bits = n.bit_length() // 2
    a = -(-n >> bits)
    keys = [rng.next() for _ in range(8)]

    def at(k):
        while True:
            left, right = divmod(k, 1 << bits)
            for i in range(0, 8, 2):
                left = (left + (mix((right + keys[i]) & M) * a >> 64)) % a
                right ^= mix((left + keys[i + 1]) & M) >> (64 - bits)
            k = left << bits | right
            if k < n:
                return k
    return at


def main():
    print("/* Written by vectors.py, never by hand: n, seed, epoch, position, element. */")
    for n in SHAPES:
        for seed, epoch in KEYS:
            at = shuffle(n, seed, epoch)
            for k in sorted({0, 1, n // 3, n // 2, n - 1}):
                if k < n:
                    print(f"{{{n}u, {seed}u, {epoch}u, {k}u, {at(k)}u}},")


if __name__ == "__main__":
    main()
