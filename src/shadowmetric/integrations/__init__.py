"""Our losses in other libraries, and theirs in ours: a file a library, and the only one that imports it."""
