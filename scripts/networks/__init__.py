"""Networks that others designed, exported to ONNX and judged: docs/notes/networks.md says what is asked of them."""
