"""UNTESTED: Ray was not at hand. The training of train_unet.py by Ray Train, one worker for each GPU.

    python ray_train.py --workers 8
"""

import argparse
import os

from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def work(settings):
    os.environ.update(settings["environment"])  # before CUDA and NCCL start
    import ray.train
    import train_unet
    losses = train_unet.train(settings["steps"])  # Ray has made the process group and set LOCAL_RANK
    ray.train.report({"loss": losses[-1]})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    settings = {"steps": options.steps, "environment": {"NCCL_MAX_CTAS": "16"}}
    trainer = TorchTrainer(work, train_loop_config=settings, scaling_config=ScalingConfig(num_workers=options.workers, use_gpu=True),
                           run_config=RunConfig(name="unisono-unet"))
    print(trainer.fit().metrics)
