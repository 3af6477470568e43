"""What the models are asked: made here, the same every time."""

import numpy as np
from PIL import Image, ImageDraw, ImageFont


def chord(length=43_844, rate=22_050):
    """Return plucked strings, one after the other, as basic-pitch takes them: float32[1, length, 1]."""
    rng, time, sound = np.random.default_rng(0), np.arange(length) / rate, np.zeros(length)
    for place, pitch in enumerate((220.0, 277.18, 329.63)):
        since = time - 0.15 - 0.4 * place
        for harmonic in range(1, 9):
            wave = np.sin(2 * np.pi * pitch * harmonic * since) / harmonic
            sound += np.where(since >= 0, np.exp(-np.clip(since, 0, None) * (2 + harmonic)) * wave, 0)
    sound = 0.4 * sound / np.abs(sound).max() + 1e-3 * rng.normal(size=length)
    return sound.astype(np.float32)[np.newaxis, :, np.newaxis]


def speech(chunks=6, size=512, rate=16_000):
    """Return a voice-like sound, a gliding pitch through three formants in syllables: float32[chunks, size]."""
    rng, time = np.random.default_rng(1), np.arange(chunks * size) / rate
    phase = 2 * np.pi * np.cumsum(140 + 30 * np.sin(2 * np.pi * 3 * time)) / rate
    sound = np.zeros(len(time))
    for harmonic in range(1, 30):
        loud = sum(np.exp(-(((140 * harmonic - formant) / 150) ** 2)) for formant in (500, 1_500, 2_500))
        sound += loud * np.sin(harmonic * phase)
    sound *= 0.55 + 0.45 * np.sin(2 * np.pi * 5 * time)
    sound = 0.3 * sound / np.abs(sound).max() + 1e-3 * rng.normal(size=len(time))
    return sound.astype(np.float32).reshape(chunks, size)


def written(text, size, height):
    """Return black text on white as a picture: uint8[height, width, 3]."""
    font = ImageFont.load_default(size=size)
    left, top, right, bottom = font.getbbox(text)
    picture = Image.new("RGB", (right + 16 - left, height), "white")
    ImageDraw.Draw(picture).text((8, (height - (bottom - top)) // 2 - top), text, fill="black", font=font)
    return np.asarray(picture)


def page(text, height=96, width=160):
    """Return a white page with a line of text in the middle: uint8[height, width, 3]."""
    line = written(text, 30, 40)
    sheet = np.full((height, width, 3), 255, np.uint8)
    top, left = (height - line.shape[0]) // 2, (width - line.shape[1]) // 2
    sheet[top : top + line.shape[0], left : left + line.shape[1]] = line
    return sheet


def normalised(picture, mean=0.5, deviation=0.5):
    """Return a picture as a network takes it: float32[1, 3, height, width]."""
    scaled = (picture.astype(np.float32) / 255 - np.asarray(mean)) / np.asarray(deviation)
    return scaled.transpose(2, 0, 1)[np.newaxis].astype(np.float32)


FILES = {
    "python": b"#!/usr/bin/env python3\nimport os\n\n\ndef main():\n    print(os.getcwd())\n\n\nmain()\n" * 20,
    "html": b"<!DOCTYPE html>\n<html><head><title>A page</title></head><body><p>Hello</p></body></html>\n" * 20,
    "pdf": b"%PDF-1.4\n1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj\nxref\n0 3\ntrailer\n<< /Size 3 >>\n%%EOF\n"
    * 16,
    "json": b'{"name": "model", "layers": [{"kind": "dense", "units": 16}, {"kind": "relu"}], "version": 3}\n',
}


def ends(content, size=1_024, padding=256):
    """Return the first and last bytes of a file as magika takes them, with the padding that it knows: int32[2048]."""
    stripped = content.strip()
    first, last = (np.frombuffer(part, np.uint8).astype(np.int32) for part in (stripped[:size], stripped[-size:]))
    return np.concatenate(
        [first, np.full(size - len(first), padding, np.int32), np.full(size - len(last), padding, np.int32), last]
    )
