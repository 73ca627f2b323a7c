"""All that runs on a small device: reading images, the exported model, the index, search and verification.

This room needs numpy, pillow and, for a model, onnxruntime: no torch, and nothing else of shadowmetric. So it can be
copied: `shadowmetric export --bundle` puts these files into the bundle as they are, where they start by

    python -m device search photo.jpg

That is why they import each other by a dot, and why the rest of the house, which stands to the right, imports
image reading and the index file from here instead of having its own.
"""
