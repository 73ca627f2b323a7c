"""Journals, scores and showcases on one self-contained page. Nothing is measured here."""
