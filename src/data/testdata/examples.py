"""Computed examples and hidden tokens, written a second time from their descriptions; prints what `tests/tokens.rs` expects.

Philox4x32-10 is that of Salmon, Moraes, Dror, Shaw (SC 2011), checked against the vectors that come with Random123.
Run: python src/data/testdata/examples.py
"""

MASK32, MASK64 = 2**32 - 1, 2**64 - 1


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ key[0],
            second & MASK32,
            (first >> 32) ^ counter[3] ^ key[1],
            first & MASK32,
        ]
        key = [(key[0] + 0x9E3779B9) & MASK32, (key[1] + 0xBB67AE85) & MASK32]
    return counter


assert philox([0] * 4, [0] * 2) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
assert philox([MASK32] * 4, [MASK32] * 2) == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def mix(value):
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK64
    return value ^ (value >> 31)


def block(seed, stream, step, number):
    stream = int.from_bytes(stream.encode().ljust(8, b"\0"), "little")
    key = mix(mix((seed + 0x9E3779B97F4A7C15) & MASK64) ^ stream)
    counter = [number & MASK32, number >> 32, step & MASK32, step >> 32]
    return philox(counter, [key & MASK32, key >> 32])


def word(seed, stream, step, element):
    return block(seed, stream, step, element // 4)[element % 4]


def below(word, limit):
    return word * limit >> 32


def uniform(word):
    return (word >> 8) / 2**24


def masked(seed, epoch, example, tokens, probability, mask_token, vocabulary, kept):
    hidden, labels, draws = list(tokens), [-100] * len(tokens), []

    def hide(position, words):
        labels[position] = tokens[position]
        if uniform(words[1]) < 0.8:
            hidden[position] = mask_token
        elif uniform(words[1]) < 0.9:
            hidden[position] = below(words[2], vocabulary)

    for position, token in enumerate(tokens):
        if token not in kept:
            words = block(seed, "masking", epoch, example * len(tokens) + position)
            draws.append((uniform(words[0]), position, words))
    chosen = [draw for draw in draws if draw[0] < probability] or sorted(draws)[:1]
    for _, position, words in chosen:
        hide(position, words)
    return hidden, labels


tokens = [[below(word(7, "features", example, e), 50257) for e in range(6)] for example in (0, 3)]
print("tokens", tokens)
print("classes", [below(word(7, "labels", example, 0), 1000) for example in range(8)])
print("uniform", [uniform(word(7, "features", 2, e)) for e in range(5)])
text = [(3 * i + 1) % 50 for i in range(24)]
print("masked", *masked(42, 1, 5, text, 0.5, 103, 200, [1, 4]))
print("one at least", *masked(42, 1, 9, text[:6], 1e-6, 103, 200, []))
