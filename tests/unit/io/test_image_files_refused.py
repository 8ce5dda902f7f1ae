"""Files that are no good picture: each is refused in one sentence that names it, and nothing else."""

import io
import os
import struct
import sys
import time
import zlib

import cv2
import numpy as np
import pillow_heif
import pytest
import tifffile
from PIL import Image
from skimage import data as photographs

from sfumato.errors import BadInput
from sfumato.io import image_files
from sfumato.io.image_files import decode_picture, encode_picture, picture_header, read_picture
from sfumato.io.png import SIGNATURE, png_chunk
from sfumato.io.tiff import LZW, unpacked

PHOTO = np.ascontiguousarray(photographs.astronaut()[60:131, 170:273])
JPEG = encode_picture(PHOTO, ".jpg")
PNG = encode_picture(PHOTO, ".png")
WEBP = encode_picture(PHOTO, ".webp")
TIFF = encode_picture(PHOTO, ".tif")
BMP = encode_picture(PHOTO, ".bmp")


def by_pillow(image, format, **options):
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def by_tifffile(values, **options):
    file = io.BytesIO()
    tifffile.imwrite(file, values, **options)
    return file.getvalue()


def animated(format):
    frames = [Image.fromarray(np.roll(PHOTO, shift, axis=1)) for shift in (0, 9, 18)]
    return by_pillow(frames[0], format, save_all=True, append_images=frames[1:])


def png(width=4, height=4, depth=8, colour=0, packed=None, before=(), after=(), end=True, methods=(0, 0, 0)):
    head = struct.pack(">IIBBBBB", width, height, depth, colour, *methods)
    rows = zlib.compress(bytes(height * (1 + width))) if packed is None else packed
    chunks = [(b"IHDR", head), *before, (b"IDAT", rows), *after, *([(b"IEND", b"")] if end else [])]
    return SIGNATURE + b"".join(png_chunk(kind, content) for kind, content in chunks)


def png_bomb(side=60_000):
    """Three and a half gigabytes of black in four megabytes: the header tells the truth about them."""
    return png(side, side, packed=zlib.compress(bytes(1 << 20)))


def jpeg_of(components, width=16, height=16, bits=8, marker=0xC0):
    frame = struct.pack(">BHHB", bits, height, width, components) + bytes([1, 0x11, 0] * components)
    return b"\xff\xd8" + struct.pack(">BBH", 0xFF, marker, 2 + len(frame)) + frame + b"\xff\xda\0\x02\xff\xd9"


def changed(data, at, value):
    return data[:at] + value + data[at + len(value) :]


def many_scans():
    """A progressive file whose last scan is repeated."""
    data = by_pillow(Image.fromarray(PHOTO), "JPEG", progressive=True)
    last = data.rindex(b"\xff\xda")
    return data[:last] + data[last:-2] * 101 + b"\xff\xd9"


