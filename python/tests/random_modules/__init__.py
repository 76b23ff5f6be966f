"""Random modules for torch.compile(backend="unisono"): drawn by a seed, compared with float64, shrunk where they fail."""
