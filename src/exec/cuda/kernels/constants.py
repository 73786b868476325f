"""Prints constants.cuh from constants.rs of the portable functions, so that both have the same bits.

Run: python3 constants.py > constants.cuh
"""

import pathlib
import re
import struct

SOURCE = pathlib.Path(__file__).parent / "../../../arithmetic/functions/constants.rs"


def number(bits):
    """A binary64 as a hexadecimal literal, exactly."""
    return struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0].hex()


print("// Constants of the functions as initialisers, made by constants.py beside this file; do not edit by hand.")
print("#pragma once\n")
for comment, name, value in re.findall(r"((?:/// .*\n)+)pub const (\w+): [^=]*=\s*([^;]*);", SOURCE.read_text()):
    print(comment.replace("///", "//").rstrip())
    value = re.sub(r"//.*", "", value)
    bits = re.findall(r"f64::from_bits\((0x\w+)\)", value)
    words = [number(word) for word in bits] or [f"{word}ull" for word in re.findall(r"\w+", value)]
    text = words[0] if value.startswith("f64") else "{" + ", ".join(words) + "}"
    print(f"#define PORTABLE_{name} {text}")
