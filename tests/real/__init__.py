"""Real models of other people, as their packages ship them: described, scanned, packed, converted, compared.

A package that is not installed skips its tests. ``published`` finds the files, ``inputs`` makes what the models are
asked: chords, speech-like sounds, drawn text, the beginnings of files, sentences.
"""
