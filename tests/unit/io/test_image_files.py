"""Pictures from files and to files: every format against an independent reader and writer of it."""

import io
import struct
import zlib

import cv2
import numpy as np
import pillow_heif
import pytest
import tifffile
from PIL import Image, ImageOps, PngImagePlugin
from skimage import data as photographs

from sfumato.errors import BadInput
from sfumato.io.formats import released_suffix, written_suffixes
from sfumato.io.image_files import (
    check_storable,
    decode_picture,
    encode_picture,
    picture_header,
    read_picture,
    write_picture,
)
from sfumato.io.jpeg import encode_many, encode_planes
from sfumato.io.png import SIGNATURE, png_chunk

# An odd size, so that sides that are exchanged or rounded would show.
PHOTO = np.ascontiguousarray(photographs.astronaut()[60:131, 170:273])
GREY = np.ascontiguousarray(photographs.camera()[60:131, 170:273])
ALPHA = np.dstack([PHOTO, 255 - GREY])
DEEP = PHOTO.astype(np.uint16) * 257 - np.arange(PHOTO.size, dtype=np.uint16).reshape(PHOTO.shape) % 7
LOSSLESS = [".png", ".tif", ".tiff", ".bmp"]
SHAPES = {
    "grey": GREY,
    "grey with alpha": np.dstack([GREY, 255 - GREY]),
    "colour": PHOTO,
    "colour with alpha": ALPHA,
    "deep grey": DEEP[:, :, 0],
    "deep grey with alpha": DEEP[:, :, :2],
    "deep colour": DEEP,
    "deep colour with alpha": np.dstack([DEEP, DEEP[:, :, 1] ^ 0x5555]),
    "one pixel": PHOTO[:1, :1],
    "one row": PHOTO[:1],
    "one column": GREY[:, :1],
}


def by_pillow(values, format, **options):
    file = io.BytesIO()
    (values if isinstance(values, Image.Image) else Image.fromarray(values)).save(file, format, **options)
    return file.getvalue()


def png(width, height, depth, colour, rows, *, interlaced=0, before=(), after=()):
    """A PNG put together by hand: ``rows`` are the bytes of each row, with its filter."""
    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, interlaced)
    chunks = [(b"IHDR", head), *before, (b"IDAT", zlib.compress(b"".join(rows))), *after, (b"IEND", b"")]
    return SIGNATURE + b"".join(png_chunk(kind, content) for kind, content in chunks)


def read(data, name):
    """What decoding and the header say, which must agree."""
    picture = decode_picture(data, name)
    assert picture.values.shape == picture.header.shape
    assert picture.values.dtype == picture.header.dtype
    assert picture.values.flags.c_contiguous
    return picture.values


@pytest.mark.parametrize("suffix", LOSSLESS)
@pytest.mark.parametrize("kind", SHAPES)
def test_what_is_written_without_loss_is_read_back(suffix, kind, tmp_path):
    values = SHAPES[kind]
    file = tmp_path / f"a{suffix}"
    try:
        check_storable(file, values.shape, values.dtype)
    except BadInput:
        assert suffix == ".bmp"
        assert values.dtype == np.uint16 or values.shape[2:] in ((2,), (4,))
        return
    write_picture(file, values)
    picture = read_picture(file)
    assert np.array_equal(picture.values, values)
    assert picture.values.dtype == values.dtype
    assert picture_header(file) == picture.header
    assert encode_picture(values, suffix) == file.read_bytes()


@pytest.mark.parametrize("kind", [kind for kind in SHAPES if kind != "deep grey with alpha"])
def test_others_read_our_png(kind):
    values = SHAPES[kind]
    found = cv2.imdecode(np.frombuffer(encode_picture(values, ".png"), np.uint8), cv2.IMREAD_UNCHANGED)
    orders = {"grey with alpha": [0, 3]}
    order = orders.get(kind, {2: None, 3: [2, 1, 0]}.get(values.ndim))
    if kind.endswith("colour with alpha"):
        order = [2, 1, 0, 3]
    assert np.array_equal(found if order is None else found[:, :, order], values)


