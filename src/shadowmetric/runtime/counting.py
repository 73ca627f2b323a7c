"""Numbers of things in words that fit them: no images, 1 image, 2,000 images.

Every sentence for people takes its counts from here, so that none says "1 classes".
"""

HISSING = ("s", "x", "z", "ch", "sh")  # ends after which a plural takes -es
VOWELS = "aeiou"


def count(items: int, noun: str, plural: str | None = None) -> str:
    """Return how many there are of something, such as `count(1, "test image")`; the plural is regular if none is given.

    Give it where a verb follows: `count(2, "image is", "images are")`.
    """
    if items == 1:
        return f"1 {noun}"
    return f"{f'{items:,}' if items else 'no'} {plural or plural_of(noun)}"


def plural_of(noun: str) -> str:
    """Return the regular plural of a noun: class, classes; query, queries; image, images."""
    if noun.endswith(HISSING):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in VOWELS:
        return f"{noun[:-1]}ies"
    return f"{noun}s"
