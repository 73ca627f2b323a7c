"""From a run to files that need no torch: ONNX, 8 bits, bundles, and what was lost."""