@pytest.mark.parametrize("kind", SHAPES)
def test_others_read_our_tiff(kind):
    assert np.array_equal(tifffile.imread(io.BytesIO(encode_picture(SHAPES[kind], ".tif"))), SHAPES[kind])


@pytest.mark.parametrize("values", [GREY, PHOTO], ids=["grey", "colour"])
def test_others_read_our_bmp(values):
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(encode_picture(values, ".bmp")))), values)


@pytest.mark.parametrize("values", [GREY, PHOTO], ids=["grey", "colour"])
@pytest.mark.parametrize("progressive", [False, True])
def test_jpeg_is_read_as_pillow_reads_it(values, progressive):
    data = by_pillow(values, "JPEG", quality=95, progressive=progressive)
    found = read(data, "a.JPG")
    assert np.abs(found.astype(int) - np.asarray(Image.open(io.BytesIO(data)))).max() <= 2
    ours = read(encode_picture(values, ".jpeg", quality=95), "a.jpeg")
    assert np.abs(ours.astype(int) - values).mean() < (2 if values.ndim == 2 else 6)


@pytest.mark.parametrize("space", ["RGB", "GRAY"])
def test_planes_give_the_jpeg_that_pixels_give(space):
    values = photographs.astronaut()[:65, :91]
    planes = cv2.cvtColor(values, cv2.COLOR_RGB2YCrCb)
    if space == "GRAY":
        data = encode_planes(planes[:, :, 0], None, None, 95)
        assert np.abs(read(data, "a.jpg").astype(int) - planes[:, :, 0]).mean() < 2
        return
    half = [cv2.resize(planes[:, :, c], (46, 33), interpolation=cv2.INTER_AREA) for c in (2, 1)]
    found = read(encode_planes(planes[:, :, 0], *half, 95), "a.jpg")
    other = read(encode_picture(values, ".jpg", quality=95), "a.jpg")
    assert np.abs(found.astype(int) - other).mean() < 2.5
    with pytest.raises(BadInput, match="has the shape"):
        encode_planes(planes[:, :, 0], half[0], half[1][:-1], 95)