def shortened_webp():
    """Half of the data, in a container that tells the truth about its length."""
    half = WEBP[20 : len(WEBP) // 4 * 2]
    return b"RIFF" + struct.pack("<I", len(half) + 12) + WEBP[8:16] + struct.pack("<I", len(half)) + half


EXTENDED = by_pillow(Image.fromarray(PHOTO), "WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0")


def frame_of_an_animation():
    """The first of three frames, alone in a container that says how long it is."""
    data = animated("WEBP")
    first = data.index(b"ANMF")
    (length,) = struct.unpack_from("<I", data, first + 4)
    end = first + 8 + length + length % 2
    return b"RIFF" + struct.pack("<I", end - 8) + data[8:end]


def heic(*pictures):
    file = io.BytesIO()
    heif = pillow_heif.from_pillow(Image.fromarray(pictures[0]))
    for picture in pictures[1:]:
        heif.add_from_pillow(Image.fromarray(picture))
    heif.save(file)
    return file.getvalue()


HEIC, AVIF = heic(PHOTO[:64, :96]), by_pillow(Image.fromarray(PHOTO), "AVIF")


def blank(data):
    """Zeros in place of the coded picture, which is the last box."""
    start = data.rindex(b"mdat") + 4
    return data[:start] + bytes(len(data) - start)


def said_to_be(data, width, height):
    """An ISO base media file that announces another size than its pixels have."""
    return changed(data, data.index(b"ispe") + 8, struct.pack(">II", width, height))


GIF = by_pillow(Image.fromarray(PHOTO).quantize(256), "GIF")


def huge_gif(side):
    """The canvas and the picture in it announce so many pixels."""
    sides, place = struct.pack("<HH", side, side), GIF.rindex(b",\0\0\0\0") + 5
    return changed(changed(GIF, 6, sides), place, sides)


def holed_gif():
    """As long as it was, with codes that name strings which are not known yet."""
    return changed(GIF, len(GIF) // 2, b"\xff" * 200)


def few_colours():
    """A palette of two colours for pixels of 256."""
    picture = GIF[13 + 768 :]
    return changed(GIF[:13], 10, bytes([0x80])) + bytes(6) + picture


CASES = [
    ("empty", "a.jpg", b"", "a.jpg is empty."),
    (
        "text called .jpg",
        "a.jpg",
        b"I am no picture\n",
        "a.jpg is not a JPEG picture: it does not start like one.",
    ),
    ("text called .png", "a.png", b"\n\nhello", "a.png is not a PNG picture"),
    ("GIF called .png", "a.png", animated("GIF"), "a.png holds a GIF, which its name denies; call it .gif."),
    ("PDF called .tif", "a.tif", b"%PDF-1.4\n", "it is a PDF"),
    ("a WAV called .webp", "a.webp", b"RIFF\x24\0\0\0WAVEfmt ", "a.webp is not a WebP picture"),
    ("PNG called .jpg", "a.jpg", PNG, "a.jpg holds a PNG, which its name denies; call it .png."),
    ("JPEG called .png", "a.png", JPEG, "call it .jpg."),
    ("WebP called .jpeg", "a.jpeg", WEBP, "call it .webp."),
    ("TIFF called .bmp", "a.bmp", TIFF, "call it .tif."),
    ("BMP called .tiff", "a.tiff", BMP, "call it .bmp."),
    ("animated GIF", "a.gif", animated("GIF"), "a.gif is an animated GIF"),
    ("truncated GIF", "a.gif", GIF[:-1], "a.gif is truncated"),
    (
        "GIF of another version",
        "a.gif",
        changed(GIF, 3, b"88a"),
        "is not a GIF picture: it does not start like one",
    ),
    ("GIF without pixels", "a.gif", changed(GIF, 6, bytes(2)), "a.gif has no pixels"),
    ("GIF without a picture", "a.gif", GIF[:13] + GIF[13 : 13 + 768] + b";", "it holds no GIF picture"),
    ("huge GIF", "a.gif", huge_gif(65_535), "has 65535×65535 pixels; up to 100,000,000"),
    ("GIF beside its canvas", "a.gif", changed(GIF, 6, b"\xff\xff"), "fills its canvas is accepted"),
    ("GIF with a hole", "a.gif", holed_gif(), "its GIF data cannot be unpacked"),
    ("GIF of few colours", "a.gif", few_colours(), "a colour that its GIF palette does not have"),
    ("GIF of another block", "a.gif", GIF[:-1] + b"?", "does not start where the one before it ends"),
    ("truncated JPEG", "a.jpg", JPEG[: len(JPEG) // 2], "a.jpg is truncated: its JPEG data has no end."),
    ("JPEG without its end", "a.jpg", JPEG[:-2], "its JPEG data has no end"),
    ("JPEG with a hole", "a.jpg", JPEG[:900] + JPEG[1500:], "its JPEG data cannot be decoded"),
    ("truncated JPEG with an end", "a.jpg", JPEG[:1500] + b"\xff\xd9", "its JPEG data cannot be decoded"),
    ("JPEG header only", "a.jpg", JPEG[:100], "ends inside its header"),
    ("JPEG start only", "a.jpg", JPEG[:4], "ends inside its header"),
    ("JPEG without frame", "a.jpg", b"\xff\xd8\xff\xda\0\x02\xff\xd9", "breaks off before a picture starts"),
    ("JPEG of filling", "a.jpg", b"\xff\xd8" + b"\xff" * 100, "nothing but filling"),
    ("JPEG in disorder", "a.jpg", b"\xff\xd8\xff\xe0\0\x04\0\0\0\0", "does not start where"),
    ("JPEG of 12 bits", "a.jpg", jpeg_of(1, bits=12), "12 bits a sample"),
    ("JPEG of two components", "a.jpg", jpeg_of(2), "2 components"),
    ("lossless JPEG", "a.jpg", jpeg_of(1, marker=0xC3), "rare kind of JPEG"),
    ("JPEG of no width", "a.jpg", jpeg_of(3, width=0), "no pixels: its JPEG header says 0×16"),
    ("huge JPEG", "a.jpg", jpeg_of(3, 65_000, 65_000), "has 65000×65000 pixels; up to 100,000,000"),
    ("CMYK JPEG", "a.jpg", by_pillow(Image.fromarray(PHOTO).convert("CMYK"), "JPEG"), "is a CMYK picture"),
    ("JPEG of many scans", "a.jpg", many_scans(), "more than 100 scans"),
    ("PNG bomb", "a.png", png_bomb(), "a.png has 60000×60000 pixels; up to 100,000,000 in all are accepted."),
    ("PNG with more rows", "a.png", png(packed=zlib.compress(bytes(1 << 26))), "may hold more pixels"),
    ("PNG with fewer rows", "a.png", png(packed=zlib.compress(bytes(19))), "holds fewer pixels"),
    ("truncated PNG", "a.png", PNG[: len(PNG) // 2], "a.png is truncated: its PNG data has no end."),
    ("PNG without its end", "a.png", PNG[:-12], "its PNG data has no end"),
    ("PNG with a wrong bit", "a.png", changed(PNG, 500, bytes([PNG[500] ^ 1])), "checksum of its PNG data"),
    ("PNG with a wrong header", "a.png", changed(PNG, 18, b"\1"), "checksum of its PNG header"),
    (
        "PNG with a text for a signature",
        "a.png",
        changed(PNG, 4, b"\n\r"),
        "is not a PNG picture: it does not start like one",
    ),
    ("PNG of no height", "a.png", png(height=0), "no pixels: its PNG header says 4×0"),
    ("PNG of three bits", "a.png", png(depth=3), "values that no PNG has"),
    ("PNG of an unknown colour", "a.png", png(colour=5), "values that no PNG has"),
    ("PNG of an unknown packing", "a.png", png(methods=(1, 0, 0)), "values that no PNG has"),
    ("PNG of an unknown filter", "a.png", png(packed=zlib.compress(b"\5" * 20)), "unknown filter"),
    ("PNG that is not packed", "a.png", png(packed=b"plain"), "cannot be unpacked"),
    ("PNG without a palette", "a.png", png(colour=3), "palette or transparent colour does not fit"),
    ("PNG of odd transparency", "a.png", png(before=[(b"tRNS", b"\0")]), "transparent colour does not fit"),
    (
        "PNG of an unknown index",
        "a.png",
        png(colour=3, packed=zlib.compress(b"\0\2\0\0\0" * 4), before=[(b"PLTE", bytes(6))]),
        "names a colour that its PNG palette does not have",
    ),
    ("PNG with an unknown chunk", "a.png", png(before=[(b"SECR", b"")]), "chunk that is not known"),
    ("PNG in two parts", "a.png", png(after=[(b"teXt", b""), (b"IDAT", b"")]), "data is interrupted"),
    ("PNG without data", "a.png", SIGNATURE + PNG[8:33] + PNG[-12:], "holds no PNG data"),
    ("animated PNG", "a.png", animated("PNG"), "a.png is an animated PNG"),
    ("PNG of many chunks", "a.png", PNG[:33] + png_chunk(b"teXt", b"") * 200_000, "more than 200000 chunks"),
    ("animated WebP", "a.webp", animated("WEBP"), "a.webp is an animated WebP"),
    ("WebP animation of one frame", "a.webp", frame_of_an_animation(), "a.webp is an animated WebP"),
    ("WebP of two sizes", "a.webp", changed(EXTENDED, 24, b"\1"), "its WebP header cannot be read"),
    ("huge WebP", "a.webp", changed(EXTENDED, 24, b"\xff\x3f\0\xff\x3f\0"), "its WebP header cannot be read"),
    ("truncated WebP", "a.webp", WEBP[: len(WEBP) // 2], "truncated"),
    ("shortened WebP", "a.webp", shortened_webp(), "its WebP data cannot be decoded"),
    ("WebP without a picture", "a.webp", b"RIFF\x04\0\0\0WEBP", "its WebP header cannot be read"),
    ("WebP of no width", "a.webp", changed(WEBP, 26, b"\0\0"), "its WebP header cannot be read"),
    (
        "WebP that is no key frame",
        "a.webp",
        changed(WEBP, 20, bytes([WEBP[20] | 1])),
        "its WebP header cannot be read",
    ),
    ("AVIF called .heic", "a.heic", AVIF, "a.heic holds an AVIF, which its name denies; call it .avif."),
    ("HEIC called .avif", "a.avif", HEIC, "a.avif holds a HEIC, which its name denies; call it .heic."),
    ("video called .heic", "a.heic", b"\0\0\0\x18ftypmp42" + bytes(12), "is not a HEIC picture"),
    ("text called .avif", "a.avif", b"I am no picture\n", "a.avif is not an AVIF picture"),
    ("truncated HEIC", "a.heic", HEIC[:-100], "a.heic is truncated"),
    ("truncated AVIF", "a.avif", AVIF[:-100], "a.avif is truncated"),
    ("HEIC without pixels", "a.heic", blank(HEIC), "its HEIC data cannot be decoded"),
    ("AVIF without pixels", "a.avif", blank(AVIF), "its AVIF data cannot be decoded"),
    ("HEIC of two pictures", "a.heic", heic(PHOTO, 255 - PHOTO), "a.heic holds 2 pictures"),
    ("animated AVIF", "a.avif", animated("AVIF"), "a.avif is an animated AVIF"),
    ("huge HEIC", "a.heic", said_to_be(HEIC, 30_000, 30_000), "has 30000×30000 pixels; up to 100,000,000"),
    ("huge AVIF", "a.avif", said_to_be(AVIF, 16_000, 16_000), "has 16000×16000 pixels; up to 100,000,000"),
    ("HEIC of two sizes", "a.heic", said_to_be(HEIC, 64, 48), "its HEIC data cannot be decoded"),
    ("AVIF of two sizes", "a.avif", said_to_be(AVIF, 64, 48), "has another size than its header"),
    ("pages", "a.tif", animated("TIFF"), "holds several pages"),
    ("truncated TIFF", "a.tif", TIFF[: len(TIFF) // 2], "a.tif is truncated"),
    ("truncated plain TIFF", "a.tif", by_tifffile(PHOTO)[:-100], "a.tif is truncated"),
    ("TIFF with a wrong bit", "a.tif", changed(TIFF, 2000, bytes([TIFF[2000] ^ 1])), "cannot be unpacked"),
    (
        "floating point",
        "a.tif",
        by_tifffile(PHOTO.astype(np.float32)[:, :, 0]),
        "a.tif is a rare kind of TIFF",
    ),
    ("signed numbers", "a.tif", by_tifffile(PHOTO.astype(np.int16)[:, :, 0]), "a.tif is a rare kind of TIFF"),
    ("32 bits", "a.tif", by_tifffile(PHOTO.astype(np.uint32)[:, :, 0]), "a.tif is a rare kind of TIFF"),
    ("fax", "a.tif", by_pillow(Image.fromarray(PHOTO).convert("1"), "TIFF"), "rare kind of TIFF"),
    ("JPEG in TIFF", "a.tif", by_pillow(Image.fromarray(PHOTO), "TIFF", compression="jpeg"), "rare kind"),
    ("CMYK TIFF", "a.tif", by_pillow(Image.fromarray(PHOTO).convert("CMYK"), "TIFF"), "is a CMYK picture"),
    ("planes", "a.tif", by_tifffile(np.zeros((3, 9, 9), np.uint8), photometric="rgb"), "rare kind of TIFF"),
    ("BigTIFF", "a.tif", by_tifffile(PHOTO, bigtiff=True), "a.tif is not a TIFF picture"),
    ("truncated BMP", "a.bmp", BMP[:-100], "a.bmp is truncated"),
    ("BMP of no width", "a.bmp", changed(BMP, 18, bytes(4)), "no pixels"),
    ("BMP of 16 bits", "a.bmp", changed(BMP, 28, b"\x10"), "compressed or 16-bit BMP"),
    ("packed BMP", "a.bmp", changed(BMP, 30, b"\1"), "compressed or 16-bit BMP"),
    ("old BMP", "a.bmp", changed(BMP, 14, b"\x0c"), "rare kind of BMP"),
    ("huge BMP", "a.bmp", changed(BMP, 18, b"\xff\xff\0\0\xff\xff\0\0"), "has 65535×65535 pixels"),
    ("BMP inside its header", "a.bmp", changed(BMP, 10, b"\1\0"), "start inside the header"),
]


def refusal(call):
    with pytest.raises(BadInput) as raised:
        call()
    sentence = str(raised.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    assert len(sentence) < 160
    return sentence


@pytest.mark.parametrize(("name", "data", "said"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_files_that_are_refused(name, data, said, tmp_path, capfd):
    (tmp_path / name).write_bytes(data)
    sentence = refusal(lambda: read_picture(tmp_path / name))
    assert said in sentence
    assert sentence.startswith(name)
    assert str(tmp_path) not in sentence
    assert capfd.readouterr() == ("", "")
    if data:
        assert refusal(lambda: decode_picture(data, name)) == sentence


@pytest.mark.parametrize("packing", ["tiff_lzw", "packbits"])
def test_packed_strips_that_break_off(packing, capfd):
    data = by_pillow(Image.fromarray(PHOTO), "TIFF", compression=packing, strip_size=1 << 20)
    start = data.index(struct.pack("<HH", 273, 4)) + 8
    (offset,) = struct.unpack_from("<I", data, start)
    sizes = data.index(struct.pack("<HH", 279, 4)) + 8
    shorter = changed(data, sizes, struct.pack("<I", 600))
    assert "TIFF" in refusal(lambda: decode_picture(shorter, "a.tif"))
    if packing == "tiff_lzw":
        broken = changed(data, offset + 20, b"\xff" * 300)
        assert "cannot be unpacked" in refusal(lambda: decode_picture(broken, "a.tif"))
    assert capfd.readouterr() == ("", "")


def test_lzw_that_ends_early_is_refused_and_not_filled():
    """What stands behind the end of the data is neither zeros nor ones."""
    grey = np.ascontiguousarray(PHOTO[:, :, 0])
    data = by_pillow(Image.fromarray(grey), "TIFF", compression="tiff_lzw", strip_size=1 << 20)
    (offset,) = struct.unpack_from("<I", data, data.index(struct.pack("<HH", 273, 4)) + 8)
    (size,) = struct.unpack_from("<I", data, data.index(struct.pack("<HH", 279, 4)) + 8)
    packed = data[offset : offset + size]
    assert unpacked(packed, LZW, *grey.shape, 1) == grey.tobytes()
    for length in [0, 1, 5, *range(len(packed) - 40, len(packed) - 4)]:
        with pytest.raises(ValueError, match="LZW data"):
            unpacked(packed[:length], LZW, *grey.shape, 1)


def test_tables_that_are_cleared_all_the_time_take_no_time():
    """Nine bits that clear the table of LZW, repeated for two megabytes: each would cost a table."""
    clears = np.tile(np.array([1, 0, 0, 0, 0, 0, 0, 0, 0], np.uint8), 16 << 17)
    began = time.process_time()
    with pytest.raises(ValueError, match="broken LZW data"):
        unpacked(np.packbits(clears).tobytes(), LZW, 1 << 10, 1 << 10, 1)
    assert time.process_time() - began < 5.0


def test_a_small_jpeg_of_a_large_picture_is_not_filled_with_grey():
    """Every block takes a bit, so a hundred megapixels cannot stand in a few hundred bytes."""
    place = JPEG.index(b"\xff\xc0") + 5
    larger = changed(JPEG, place, struct.pack(">HH", 9_999, 9_999))
    began = time.process_time()
    assert "fewer pixels than its JPEG header" in refusal(lambda: decode_picture(larger, "a.jpg"))
    assert time.process_time() - began < 0.1


def test_the_limit_on_pixels_is_kept(tmp_path, monkeypatch):
    pixels = PHOTO.shape[0] * PHOTO.shape[1]
    for suffix in (".jpg", ".png", ".webp", ".tif", ".bmp"):
        file = tmp_path / f"a{suffix}"
        file.write_bytes(encode_picture(PHOTO, suffix))
        for look in (read_picture, picture_header):
            monkeypatch.setattr(image_files, "MAX_PIXELS", pixels)
            look(file)
            monkeypatch.setattr(image_files, "MAX_PIXELS", pixels - 1)
            assert "103×71 pixels" in refusal(lambda look=look, file=file: look(file))


def test_a_file_that_is_too_large_is_not_even_read(tmp_path):
    with (tmp_path / "a.bmp").open("wb") as file:
        file.write(BMP)
        file.truncate(1 << 40)  # a hole: it takes no room on the disk
    for look in (read_picture, picture_header):
        assert "is larger than any picture of" in refusal(lambda look=look: look(tmp_path / "a.bmp"))


@pytest.mark.parametrize("suffix", [".heic", ".avif"])
def test_pixels_beyond_the_announced_size_are_not_decoded(suffix):
    """A few kilobytes of black hold 48 million pixels, and a header that admits to three thousand of them."""
    black = np.zeros((6_000, 8_000, 3), np.uint8)
    data = heic(black) if suffix == ".heic" else by_pillow(Image.fromarray(black), "AVIF", speed=10)
    assert len(data) < 100_000
    lie = said_to_be(data, 64, 48)
    began = time.process_time()
    assert "cannot be decoded" in refusal(lambda: decode_picture(lie, f"a{suffix}"))
    assert time.process_time() - began < 0.1


def test_what_is_no_file(tmp_path):
    (tmp_path / "a.jpg").mkdir()
    os.mkfifo(tmp_path / "b.jpg")
    for look in (read_picture, picture_header):
        assert refusal(lambda look=look: look(tmp_path / "a.jpg")) == "a.jpg is not a regular file."
        assert refusal(lambda look=look: look(tmp_path / "b.jpg")) == "b.jpg is not a regular file."
        assert refusal(lambda look=look: look(tmp_path / "c.jpg")) == "c.jpg does not exist."


def test_what_stands_behind_a_jpeg_is_ignored():
    other = by_pillow(Image.fromarray(255 - PHOTO), "JPEG")
    assert np.array_equal(decode_picture(JPEG + other, "a.jpg").values, decode_picture(JPEG, "a.jpg").values)


def test_a_thumbnail_is_not_taken_for_the_picture():
    """EXIF may hold a whole JPEG with an end of its own; the picture itself has none."""
    thumbnail = encode_picture(PHOTO[:16, :16], ".jpg")
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 8) + b"Exif\0\0" + thumbnail
    whole = JPEG[:2] + segment + JPEG[2:]
    assert decode_picture(whole, "a.jpg").values.shape == PHOTO.shape
    assert "no end" in refusal(lambda: decode_picture(whole[:-200], "a.jpg"))


def test_broken_exif_is_no_orientation():
    for exif in (b"", b"II*\0", b"II*\0\xff\xff\xff\xff", b"MM\0*\0\0\0\x08\xff\xff", b"junk" * 9):
        segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 8) + b"Exif\0\0" + exif
        assert decode_picture(JPEG[:2] + segment + JPEG[2:], "a.jpg").header.orientation == 1


def test_large_pictures_are_read_in_silence(capfd):
    """Pillow warns of decompression bombs from 89 megapixels on; ours is the limit that counts."""
    black = np.zeros((9_500, 9_500), np.uint8)
    done, data = cv2.imencode(".tif", black, [cv2.IMWRITE_TIFF_COMPRESSION, 5])
    assert done
    assert decode_picture(data.tobytes(), "a.tif").values.shape == black.shape
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("missing", "name", "data", "said"),
    [
        ("simplejpeg", "a.jpg", JPEG, "a.jpg needs simplejpeg"),
        ("cv2", "a.png", PNG, "a.png needs OpenCV"),
        ("pillow_heif", "a.heic", HEIC, "a.heic needs pillow-heif"),
        ("av", "a.avif", AVIF, "a.avif needs PyAV"),
    ],
)
def test_a_missing_library_is_named_with_its_pip_line(missing, name, data, said, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)  # an import of it fails
    sentence = refusal(lambda: decode_picture(data, name))
    assert said in sentence
    assert "pip install 'sfumato[media]'" in sentence


def test_a_missing_library_is_named_before_a_tiff_is_written(monkeypatch):
    monkeypatch.setitem(sys.modules, "tifffile", None)
    sentence = refusal(lambda: encode_picture(PHOTO, ".tif"))
    assert sentence == "a .tif file needs tifffile: pip install 'sfumato[media]'."
