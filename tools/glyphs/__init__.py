"""What `tools/draw_glyphs.py` is made of: outlines from font files, their pixels, and which characters are twins."""