@pytest.mark.parametrize("shape", [(71, 103), (70, 103), (71, 104), (1, 1)])
def test_no_memory_beside_the_planes_is_encoded(shape):
    """Luma of odd sides, each time with other bytes behind it in memory."""
    half = np.full([(side + 1) // 2 for side in shape], 128, np.uint8)
    luma = np.resize(GREY, shape)
    found = set()
    for value in range(20):
        beside = np.full(4 * luma.size, 12 * value, np.uint8)
        beside[: luma.size] = luma.ravel()
        found.add(encode_planes(beside[: luma.size].reshape(shape), half, half, 90))
    assert len(found) == 1


def test_many_planes_are_rounded_clipped_and_encoded():
    luma = np.stack([GREY, 255 - GREY]).astype(np.float32)
    chroma = np.full((2, 36, 52), 128.4, np.float32)
    soft = luma + np.float32(0.3)
    soft[0, 0, 0], soft[1, 0, 0] = -40.0, 300.0
    luma[0, 0, 0], luma[1, 0, 0] = 0, 255
    flat = np.full((36, 52), 128, np.uint8)
    assert encode_many([soft, chroma, chroma], 90) == [
        encode_planes(plane.astype(np.uint8), flat, flat, 90) for plane in luma
    ]
    assert encode_many([soft], 90) == [encode_picture(plane.astype(np.uint8), ".jpg") for plane in luma]
    with pytest.raises(BadInput, match="not 2"):
        encode_many([soft, chroma], 90)


@pytest.mark.parametrize("values", [PHOTO, ALPHA], ids=["colour", "with alpha"])
def test_webp_is_read_as_pillow_reads_it(values):
    lossless = by_pillow(values, "WEBP", lossless=True, exact=True)
    assert np.array_equal(read(lossless, "a.webp"), values)
    lossy = by_pillow(values, "WEBP", quality=80)
    assert np.array_equal(read(lossy, "a.webp"), np.asarray(Image.open(io.BytesIO(lossy))))
    ours = read(encode_picture(values, ".webp"), "a.webp")
    assert ours.shape == values.shape
    assert np.abs(ours.astype(int) - values).mean() < 8
    assert read(encode_picture(GREY, ".webp"), "a.webp").shape == (*GREY.shape, 3)


@pytest.mark.parametrize("options", [{}, {"interlace": 1}, {"transparency": 3}, {"comment": b"words"}])
@pytest.mark.parametrize("mode", ["L", "P", "1"])
def test_gif_is_read_as_pillow_reads_it(mode, options, tmp_path):
    image = Image.fromarray(PHOTO)
    image = image.quantize(64) if mode == "P" else image.convert(mode)
    data = by_pillow(image, "GIF", **options)
    found = read(data, "a.gif")
    expected = Image.open(io.BytesIO(data))
    assert mode != "P" or ("transparency" in expected.info) == ("transparency" in options)
    kind = ("RGB" if mode == "P" else "L") + ("A" if "transparency" in expected.info else "")
    assert np.array_equal(found, np.asarray(expected.convert(kind)))
    (tmp_path / "a.gif").write_bytes(data)
    assert picture_header(tmp_path / "a.gif").shape == found.shape
    assert released_suffix("a.gif") == ".png"


def heic(values, **options):
    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(values)).save(file, **options)
    return file.getvalue()


@pytest.mark.parametrize("values", [GREY, PHOTO, ALPHA], ids=["grey", "colour", "with alpha"])
def test_heic_and_avif_are_read(values, tmp_path):
    """With chroma at full size, since each reader spreads smaller chroma in its own way."""
    found = read(heic(values, quality=95, chroma=444), "a.heic")
    assert np.abs(found.astype(int) - values).mean() < 2
    assert np.array_equal(read(heic(values, quality=95, chroma=444), "a.HEIF"), found)
    data = by_pillow(values, "AVIF", quality=95, subsampling="4:0:0" if values.ndim == 2 else "4:4:4")
    found = read(data, "a.avif")
    assert np.abs(found.astype(int) - np.asarray(Image.open(io.BytesIO(data)))).max() <= 3
    assert np.abs(found.astype(int) - values).mean() < 3
    (tmp_path / "a.avif").write_bytes(data)
    assert picture_header(tmp_path / "a.avif").shape == values.shape


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_png_of_any_mode_is_read_as_pillow_reads_it(mode):
    image = Image.fromarray(DEEP[:, :, 0]) if mode == "I;16" else Image.fromarray(ALPHA).convert(mode)
    expected = np.asarray(image.convert({"P": "RGBA", "1": "L"}.get(mode, mode)))
    assert np.array_equal(read(by_pillow(image, "PNG"), "a.png"), expected)


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
@pytest.mark.parametrize("interlaced", [0, 1])
def test_palettes_and_few_bits(depth, interlaced):
    """Nine by five indices by hand; interlaced ones through Pillow, which reads them."""
    rng = np.random.default_rng(depth)
    indices = rng.integers(0, 1 << depth, (5, 9), dtype=np.uint8)
    palette = rng.integers(0, 256, (1 << depth, 3), dtype=np.uint8)

    def rows(part):
        bits = np.unpackbits(part[:, :, None], axis=2)[:, :, 8 - depth :].reshape(len(part), -1)
        return [b"\0" + row.tobytes() for row in np.packbits(bits, axis=1)]

    passes = [
        (0, 0, 8, 8),
        (0, 4, 8, 8),
        (4, 0, 8, 4),
        (0, 2, 4, 4),
        (2, 0, 4, 2),
        (0, 1, 2, 2),
        (1, 0, 2, 1),
    ]
    parts = [indices[y::v, x::u] for y, x, v, u in passes] if interlaced else [indices]
    packed = [row for part in parts if part.size for row in rows(part)]
    size = {"interlaced": interlaced}
    colours = png(9, 5, depth, 3, packed, before=[(b"PLTE", palette.tobytes())], **size)
    assert np.array_equal(read(colours, "a.png"), palette[indices])
    clear = png(9, 5, depth, 3, packed, before=[(b"PLTE", palette.tobytes()), (b"tRNS", b"\7")], **size)
    alpha = np.where(indices == 0, 7, 255)
    assert np.array_equal(read(clear, "a.png"), np.dstack([palette[indices], alpha]))
    grey = indices * (255 // ((1 << depth) - 1))
    assert np.array_equal(read(png(9, 5, depth, 0, packed, **size), "a.png"), grey)
    level = int(indices[2, 3])
    clear = png(9, 5, depth, 0, packed, before=[(b"tRNS", struct.pack(">H", level))], **size)
    assert np.array_equal(read(clear, "a.png"), np.dstack([grey, np.where(indices == level, 0, 255)]))


@pytest.mark.parametrize("deep", [False, True])
def test_one_transparent_colour(deep):
    values = DEEP if deep else PHOTO
    size = values.dtype.itemsize
    rows = [b"\0" + row.astype(f">u{size}").tobytes() for row in values]
    clear = struct.pack(">HHH", *values[3, 4].tolist())
    found = read(png(103, 71, 8 * size, 2, rows, before=[(b"tRNS", clear)]), "a.png")
    opaque = (values != values[3, 4]).any(axis=2)
    assert np.array_equal(found, np.dstack([values, np.where(opaque, np.iinfo(values.dtype).max, 0)]))
    assert found.dtype == values.dtype


@pytest.mark.parametrize("values", SHAPES.values(), ids=list(SHAPES))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"byteorder": ">"},
        {"compression": "zlib", "predictor": 2},
        {"compression": "zlib", "rowsperstrip": 16},
        {"tile": (32, 48), "compression": "zlib"},
    ],
    ids=str,
)
def test_tiff_is_read_as_it_was_written(values, options):
    file = io.BytesIO()
    kind = {"photometric": "rgb" if values.shape[2:] in ((3,), (4,)) else "minisblack"}
    extra = {"extrasamples": ["unassalpha"]} if values.shape[2:] in ((2,), (4,)) else {}
    tifffile.imwrite(file, values, planarconfig="contig", **kind, **extra, **options)
    assert np.array_equal(read(file.getvalue(), "a.tif"), values)


