"""Mutated media files, read and written back in a process of its own: one line for each, before it is tried.

``python media_fuzzer.py SUFFIX FIRST LAST FOLDER`` tries the files numbered FIRST to LAST − 1 in FOLDER,
which it leaves empty. The same number is always the same file. Ends with 0 when each was either read or
refused in one sentence with nothing written; everything else ends it, and the last line tells at which file.
"""

import io
import os
import random
import struct
import sys
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np

SIDES = (20, 28)


def photograph(channels, dtype=np.uint8):
    """A gradient with some texture: small files that use their format's parts."""
    rows, columns = np.mgrid[: SIDES[0], : SIDES[1]]
    planes = [(rows * (5 + c) + columns * 3 + 20 * ((rows // 4 + columns // 4) % 2)) % 256 for c in range(4)]
    values = np.dstack(planes[:channels]).astype(dtype)
    values = values * dtype(257) if dtype == np.uint16 else values
    return values[:, :, 0] if channels == 1 else values


def by_pillow(values, format, **options):
    from PIL import Image

    file = io.BytesIO()
    image = values if isinstance(values, Image.Image) else Image.fromarray(values)
    image.save(file, format, **options)
    return file.getvalue()


def jpegs():
    from PIL import Image

    tags = Image.Exif()
    tags[0x0112] = 6
    colour, grey = photograph(3), photograph(1)
    return [
        by_pillow(colour, "JPEG"),
        by_pillow(colour, "JPEG", progressive=True, subsampling=0),
        by_pillow(grey, "JPEG", optimize=True),
        by_pillow(colour, "JPEG", exif=tags.tobytes(), comment=b"words", icc_profile=bytes(200)),
        by_pillow(Image.fromarray(colour).convert("CMYK"), "JPEG"),
    ]


def pngs():
    from PIL import Image, PngImagePlugin

    from sfumato.io import encode_picture

    texts = PngImagePlugin.PngInfo()
    texts.add_text("Author", "words" * 20, zip=True)
    colour = Image.fromarray(photograph(3))
    frames = [Image.fromarray(photograph(1)), Image.fromarray(255 - photograph(1))]
    return [
        *(
            encode_picture(photograph(c, dtype), ".png")
            for c in range(1, 5)
            for dtype in (np.uint8, np.uint16)
        ),
        by_pillow(colour.quantize(16), "PNG", transparency=3, bits=4),
        by_pillow(colour, "PNG", pnginfo=texts, icc_profile=bytes(200)),
        by_pillow(colour.convert("1"), "PNG"),
        by_pillow(frames[0], "PNG", save_all=True, append_images=frames[1:]),
    ]


def webps():
    frames = [photograph(3), 255 - photograph(3)]
    from PIL import Image

    images = [Image.fromarray(frame) for frame in frames]
    return [
        by_pillow(photograph(3), "WEBP"),
        by_pillow(photograph(4), "WEBP"),
        by_pillow(photograph(3), "WEBP", lossless=True),
        by_pillow(photograph(4), "WEBP", lossless=True, exif=b"Exif\0\0II*\0\x08\0\0\0\0\0"),
        by_pillow(images[0], "WEBP", save_all=True, append_images=images[1:]),
    ]


def tiffs():
    import tifffile

    from sfumato.io import encode_picture

    seeds = [by_pillow(photograph(3), "TIFF", compression=p) for p in ("tiff_lzw", "packbits", "raw")]
    seeds += [encode_picture(photograph(c, np.uint16), ".tif") for c in (1, 4)]
    for options in ({"byteorder": ">"}, {"tile": (16, 16), "compression": "zlib"}, {"rowsperstrip": 5}):
        file = io.BytesIO()
        tifffile.imwrite(file, photograph(3), photometric="rgb", metadata=None, **options)
        seeds.append(file.getvalue())
    return seeds


def gifs():
    from PIL import Image

    colour = Image.fromarray(photograph(3))
    frames = [Image.fromarray(photograph(1)), Image.fromarray(255 - photograph(1))]
    return [
        by_pillow(colour.quantize(64), "GIF"),
        by_pillow(colour.quantize(16), "GIF", transparency=3, interlace=1),
        by_pillow(frames[0], "GIF", comment=b"words" * 100),
        by_pillow(colour.convert("1"), "GIF"),
        by_pillow(frames[0], "GIF", save_all=True, append_images=frames[1:]),
    ]


def heics():
    import pillow_heif
    from PIL import Image

    tags = Image.Exif()
    tags[0x0112] = 6
    seeds = []
    for channels, options in ((3, {}), (4, {}), (1, {}), (3, {"exif": tags.tobytes()}), (3, {"quality": -1})):
        file = io.BytesIO()
        pillow_heif.from_pillow(Image.fromarray(photograph(channels))).save(file, **options)
        seeds.append(file.getvalue())
    return seeds


def avifs():
    from PIL import Image

    tags = Image.Exif()
    tags[0x0112] = 6
    images = [Image.fromarray(frame) for frame in (photograph(3), 255 - photograph(3))]
    return [
        by_pillow(photograph(3), "AVIF"),
        by_pillow(photograph(4), "AVIF"),
        by_pillow(photograph(1), "AVIF", quality=100),
        by_pillow(photograph(3), "AVIF", exif=tags.tobytes(), subsampling="4:4:4"),
        by_pillow(images[0], "AVIF", save_all=True, append_images=images[1:]),
    ]


def bmps():
    from PIL import Image

    colour = Image.fromarray(photograph(3))
    return [
        by_pillow(colour, "BMP"),
        by_pillow(colour.convert("L"), "BMP"),
        by_pillow(colour.convert("1"), "BMP"),
        by_pillow(colour.quantize(256), "BMP"),
        by_pillow(colour.convert("RGBA"), "BMP"),
    ]


def sounds(suffix):
    import soundfile

    time = np.arange(800) / 8_000
    tone = 0.5 * np.sin(2 * np.pi * 440 * time)
    depths = {
        ".wav": ("PCM_16", "PCM_24", "FLOAT", "PCM_U8"),
        ".flac": ("PCM_16", "PCM_24"),
        ".ogg": ("VORBIS", "OPUS"),
    }
    seeds = []
    for depth in depths[suffix]:
        for values in (tone, np.column_stack([tone, -tone])):
            file = io.BytesIO()
            soundfile.write(file, values, 8_000, format=suffix[1:].upper(), subtype=depth)
            seeds.append(file.getvalue())
    return seeds


def videos():
    import av

    seeds = []
    for container, codec, sound in (
        ("mp4", "mpeg4", "aac"),
        ("avi", "mpeg4", None),
        ("matroska", "mpeg4", None),
    ):
        file = io.BytesIO()
        with av.open(file, "w", format=container) as output:
            stream = output.add_stream(codec, rate=10)
            stream.width, stream.height, stream.pix_fmt = 32, 32, "yuv420p"
            track = output.add_stream(sound, rate=8_000) if sound else None
            picture = np.kron(photograph(3)[:16, :16], np.ones((2, 2, 1), np.uint8))
            for shift in range(4):
                frame = av.VideoFrame.from_ndarray(np.roll(picture, shift, axis=1), format="rgb24")
                output.mux(stream.encode(frame))
            output.mux(stream.encode(None))
            if track is not None:
                tone = np.sin(np.arange(3_200) / 3).astype(np.float32)[None]
                frame = av.AudioFrame.from_ndarray(tone, format="fltp", layout="mono")
                frame.sample_rate, frame.pts, frame.time_base = 8_000, 0, Fraction(1, 8_000)
                output.mux(track.encode(frame))
                output.mux(track.encode(None))
        seeds.append(file.getvalue())
    return seeds


SEEDS = {
    ".jpg": jpegs,
    ".png": pngs,
    ".webp": webps,
    ".tif": tiffs,
    ".bmp": bmps,
    ".gif": gifs,
    ".heic": heics,
    ".avif": avifs,
    ".wav": lambda: sounds(".wav"),
    ".flac": lambda: sounds(".flac"),
    ".ogg": lambda: sounds(".ogg"),
    ".mp4": videos,
}
# What other files start with.
STARTS = [
    *(
        b"\xff\xd8\xff\xe0\0\x10JFIF\0",
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        b"RIFF\x40\0\0\0WEBPVP8X",
        b"II*\0\x08\0\0\0",
    ),
    *(
        b"MM\0*\0\0\0\x08",
        b"BM",
        b"GIF89a",
        b"RIFF\x40\0\0\0WAVEfmt ",
        b"fLaC\0\0\0\x22",
        b"OggS\0\2",
        b"%PDF-1.7",
    ),
    *(
        b"\0\0\0\x18ftypmp42",
        b"\x1a\x45\xdf\xa3",
        b"#EXTM3U\n",
        b"ffconcat version 1.0\nfile /etc/hostname\n",
    ),
]
EXTREMES = [
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x100,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
]


def flipped(data, rng, seeds):
    for _ in range(rng.choice([1, 1, 2, 8, 40])):
        place = rng.randrange(len(data))
        data[place] ^= 1 << rng.randrange(8)
    return data


def overwritten(data, rng, seeds):
    place, length = rng.randrange(len(data)), rng.choice([1, 2, 4, 16, 64])
    data[place : place + length] = rng.choice([bytes(length), b"\xff" * length, rng.randbytes(length)])
    return data


def truncated(data, rng, seeds):
    return data[: rng.randrange(len(data))]


def lengthened(data, rng, seeds):
    """A number of 8, 16 or 32 bits is replaced by an extreme or a near one, most often near the start."""
    size = rng.choice([1, 2, 4])
    place = min(
        int(rng.expovariate(1 / 40)) if rng.random() < 0.7 else rng.randrange(len(data)), len(data) - size
    )
    order = rng.choice(["big", "little"])
    near = int.from_bytes(data[place : place + size], order) + rng.choice([-1, 1, 7, -256, 256])
    value = rng.choice([rng.choice(EXTREMES), near, rng.randrange(1 << 32)]) % (1 << 8 * size)
    data[place : place + size] = value.to_bytes(size, order)
    return data


def spliced(data, rng, seeds):
    other = rng.choice(seeds)
    start, place = rng.randrange(len(other)), rng.randrange(len(data))
    part = other[start : start + rng.randrange(1, 200)]
    return data[:place] + part + data[place + (len(part) if rng.random() < 0.5 else 0) :]


def cut(data, rng, seeds):
    place = rng.randrange(len(data))
    return data[:place] + data[place + rng.randrange(1, 100) :]


def repeated(data, rng, seeds):
    place, length = rng.randrange(len(data)), rng.randrange(1, 200)
    return data[:place] + data[place : place + length] * rng.choice([2, 3, 50]) + data[place:]


def exchanged(data, rng, seeds):
    start = rng.choice(STARTS)
    return start + data[len(start) if rng.random() < 0.5 else 0 :]


MUTATIONS = [
    flipped,
    flipped,
    overwritten,
    truncated,
    lengthened,
    lengthened,
    spliced,
    cut,
    repeated,
    exchanged,
]


def checksums_repaired(data):
    """The PNG in ``data`` with right checksums, as far as its chunks can be followed."""
    place = 8
    while place + 12 <= len(data):
        (length,) = struct.unpack_from(">I", data, place)
        if place + 12 + length > len(data):
            break
        end = place + 8 + length
        data[end : end + 4] = struct.pack(">I", zlib.crc32(data[place + 4 : end]))
        place = end + 4
    return data


def mutated(suffix, number, seeds):
    rng = random.Random(f"{suffix} {number}")
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = bytearray(rng.choice(MUTATIONS)(data, rng, seeds)) or bytearray(b"\0")
    if suffix == ".png" and rng.random() < 0.7:
        data = checksums_repaired(data)
    return bytes(data[: 1 << 20])


def passed_on(path, output, written):
    """Read ``path`` to its end and, if it is a picture, encode what was read and perhaps write it."""
    if path.suffix in (".wav", ".flac", ".ogg"):
        from sfumato.io import open_sound

        source = open_sound(path)
        assert np.concatenate(list(source.blocks())).shape == source.shape
    elif path.suffix == ".mp4":
        from sfumato.io import open_video

        source = open_video(path)
        assert sum(1 for _ in source.pictures()) == source.frames
        for block in source.sound_blocks():
            assert np.isfinite(block).all()
    else:
        from sfumato.io import encode_picture, picture_header, read_picture, write_picture

        picture = read_picture(path)
        assert picture.header == picture_header(path)
        if written:
            write_picture(output, picture.values)
        else:
            encode_picture(picture.values, output.suffix)


def main(suffix, first, last, folder):
    from sfumato.errors import BadInput

    seeds = SEEDS[suffix]()
    from sfumato.io import released_suffix

    path = Path(folder, f"case{suffix}")
    output = Path(folder, f"out{released_suffix(path)}")
    for number in range(first, last):
        print(number, end=" ", flush=True)
        path.write_bytes(mutated(suffix, number, seeds))
        try:
            # To write takes longer than all the rest, since it waits for the disk.
            passed_on(path, output, written=number % 8 == 0)
            print("read", flush=True)
        except BadInput as refusal:
            sentence = str(refusal)
            assert path.name in sentence, sentence
            assert sentence.endswith("."), sentence
            assert "\n" not in sentence
            assert len(sentence) < 200
            assert str(folder) not in sentence
            assert os.listdir(folder) == [path.name], "something was written"
            print("refused", flush=True)
        path.unlink()
        output.unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
