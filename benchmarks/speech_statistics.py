"""Computes src/sfumato/media/audio/speech.npz from takes 25 to 49 of the Free Spoken Digit Dataset.

    python benchmarks/speech_statistics.py fsdd.npz

The file holds the recordings end to end (``audio``, ``offsets``), the ``take`` and the ``speaker`` of each.
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans

from sfumato.media.audio.loudness import band_levels
from sfumato.media.audio.speech import SIZES, metric

OUTPUT = Path(__file__).parents[1] / "src" / "sfumato" / "media" / "audio" / "speech.npz"
FIRST_TAKE = 25


def main() -> None:
    with np.load(sys.argv[1]) as archive:
        offsets, take, speaker = archive["offsets"], archive["take"], archive["speaker"]
        audio, bands = archive["audio"] / 32768.0, band_levels(int(archive["sample_rate"]))
    chosen = np.flatnonzero(take >= FIRST_TAKE)
    clips = [audio[offsets[i] : offsets[i + 1]] for i in chosen]
    levels = [bands.levels(bands.transform.forward(clip[None])) for clip in clips]
    points = np.concatenate(levels)
    who = np.repeat(speaker[chosen], [len(part) for part in levels])
    voices = np.rint(10.0 * np.stack([points[who == one].mean(axis=0) for one in np.unique(who)]))
    sound = metric("iso226", voices / 10.0)
    stored = {"voices": voices.astype(np.int16)}
    for size in SIZES:
        model = KMeans(size, n_init=2, max_iter=60, random_state=0).fit(points @ sound)
        # Ordered by loudness, so that equal data gives equal files.
        middle = np.stack([points[model.labels_ == k].mean(axis=0) for k in range(size)])
        order = np.argsort(middle.mean(axis=1))
        rank = np.argsort(order)
        pairs = np.zeros((size, size), dtype=np.uint16)
        for own in np.split(rank[model.labels_], np.cumsum([len(part) for part in levels])[:-1]):
            np.add.at(pairs, (own[:-1], own[1:]), 1)
        stored[f"levels{size}"] = np.rint(middle[order] * 10.0).astype(np.int16)
        stored[f"pairs{size}"] = pairs
        print(f"{size} shapes, {np.sqrt(model.inertia_ / points.size):.2f} dB away on average")
    np.savez_compressed(OUTPUT, **stored)
    print(f"{OUTPUT.name}: {OUTPUT.stat().st_size} bytes from {len(clips)} recordings")


if __name__ == "__main__":
    main()