@pytest.mark.parametrize("packing", ["tiff_lzw", "packbits", "tiff_adobe_deflate", "raw"])
@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P"])
def test_tiff_of_pillow(packing, mode):
    image = Image.fromarray(ALPHA).convert(mode)
    expected = np.asarray(image.convert("RGB") if mode == "P" else image)
    assert np.array_equal(read(by_pillow(image, "TIFF", compression=packing), "a.tiff"), expected)


def test_tiff_in_which_white_is_zero():
    file = io.BytesIO()
    tifffile.imwrite(file, GREY, photometric="miniswhite")
    assert np.array_equal(read(file.getvalue(), "a.tif"), 255 - GREY)


def test_deep_lzw_tiff_of_opencv():
    done, data = cv2.imencode(".tif", DEEP, [cv2.IMWRITE_TIFF_COMPRESSION, 5])
    assert done
    assert np.array_equal(read(data.tobytes(), "a.tif"), DEEP[:, :, ::-1])


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_bmp_of_pillow(mode):
    image = Image.fromarray(PHOTO).convert(mode)
    expected = np.asarray(image.convert({"1": "L", "P": "RGB"}.get(mode, mode)))
    assert np.array_equal(read(by_pillow(image, "BMP"), "a.bmp"), expected)


def bmp(bits, height, colours, rows):
    """A BMP put together by hand, five pixels wide."""
    info = struct.pack("<IiiHHIIiiII", 40, 5, height, 1, bits, 0, len(rows), 0, 0, len(colours), 0)
    return struct.pack("<2sIII", b"BM", 0, 0, 54 + colours.size) + info + colours.tobytes() + rows


