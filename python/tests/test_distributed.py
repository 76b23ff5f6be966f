"""Two ranks on this host, by torchrun and gloo: DDP and FSDP2 train a small U-Net as PyTorch's eager mode does."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import limited
import pytest

torch = pytest.importorskip("torch")
import torch.distributed as dist  # noqa: E402

pytestmark = pytest.mark.check

HERE = pathlib.Path(__file__).parent
needs_gloo = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this PyTorch has no gloo")


@needs_gloo
def test_two_nodes_train_as_eager_mode_does(tmp_path):
    """Two nodes on this host: two agents of torchrun that meet at a port, each with one rank and a cache of its own."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    nodes = []
    for node in range(2):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", "--rdzv-id=test",
                   f"--rdzv-endpoint=localhost:{port}", "--local-addr=localhost", str(HERE / "train_ranks.py"), "ddp", "1"]
        environment = {**os.environ, "UNISONO_CACHE_DIR": str(tmp_path / str(node)), "OMP_NUM_THREADS": "1"}
        nodes.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    told = [node.communicate(timeout=300) for node in nodes]
    assert all(node.returncode == 0 for node in nodes), told
    found = json.loads(next(line for out, _ in told for line in out.splitlines() if line.startswith("{")))
    assert found["same"] and found["regions"] >= 5, found
    assert abs(found["unisono"] - found["eager"][0]) <= 0.05 * found["eager"][0], found


@needs_gloo
@pytest.mark.parametrize("how", ["ddp", "fsdp", "sizes"])
def test_two_ranks_train_as_eager_mode_does(how, tmp_path):
    environment = {**os.environ, "UNISONO_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(HERE / "train_ranks.py"), how]
    done = limited.run(command, environment, 500)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("{")))
    low, high = min(found["eager"]), max(found["eager"])
    assert found["same"] and found["regions"] >= 5, found
    assert found["unisono"] < 0.7 * found["first"], found  # it learns
    assert low - (high - low) <= found["unisono"] <= high + (high - low), found
    assert abs(found["unisono"] - found["eager"][0]) <= 0.05 * found["eager"][0], found  # of the same batches
    if how == "sizes":  # each part of the graph, for each size
        assert not found["notes"] and found["networks"].count("forward") == found["networks"].count("backward") >= 8, found
