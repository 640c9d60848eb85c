#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the picture fixtures of the media tests and, by Pillow, the pixels they must decode to.

One file for each way a JPEG, PNG or WebP can be stored; beside it NAME.ppm with the expected RGB:
EXIF-transposed, composited over white, 16-bit samples by their high byte. list.json names them all.
"""
import argparse
import io
import json
import pathlib
import struct

import numpy as np
from PIL import Image, ImageOps

import png_fixtures

WIDTH, HEIGHT = 21, 13  # odd, and not a multiple of any block


def photo(width=WIDTH, height=HEIGHT, channels=3):
    """A smooth gradient with noise: every channel differs, no two rows or columns are alike."""
    y, x = np.mgrid[0:height, 0:width]
    noise = np.random.default_rng(7).integers(0, 32, (height, width, channels))
    planes = [x * 200 // max(width - 1, 1), y * 200 // max(height - 1, 1),
              (x + y) * 200 // max(width + height - 2, 1), 40 + (x * y) % 200]
    return (np.stack(planes[:channels], -1) + noise).clip(0, 255).astype(np.uint8)


def expected(data):
    """What Pillow makes of it: RGB over white, turned upright."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    if image.mode == "I;16":  # Pillow clips these; the high byte is what counts here
        image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("LA", "PA", "RGBA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        return np.asarray(Image.alpha_composite(white, image).convert("RGB"))
    return np.asarray(image.convert("RGB"))


def tiff(orientation, order="<", kind=3, tag=0x0112):
    """A TIFF block of three entries, Orientation the second of them."""
    value = struct.pack(order + ("H2x" if kind in (3, 8) else "I"), orientation)
    entries = (struct.pack(order + "HHI", 0x0100, 3, 1) + struct.pack(order + "H2x", 21)
               + struct.pack(order + "HHI", tag, kind, 1) + value
               + struct.pack(order + "HHI", 0x0128, 3, 1) + struct.pack(order + "H2x", 2))
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
    return head + struct.pack(order + "H", 3) + entries + struct.pack(order + "I", 0)


def xmp(orientation):
    return ('<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description '
            f'tiff:Orientation="{orientation}"/></x:xmpmeta>').encode()


def jpeg_segment(marker, payload):
    return struct.pack(">BBH", 0xFF, marker, len(payload) + 2) + payload


def insert_segment(jpeg, marker, payload):
    return jpeg[:2] + jpeg_segment(marker, payload) + jpeg[2:]


def save(array, mode, kind, **options):
    out = io.BytesIO()
    Image.fromarray(array, mode).save(out, kind, **options)
    return out.getvalue()


def without_segment(jpeg, marker):
    at = jpeg.index(bytes([0xFF, marker]))
    return jpeg[:at] + jpeg[at + 2 + struct.unpack(">H", jpeg[at + 2:at + 4])[0]:]


def jpegs():
    rgb, inks, gray = photo(), photo(channels=4), photo()[..., 0].copy()
    base = save(rgb, "RGB", "JPEG", quality=85)
    cmyk = save(inks, "CMYK", "JPEG", quality=90)
    adobe = cmyk.index(b"Adobe") + 11  # where the colour transform is told
    yield "gray.jpg", save(gray, "L", "JPEG")
    yield "gray-progressive.jpg", save(gray, "L", "JPEG", progressive=True)
    for sampling in ("4:4:4", "4:2:2", "4:2:0"):
        name = sampling.replace(":", "")
        yield f"ycbcr-{name}.jpg", save(rgb, "RGB", "JPEG", subsampling=sampling)
    yield "progressive.jpg", save(rgb, "RGB", "JPEG", progressive=True, quality=90)
    yield "rgb.jpg", save(rgb, "RGB", "JPEG", keep_rgb=True)
    yield "restart.jpg", save(rgb, "RGB", "JPEG", restart_marker_blocks=1)
    yield "cmyk.jpg", cmyk
    yield "cmyk-progressive.jpg", save(inks, "CMYK", "JPEG", progressive=True)
    yield "cmyk-unmarked.jpg", without_segment(cmyk, 0xEE)
    yield "ycck.jpg", cmyk[:adobe] + b"\2" + cmyk[adobe + 1:]
    yield "one-pixel.jpg", save(photo(1, 1), "RGB", "JPEG")
    yield "ratio-200.jpg", save(photo(200, 1), "RGB", "JPEG")
    yield "junk-before-marker.jpg", base[:20] + b"junk" + base[20:]  # after APP0
    yield "trailing.jpg", base + b"trailing bytes"
    for value in range(1, 9):
        exif = b"Exif\0\0" + tiff(value, "<>"[value % 2])
        yield f"orientation-{value}.jpg", insert_segment(base, 0xE1, exif)
    for value in (0, 9, 65535):
        yield f"orientation-{value}.jpg", insert_segment(base, 0xE1, b"Exif\0\0" + tiff(value))
    yield "orientation-long.jpg", insert_segment(base, 0xE1, b"Exif\0\0" + tiff(6, ">", 4))
    xmp_payload = b"http://ns.adobe.com/xap/1.0/\0" + xmp(8)
    yield "orientation-xmp.jpg", insert_segment(base, 0xE1, xmp_payload)
    both = insert_segment(base, 0xE1, xmp_payload)
    yield "orientation-exif-over-xmp.jpg", insert_segment(both, 0xE1, b"Exif\0\0" + tiff(3))


def webp_chunk(kind, data):
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def webp_file(*chunks):
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_animation(width, height, flags, frames):
    u24 = lambda value: struct.pack("<I", value)[:3]
    chunks = [webp_chunk(b"VP8X", bytes([flags | 2, 0, 0, 0]) + u24(width - 1) + u24(height - 1)),
              webp_chunk(b"ANIM", struct.pack("<IH", 0xFF204060, 0))]
    for x, y, still in frames:
        size = Image.open(io.BytesIO(still)).size
        at = 12
        if still[12:16] == b"VP8X":
            at += 18  # the frame keeps its alpha and pixel chunks alone
        head = u24(x // 2) + u24(y // 2) + u24(size[0] - 1) + u24(size[1] - 1) + u24(100) + b"\2"
        chunks.append(webp_chunk(b"ANMF", head + still[at:]))
    return webp_file(*chunks)


def webps():
    rgb, rgba = photo(), photo(channels=4)
    part, part_alpha = photo(9, 5), photo(9, 5, 4)
    lossy = save(rgb, "RGB", "WEBP", quality=80)
    lossless = save(rgb, "RGB", "WEBP", lossless=True)
    yield "lossy.webp", lossy
    yield "lossless.webp", lossless
    yield "lossy-alpha.webp", save(rgba, "RGBA", "WEBP", quality=80)
    yield "lossless-alpha.webp", save(rgba, "RGBA", "WEBP", lossless=True, exact=True)
    yield "icc.webp", save(rgb, "RGB", "WEBP", icc_profile=bytes(300))
    yield "one-pixel.webp", save(photo(1, 1), "RGB", "WEBP", lossless=True)
    yield "ratio-200.webp", save(photo(1, 200), "RGB", "WEBP")
    yield "trailing.webp", lossy + b"trailing bytes"
    for value in range(2, 9):
        yield f"orientation-{value}.webp", save(rgb, "RGB", "WEBP", exif=tiff(value, "<>"[value % 2]))
    yield "orientation-prefixed.webp", save(rgb, "RGB", "WEBP", exif=b"Exif\0\0" + tiff(6))
    yield "orientation-xmp.webp", save(rgb, "RGB", "WEBP", xmp=xmp(5))
    lossless_part = save(part, "RGB", "WEBP", lossless=True)
    lossy_part = save(part, "RGB", "WEBP")
    alpha_part = save(part_alpha, "RGBA", "WEBP", lossless=True, exact=True)
    lossy_alpha_part = save(part_alpha, "RGBA", "WEBP")
    frames = [(4, 6, lossless_part), (0, 0, lossy)]
    yield "animated.webp", webp_animation(WIDTH, HEIGHT, 0, [(0, 0, lossy), (4, 6, lossless_part)])
    yield "animated-part.webp", webp_animation(WIDTH, HEIGHT, 0, frames)
    yield "animated-part-flagged.webp", webp_animation(WIDTH, HEIGHT, 16, frames)
    yield "animated-alpha.webp", webp_animation(
        WIDTH, HEIGHT, 16, [(2, 2, alpha_part), (4, 6, lossy_part)])
    yield "animated-lossy-alpha.webp", webp_animation(WIDTH, HEIGHT, 16, [(12, 8, lossy_alpha_part)])
    yield "animated-alpha-unflagged.webp", webp_animation(WIDTH, HEIGHT, 0, [(2, 2, alpha_part)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/fixtures/images")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    names = []
    cases = [(name, data, expected(data)) for make in (jpegs, webps) for name, data in make()]
    cases += png_fixtures.cases(photo, tiff, xmp, expected)
    for name, data, pixels in cases:
        (out / name).write_bytes(data)
        height, width, _ = pixels.shape
        (out / f"{name}.ppm").write_bytes(b"P6 %d %d 255\n" % (width, height) + pixels.tobytes())
        names.append(name)
    (out / "list.json").write_text(json.dumps({"images": names}, indent=1) + "\n")
    print(f"{len(names)} images in {out}")


if __name__ == "__main__":
    main()