def test_bmp_from_the_top_and_of_four_bits():
    colours = np.arange(64, dtype=np.uint8).reshape(16, 4)
    indices = np.arange(15, dtype=np.uint8).reshape(3, 5)
    padded = np.pad(indices, ((0, 0), (0, 3)))
    rows = (padded[:, ::2] << 4 | padded[:, 1::2]).tobytes()
    assert np.array_equal(read(bmp(4, -3, colours, rows), "a.bmp"), colours[:, 2::-1][indices])


def test_bmp_with_few_grey_levels():
    """Pillow's own reader takes the first for one bit a pixel and the second for eight."""
    levels = np.array([[0, 0, 0, 0], [255, 255, 255, 0]], np.uint8)
    found = read(bmp(8, -1, levels, bytes([0, 1, 1, 0, 1, 0, 0, 0])), "a.bmp")
    assert np.array_equal(found, [[0, 255, 255, 0, 255]])
    levels = np.repeat(np.arange(16, dtype=np.uint8)[:, None], 4, axis=1)
    assert np.array_equal(read(bmp(4, -1, levels, b"\x12\x34\x50\0"), "a.bmp"), [[1, 2, 3, 4, 5]])


def exif(orientation):
    tags = Image.Exif()
    tags[0x0112] = orientation
    tags[0x010F] = "SecretCamera"
    return tags.tobytes()


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("suffix", [".heic", ".avif"])
def test_heic_and_avif_are_turned_once(orientation, suffix):
    """Boxes of the container say how; EXIF repeats it for others, and is not followed a second time."""
    full = {"quality": 95, "exif": exif(orientation)}
    if suffix == ".heic":
        data = heic(PHOTO, chroma=444, **full)
    else:
        data = by_pillow(PHOTO, "AVIF", subsampling="4:4:4", **full)
    stored = Image.fromarray(PHOTO)
    stored.info["exif"] = exif(orientation)
    expected = np.asarray(ImageOps.exif_transpose(stored))
    found = read(data, f"a{suffix}")
    assert found.shape == expected.shape
    assert np.abs(found.astype(int) - expected).mean() < 3


@pytest.mark.parametrize("orientation", range(10))
@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_orientation_is_applied_once(orientation, format, tmp_path):
    if format == "TIFF":
        file = io.BytesIO()
        tifffile.imwrite(file, PHOTO, extratags=[(274, 3, 1, orientation, True)])
        data = file.getvalue()
    else:
        data = by_pillow(PHOTO, format, exif=exif(orientation))
    suffix = {"JPEG": ".jpg", "TIFF": ".tif"}.get(format, "." + format.lower())
    (tmp_path / f"a{suffix}").write_bytes(data)
    picture = read_picture(tmp_path / f"a{suffix}")
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    assert picture.values.shape == expected.shape
    assert np.abs(picture.values.astype(int) - expected).max() <= 2
    assert picture_header(tmp_path / f"a{suffix}").shape == expected.shape
    write_picture(tmp_path / f"b{suffix}", picture.values)
    again = read_picture(tmp_path / f"b{suffix}")
    assert again.header.orientation == 1
    assert again.values.shape == expected.shape


