"""Writes the pictures beside it, and what Pillow makes of them and of scaled ones: `python pillow.py` (Pillow 11.3.0).

From Pillow 13 on some pictures are scaled in rows before columns, and a byte may differ by one; amp always takes columns first.

Pictures are small, and their pixels are those of `colour`, so that a test can make them too. `scaled.txt` has a line for each
case: height and width, what is done, height and width of the result, its bytes (rows, columns, channels) in hexadecimal.
`decoded.txt` has name, mode, height, width and bytes of each file as Pillow decodes it.
"""

from pathlib import Path

from PIL import Image

here = Path(__file__).parent


def colour(x, y, channel):
    return (x * x * 7 + y * 13 + channel * 50 + x * y * 3) % 256


def picture(height, width, mode="RGB"):
    image = Image.new(mode, (width, height))
    for y in range(height):
        for x in range(width):
            values = tuple(colour(x, y, channel) for channel in range(len(mode)))
            image.putpixel((x, y), values if len(mode) > 1 else values[0])
    return image


def smooth(height, width, mode="RGB"):
    image = Image.new(mode, (width, height))
    for y in range(height):
        for x in range(width):
            values = (40 + 6 * x, 200 - 5 * y, 90 + 2 * (x + y))[: len(mode)]
            image.putpixel((x, y), values if len(mode) > 1 else values[0])
    return image


def resized(image, height, width):
    return image.resize((width, height), Image.Resampling.BILINEAR)


def centred(image, shorter, height, width):
    """torchvision's `Resize(shorter)` and `CenterCrop((height, width))`."""
    if image.width <= image.height:
        size = (int(shorter * image.height / image.width), shorter)
    else:
        size = (shorter, int(shorter * image.width / image.height))
    image = resized(image, *size)
    top, left = int(round((image.height - height) / 2.0)), int(round((image.width - width) / 2.0))
    return image.crop((left, top, left + width, top + height))


def main():
    lines = []
    sizes = [(1, 1, 3, 2), (5, 7, 5, 7), (5, 7, 3, 4), (5, 7, 8, 9), (5, 7, 5, 3), (5, 7, 2, 7), (31, 17, 15, 8), (31, 17, 4, 5), (9, 40, 1, 1)]
    for height, width, to_height, to_width in sizes:
        for mode in ("RGB", "L"):
            result = resized(picture(height, width, mode), to_height, to_width)
            lines.append(f"{height} {width} {mode} stretch {to_height} {to_width} {result.tobytes().hex()}")
    for height, width, shorter, to_height, to_width in [(20, 30, 8, 5, 6), (31, 17, 7, 7, 4), (12, 12, 9, 4, 4), (10, 21, 6, 5, 5)]:
        result = centred(picture(height, width), shorter, to_height, to_width)
        lines.append(f"{height} {width} RGB {shorter} {to_height} {to_width} {result.tobytes().hex()}")
    result = picture(6, 7).convert("L")
    lines.append(f"6 7 RGB grey 6 7 {result.tobytes().hex()}")
    (here / "scaled.txt").write_text("\n".join(lines) + "\n")

    files = {}
    for mode in ("RGB", "L"):
        files[f"{mode.lower()}.png"] = (picture(3, 4, mode), {})
        files[f"baseline-{mode.lower()}.jpg"] = (smooth(13, 18, mode), {"quality": 90, "subsampling": 0})
        files[f"progressive-{mode.lower()}.jpg"] = (smooth(13, 18, mode), {"quality": 90, "subsampling": 0, "progressive": True})
    files["two-by-two.jpg"] = (smooth(13, 18), {"quality": 90, "subsampling": 2})
    files["two-by-two-progressive.jpg"] = (smooth(13, 18), {"quality": 90, "subsampling": 2, "progressive": True})
    files["restarts.jpg"] = (smooth(13, 18), {"quality": 90, "subsampling": 1, "restart_marker_blocks": 1})
    files["rgb-inside.jpg"] = (smooth(13, 18), {"quality": 90, "keep_rgb": True})
    files["cmyk.jpg"] = (smooth(4, 4).convert("CMYK"), {"quality": 50})
    opaque = picture(3, 4)
    opaque.putalpha(255)
    files["opaque.png"] = (opaque, {})
    pierced = opaque.copy()
    pierced.putpixel((2, 1), (1, 2, 3, 254))
    files["transparent.png"] = (pierced, {})
    files["palette.png"] = (picture(3, 4).quantize(7), {})
    files["palette-hole.png"] = (picture(3, 4).quantize(7), {"transparency": 0})
    files["one-bit.png"] = (picture(3, 11, "L").point(lambda value: 255 * (value > 99)).convert("1"), {})
    files["sixteen.png"] = (Image.new("I;16", (2, 2), 700), {})
    lines = []
    for name, (image, options) in files.items():
        image.save(here / name, **options)
        again = Image.open(here / name)
        mode = "L" if again.mode in ("1", "L", "I;16") else "RGB"
        again = again.convert(mode)
        lines.append(f"{name} {mode} {again.height} {again.width} {again.tobytes().hex()}")
    (here / "decoded.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
