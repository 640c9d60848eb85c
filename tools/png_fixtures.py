# SPDX-License-Identifier: Apache-2.0
"""PNG files of every colour type, bit depth and interlace, written chunk by chunk.

Pillow gives the expected pixels, but for transparent colours of 2, 4 and 16 bits: there it compares
scaled samples with unscaled colours, and the PNG specification is what counts.
"""
import struct
import zlib

import numpy as np

GRAY, RGB, PALETTE, GRAY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GRAY: 1, RGB: 3, PALETTE: 1, GRAY_ALPHA: 2, RGBA: 4}
NAMES = {GRAY: "gray", RGB: "rgb", PALETTE: "palette", GRAY_ALPHA: "gray-alpha", RGBA: "rgba"}
DEPTHS = {GRAY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GRAY_ALPHA: (8, 16),
          RGBA: (8, 16)}
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
          (0, 1, 1, 2))  # x, y, step in x, step in y
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def chunk(kind, data=b""):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def pack_row(row, depth):
    """[width][channels] samples to bytes."""
    flat = row.reshape(-1)
    if depth == 16:
        return flat.astype(">u2").tobytes()
    if depth == 8:
        return flat.astype(np.uint8).tobytes()
    bits = (flat[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.astype(np.uint8).reshape(-1)).tobytes()


def paeth(left, up, corner):
    best = min((abs(up - corner), 0), (abs(left - corner), 1), (abs(left + up - 2 * corner), 2))[1]
    return (left, up, corner)[best]


def filter_row(kind, row, above, unit):
    out = bytearray([kind])
    for i, value in enumerate(row):
        left = row[i - unit] if i >= unit else 0
        up = above[i] if above else 0
        corner = above[i - unit] if above and i >= unit else 0
        guess = (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]
        out.append((value - guess) & 255)
    return bytes(out)


def filtered(samples, depth):
    """All rows of one picture or pass; the filters take turns."""
    unit = max(1, samples.shape[2] * depth // 8)
    out, above = b"", None
    for y, row in enumerate(samples):
        packed = pack_row(row, depth)
        out += filter_row(y % 5, packed, above, unit)
        above = packed
    return out


def png(samples, depth, kind, interlaced=False, before=b"", after=b"", pieces=1):
    height, width, _ = samples.shape
    if interlaced:
        passes = [samples[y::dy, x::dx] for x, y, dx, dy in PASSES]
        raw = b"".join(filtered(part, depth) for part in passes if part.size)
    else:
        raw = filtered(samples, depth)
    packed = zlib.compress(raw, 9)
    step = -(-len(packed) // pieces)
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, int(interlaced))
    data = b"".join(chunk(b"IDAT", packed[i:i + step]) for i in range(0, len(packed), step))
    return SIGNATURE + chunk(b"IHDR", header) + before + data + after + chunk(b"IEND")


def make_samples(photo, kind, depth):
    values = photo(channels=max(3, CHANNELS[kind])).astype(np.int64)
    if kind == GRAY_ALPHA:
        values = values[..., :2]
    values = values[..., :CHANNELS[kind]]
    if depth == 16:
        return values * 256 + (values * 7 + 13) % 256
    return values >> (8 - depth)


def palette_of(depth):
    count = min(2 ** depth, 200)
    index = np.arange(count)
    colours = np.stack([index * 97 % 256, index * 55 % 256, 255 - index * 31 % 256], -1)
    return colours.astype(np.uint8)


def over_white(rgb, alpha):
    return np.round((rgb * alpha + 255.0 * (255 - alpha)) / 255).astype(np.uint8)


def by_specification(samples, depth, key):
    """Gray or RGB where one colour, compared sample by sample, is transparent."""
    eight_bit = samples >> 8 if depth == 16 else samples * 255 // (2 ** depth - 1)
    rgb = np.broadcast_to(eight_bit, samples.shape[:2] + (3,)).astype(np.uint8).copy()
    rgb[(samples == np.array(key)).all(-1)] = 255
    return rgb


def colour_types(photo, expected):
    for kind, depths in DEPTHS.items():
        for depth in depths:
            samples = make_samples(photo, kind, depth)
            before = b""
            if kind == PALETTE:
                colours = palette_of(depth)
                samples = samples % len(colours)
                before = chunk(b"PLTE", colours.tobytes())
            for interlaced in (False, True):
                name = f"{NAMES[kind]}-{depth}{'-interlaced' if interlaced else ''}.png"
                data = png(samples, depth, kind, interlaced, before)
                yield name, data, expected(data)


def transparent_colours(photo, expected):
    for kind, depth in [(GRAY, d) for d in DEPTHS[GRAY]] + [(RGB, 8), (RGB, 16)]:
        samples = make_samples(photo, kind, depth)
        key = samples[5, 7]
        samples[9, 2:5] = key
        if depth == 16:  # the same high byte alone is another colour
            samples[2, 3] = key ^ 1
        colour = chunk(b"tRNS", struct.pack(f">{len(key)}H", *(int(value) for value in key)))
        interlaced = depth in (4, 16)
        data = png(samples, depth, kind, interlaced, colour)
        pixels = by_specification(samples, depth, key)
        if depth in (1, 8):
            assert np.array_equal(pixels, expected(data)), "Pillow and the specification disagree"
        yield f"{NAMES[kind]}-{depth}-transparent.png", data, pixels
    for depth in DEPTHS[PALETTE]:
        colours = palette_of(depth)
        samples = make_samples(photo, PALETTE, depth) % len(colours)
        alphas = bytes((i * 83 + 20) % 256 for i in range(max(1, len(colours) - 1)))
        before = chunk(b"PLTE", colours.tobytes()) + chunk(b"tRNS", alphas)
        data = png(samples, depth, PALETTE, False, before)
        yield f"palette-{depth}-transparent.png", data, expected(data)


def metadata(photo, tiff, xmp, expected):
    rgb = make_samples(photo, RGB, 8)
    plain = lambda **options: png(rgb, 8, RGB, **options)
    for value in range(1, 9):
        yield f"orientation-{value}.png", plain(before=chunk(b"eXIf", tiff(value, "<>"[value % 2])))
    yield "orientation-9.png", plain(before=chunk(b"eXIf", tiff(9)))
    yield "orientation-after.png", plain(after=chunk(b"eXIf", tiff(6)))
    raw = b"\nexif\n%8d\n%s\n" % (len(tiff(5)) + 6, (b"Exif\0\0" + tiff(5)).hex().encode())
    keyword = b"Raw profile type exif\0"
    yield "orientation-profile.png", plain(before=chunk(b"tEXt", keyword + raw))
    yield "orientation-packed-profile.png", plain(
        before=chunk(b"zTXt", keyword + b"\0" + zlib.compress(raw)))
    keyword = b"XML:com.adobe.xmp\0"
    yield "orientation-xmp.png", plain(before=chunk(b"iTXt", keyword + b"\0\0\0\0" + xmp(3)))
    yield "orientation-packed-xmp.png", plain(
        before=chunk(b"iTXt", keyword + b"\1\0\0\0" + zlib.compress(xmp(7))))
    colour = (chunk(b"gAMA", struct.pack(">I", 100000)) + chunk(b"sBIT", b"\5\5\5")
              + chunk(b"iCCP", b"profile\0\0" + zlib.compress(bytes(3000))))
    yield "gamma-and-profile.png", plain(before=colour + chunk(b"bKGD", b"\0\1\0\2\0\3"))
    yield "text.png", plain(before=chunk(b"tEXt", b"Comment\0words"), after=chunk(b"prVt", b"own"))
    yield "pieces.png", plain(pieces=7)
    yield "trailing.png", plain() + b"trailing bytes"
    yield "one-pixel.png", png(rgb[:1, :1], 8, RGB)
    yield "one-pixel-interlaced.png", png(rgb[:1, :1], 8, RGB, True)
    yield "ratio-200.png", png(np.arange(600).reshape(1, 200, 3) % 256, 8, RGB)
    frame = lambda number: chunk(b"fcTL", struct.pack(
        ">IIIIIHHBB", number, rgb.shape[1], rgb.shape[0], 0, 0, 1, 10, 0, 0))
    second = zlib.compress(filtered(255 - rgb, 8), 9)
    count = lambda frames: chunk(b"acTL", struct.pack(">II", frames, 0))
    other = chunk(b"fdAT", struct.pack(">I", 2) + second)
    yield "animated.png", plain(before=count(2) + frame(0), after=frame(1) + other)
    first = chunk(b"fdAT", struct.pack(">I", 1) + second)
    yield "animated-apart.png", plain(before=count(1), after=frame(0) + first)


def cases(photo, tiff, xmp, expected):
    """(file name, bytes, expected RGB) of every PNG."""
    found = list(colour_types(photo, expected)) + list(transparent_colours(photo, expected))
    return found + [(name, data, expected(data))
                    for name, data in metadata(photo, tiff, xmp, expected)]