def marked(format):
    """A file full of metadata that says SECRET in every way the format knows."""
    secret = b"SECRET" * 20
    options = {
        "exif": exif(6).replace(b"SecretCamera", b"SECRETcamera"),
        "icc_profile": secret,
        "xmp": secret,
    }
    if format == "JPEG":
        return by_pillow(PHOTO, format, comment=secret, **options)
    if format == "PNG":
        texts = PngImagePlugin.PngInfo()
        texts.add_text("Author", "SECRET")
        texts.add_itxt("Place", "SECRET")
        del options["xmp"]
        return by_pillow(PHOTO, format, pnginfo=texts, **options) + secret
    if format == "TIFF":
        file = io.BytesIO()
        tags = [(270, 2, 0, "SECRET", True), (34377, 7, len(secret), secret, True)]
        tifffile.imwrite(file, PHOTO, software="SECRET", metadata=None, extratags=tags)
        return file.getvalue()
    return by_pillow(PHOTO, format, **options)


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_nothing_but_pixels_is_written(format):
    data = marked(format)
    assert b"SECRET" in data
    suffix = {"JPEG": ".jpg", "TIFF": ".tif"}.get(format, "." + format.lower())
    values = read(data, f"a{suffix}")
    for output in written_suffixes("picture"):
        written = encode_picture(values, output)
        for mark in (
            b"SECRET",
            b"Exif",
            b"EXIF",
            b"eXIf",
            b"XMP",
            b"iCCP",
            b"ICC",
            b"tEXt",
            b"iTXt",
            b"http",
        ):
            assert mark not in written
        if output in (".jpg", ".jpeg"):
            segments = [written[i + 1] for i in range(len(written) - 1) if written[i] == 0xFF]
            assert not {0xE1, 0xE2, 0xED, 0xEE, 0xFE} & set(segments)
        if output == ".png":
            assert written.count(b"IHDR") == written.count(b"IEND") == 1
            assert len(written) == 57 + struct.unpack(">I", written[33:37])[0]


def test_the_input_is_not_modified():
    for kind, values in SHAPES.items():
        before = values.copy()
        encode_picture(values, ".png")
        encode_picture(values, ".tif")
        assert np.array_equal(values, before), kind


def test_a_header_is_read_without_the_pixels(tmp_path):
    for suffix, values in ((".jpg", PHOTO), (".png", DEEP), (".tif", DEEP), (".webp", ALPHA), (".bmp", GREY)):
        data = bytearray(encode_picture(values, suffix))
        middle = len(data) // 2
        data[middle : middle + 64] = bytes(64)
        (tmp_path / f"a{suffix}").write_bytes(data)
        header = picture_header(tmp_path / f"a{suffix}")
        assert (header.shape, header.dtype) == (values.shape, values.dtype)


@pytest.mark.parametrize(
    ("values", "suffix", "said"),
    [
        (DEEP, ".jpg", "cannot hold 16 bits"),
        (DEEP, ".webp", "cannot hold 16 bits"),
        (DEEP, ".bmp", "cannot hold 16 bits"),
        (ALPHA, ".jpg", "cannot hold an alpha channel"),
        (ALPHA, ".bmp", "cannot hold an alpha channel"),
        (ALPHA[:, :, :2], ".webp", "cannot hold grey with alpha"),
        (PHOTO.astype(float), ".png", "uint8 or uint16, not in float64"),
        (np.zeros((2, 2, 5), np.uint8), ".png", "not an array of (2, 2, 5)"),
        (np.zeros((2, 0), np.uint8), ".png", "not an array of (2, 0)"),
        (np.zeros((1, 16_384, 3), np.uint8), ".webp", "more than 16383 pixels"),
        (np.zeros((65_501, 1), np.uint8), ".jpg", "more than 65500 pixels"),
        (PHOTO, ".gif", "cannot be written, since GIF is read only"),
        (PHOTO, ".heic", "cannot be written, since HEIC is read only"),
        (PHOTO, ".avif", "cannot be written, since AVIF is read only"),
        (np.broadcast_to(np.uint16(0), (20_000, 20_000, 3)), ".png", "cannot hold more than"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(values, suffix, said, tmp_path):
    for refused in (
        lambda: check_storable(tmp_path / f"a{suffix}", values.shape, values.dtype),
        lambda: encode_picture(values, suffix),
        lambda: write_picture(tmp_path / f"a{suffix}", values),
    ):
        with pytest.raises(BadInput) as refusal:
            refused()
        assert said in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("quality", [0, 101, 90.0, True, "high"])
def test_quality_is_a_whole_number(quality):
    with pytest.raises(BadInput, match="from 1 to 100"):
        encode_picture(PHOTO, ".jpg", quality=quality)


def test_quality_decides_the_size():
    for suffix in (".jpg", ".webp"):
        sizes = [len(encode_picture(PHOTO, suffix, quality=quality)) for quality in (10, 50, 90)]
        assert sizes == sorted(set(sizes))
