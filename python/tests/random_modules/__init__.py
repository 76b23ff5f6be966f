"""Random modules for torch.compile(backend="unisono"): drawn by a seed, judged beside float64, shrunk where they fail."""
