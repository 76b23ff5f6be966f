#!/usr/bin/env python3
"""Does `unisono train` learn what PyTorch learns under autocast? Loss curves of both, over several seeds.

usage: training_curves.py prepare FOLDER [--crops N] [--seeds N]   (by the Python of make train-demo: UNISONO_DEPS_DIR-train)
       training_curves.py run FOLDER --command UNISONO [--device cuda|cpu] [--steps N] [--jobs N] [--json FILE]
                              [--commit TEXT]

`prepare` draws crops of the training scenes into .npz shards, and for each seed the heatmap U-Net of train_demo.py
with 16, 32 and 64 channels, as an ONNX file and as arrays. `run` needs PyTorch and NumPy alone. For each seed it
trains from the same weights, on the same examples in the same order, with the same loss, AdamW, clipping and
schedule:

* PyTorch in eager mode with torch.autocast(bfloat16) and fused AdamW,
* `unisono train` (bf16 on a GPU, f32 on a CPU),

and with the first seed `unisono train` twice more: once as before, and once interrupted halfway and resumed.

A curve is the mean loss of each window, an epoch or a sixteenth of the steps. The bars, each true or false in
"verdicts": "within_spread": in every window the mean of our curves lies between the lowest and the highest of
PyTorch's; "repeatable": losses, checkpoint and model of the second run have the same bits; "resumed": so have those
of the interrupted one. "outside" is, for each curve, the number of windows in which it leaves the range of PyTorch's
other seeds: ours should leave it no more often than PyTorch's own. Exits with 1 unless all are true.
"""
import argparse
import concurrent.futures
import datetime
import json
import math
import pathlib
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "models" / "heatmap_unet"), str(ROOT / "tests" / "training")]
CHANNELS, GROUPS, CLASSES = (16, 32, 64), 8, 10
BATCH, RATE, DECAY, CLIP, SCALE = 8, 0.004, 0.02, 5.0, 1 / 255


# ---- prepare ---------------------------------------------------------------------------------------------------------

def prepare(options):
    import numpy
    import onnx
    import train_demo
    options.folder.mkdir(parents=True, exist_ok=True)
    train_demo.write_shards(options.folder / "shards", "train", options.crops)
    for seed in range(1, options.seeds + 1):
        model = train_demo.network(CHANNELS, GROUPS, seed)
        onnx.save(model, options.folder / f"network_{seed}.onnx")
        arrays = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer if t.name != "scales"}
        numpy.savez(options.folder / f"weights_{seed}.npz", **arrays)


# ---- PyTorch ---------------------------------------------------------------------------------------------------------

def unet():
    """The network as a module. Parameters have the names of the arrays but for `norm`."""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Block(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(GROUPS, outputs)

        def forward(self, x):
            return F.mish(self.norm(self.conv(x)))

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            last = 3
            for depth, width in enumerate(CHANNELS):
                self.add_module(f"down{depth}", nn.Sequential(Block(last, width), Block(width, width)))
                last = width
            for depth in reversed(range(len(CHANNELS) - 1)):
                width = CHANNELS[depth]
                self.add_module(f"up{depth}", nn.Sequential(Block(last + width, width), Block(width, width)))
                last = width
            self.logits = nn.Conv2d(last, CLASSES, 1)

        def forward(self, x):
            skips = []
            for depth in range(len(CHANNELS)):
                x = getattr(self, f"down{depth}")(F.max_pool2d(x, 2) if depth else x)
                skips.append(x)
            for depth in reversed(range(len(CHANNELS) - 1)):
                larger = F.interpolate(x, scale_factor=2, mode="nearest")
                x = getattr(self, f"up{depth}")(torch.cat((larger, skips[depth]), 1))
            return self.logits(x)

    return UNet()


def module_name(array):
    return array.replace(".scale", ".norm.weight").replace(".shift", ".norm.bias")


def focal_loss(logits, target):
    """X. Zhou et al., "Objects as Points", 2019, equation 1, alpha 2, beta 4."""
    import torch
    import torch.nn.functional as F
    p, centre = torch.sigmoid(logits), target == 1
    at_centre = -((1 - p) ** 2) * F.logsigmoid(logits)
    elsewhere = -((1 - target) ** 4) * p**2 * F.logsigmoid(-logits)
    return torch.where(centre, at_centre, elsewhere).sum() / centre.sum().clamp(min=1)


def learning_rate(step, steps):
    """Of a step counted from 1, as the command's cosine schedule has it."""
    warm_up = steps // 20
    if step <= warm_up:
        return RATE * step / warm_up
    return RATE * (0.5 + 0.5 * math.cos(math.pi * (step - warm_up) / max(1, steps - warm_up)))


def arrays_of(folder):
    import numpy
    shards = [numpy.load(path) for path in sorted((folder / "shards").glob("*.npz"))]
    return [numpy.concatenate([shard[name] for shard in shards]) for name in ("images", "heatmaps")]


def torch_losses(folder, seed, device, steps, threads):
    """The loss of each step."""
    import numpy
    import torch
    from shuffles import batch_of
    if threads:
        torch.set_num_threads(threads)
    images, heatmaps = (torch.from_numpy(a).to(device) for a in arrays_of(folder))
    weights = numpy.load(folder / f"weights_{seed}.npz")
    module = unet()
    module.load_state_dict({module_name(name): torch.from_numpy(weights[name]) for name in weights.files})
    module.to(device, memory_format=torch.channels_last).train()
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
    losses = []
    for step in range(steps):
        which = torch.tensor(batch_of(step, len(images), BATCH, seed), device=device)
        x, target = images[which].float() * SCALE, heatmaps[which].float() * SCALE
        with torch.autocast(device, torch.bfloat16):
            logits = module(x.contiguous(memory_format=torch.channels_last))
        loss = focal_loss(logits.float(), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step + 1, steps)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def torch_process(options, seed):
    command = [sys.executable, __file__, "torch", str(options.folder), "--seed", str(seed), "--device", options.device,
               "--steps", str(options.steps), "--threads", str(options.threads)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1])


# ---- ours ------------------------------------------------------------------------------------------------------------

def losses_of(run):
    return [json.loads(line)["loss"] for line in (run / "log.jsonl").read_text().splitlines()]


def train(options, seed, name, interrupt=False):
    """The folder of a finished training. `interrupt`: it is stopped by SIGINT halfway, and resumed."""
    run = options.folder / f"run_{name}"
    shutil.rmtree(run, ignore_errors=True)
    config = {"model": f"network_{seed}.onnx", "folder": run.name, "batch": BATCH, "steps": options.steps, "seed": seed,
              "threads": options.threads, "device": options.device, "report_every": 1,
              "data": {"training": "shards", "inputs": {"image": {"array": "images", "scale": SCALE},
                                                        "target": {"array": "heatmaps", "scale": SCALE}}},
              "extents": {"height": 96, "width": 96}, "loss": {"kind": "heatmap_focal", "prediction": "logits"},
              "optimiser": {"kind": "adamw", "weight_decay": DECAY, "clip_norm": CLIP},
              "learning_rate": {"rate": RATE, "schedule": "cosine", "warm_up": options.steps // 20}}
    file = options.folder / f"train_{name}.json"
    file.write_text(json.dumps(config, indent=1) + "\n")
    command = [str(options.command), "train", str(file)]
    if interrupt:
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            log = run / "log.jsonl"
            while process.poll() is None and not (log.exists() and log.read_bytes().count(b"\n") >= options.steps // 2):
                time.sleep(0.002)
            process.send_signal(signal.SIGINT)
        if process.returncode != 130:
            raise SystemExit(f"{' '.join(command)}: exit code {process.returncode} after an interruption; expected 130")
        command.append("--resume")
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return run


def same_bits(one, other):
    files = ("checkpoint.safetensors", "model.onnx")
    return losses_of(one) == losses_of(other) and all((one / f).read_bytes() == (other / f).read_bytes() for f in files)


# ---- curves ----------------------------------------------------------------------------------------------------------

def curve(losses, window):
    parts = [losses[i : i + window] for i in range(0, len(losses) - len(losses) % window, window)]
    return [sum(part) / len(part) for part in parts]


def judged(torch_curves, own_curves):
    """(whether our mean is in PyTorch's range in every window, windows outside of the other seeds' range by curve)"""
    def windows_outside(one, others):
        return sum(not min(c[i] for c in others) <= x <= max(c[i] for c in others) for i, x in enumerate(one))

    mean = [sum(values) / len(values) for values in zip(*own_curves)]
    others = [[c for j, c in enumerate(torch_curves) if j != i] for i in range(len(torch_curves))]
    both = {"torch": torch_curves, "unisono": own_curves}
    outside = {who: [windows_outside(c, o) for c, o in zip(curves, others)] for who, curves in both.items()}
    return windows_outside(mean, torch_curves) == 0, outside


def run(options):
    started = time.perf_counter()
    seeds = range(1, len(list(options.folder.glob("network_*.onnx"))) + 1)
    if len(seeds) < 3:
        raise SystemExit(f"{options.folder} has {len(seeds)} networks; expected at least 3: run prepare")
    seconds = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        peers = [pool.submit(torch_process, options, seed) for seed in seeds]
        if options.device == "cpu":
            concurrent.futures.wait(peers)
        begun = time.perf_counter()
        first = train(options, 1, "1")  # compiles the kernels
        seconds["first_training"] = round(time.perf_counter() - begun, 1)
        rest = [pool.submit(train, options, seed, str(seed)) for seed in seeds[1:]]
        again, resumed = pool.submit(train, options, 1, "again"), pool.submit(train, options, 1, "resumed", True)
        torch_all = [p.result() for p in peers]
        own = [losses_of(r) for r in (first, *(x.result() for x in rest))]
        repeats, resumes = same_bits(first, again.result()), same_bits(first, resumed.result())
    examples = torch_all[0]["examples"]
    window = max(1, min(examples // BATCH, options.steps // 16))
    torch_curves = [curve(t["losses"], window) for t in torch_all]
    own_curves = [curve(losses, window) for losses in own]
    within, outside = judged(torch_curves, own_curves)
    seconds["all"] = round(time.perf_counter() - started, 1)
    rows = [{"seed": s, "torch_curve": t, "unisono_curve": u} for s, t, u in zip(seeds, torch_curves, own_curves)]
    found = {"suite": "training_curves", "gpu": torch_all[0]["gpu"], "torch": torch_all[0]["torch"],
             "commit": options.commit, "date": datetime.date.today().isoformat(), "device": options.device,
             "steps": options.steps, "batch": BATCH, "examples": examples, "window": window,
             "verdicts": {"within_spread": within, "repeatable": repeats, "resumed": resumes}, "outside": outside,
             "seconds": seconds, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{'steps':>11}  PyTorch: lowest, mean, highest   ours: lowest, mean, highest")
    for i, (theirs, ours) in enumerate(zip(zip(*torch_curves), zip(*own_curves))):
        numbers = [f"{x:9.4f}" for c in (theirs, ours) for x in (min(c), sum(c) / len(c), max(c))]
        print(f"{i * window + 1:>5}-{(i + 1) * window:<5}  {' '.join(numbers[:3])}    {' '.join(numbers[3:])}")
    print(f"windows outside of the other seeds' range: PyTorch {outside['torch']}, ours {outside['unisono']}; "
          f"{found['verdicts']}; {seconds} s")
    return 0 if all(found["verdicts"].values()) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    kinds = parser.add_subparsers(dest="what", required=True)
    for name in ("prepare", "run", "torch"):
        one = kinds.add_parser(name)
        one.add_argument("folder", type=pathlib.Path)
        if name == "prepare":
            one.add_argument("--crops", type=int, default=1000)
            one.add_argument("--seeds", type=int, default=5)
            continue
        one.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
        one.add_argument("--steps", type=int, default=2000)
        one.add_argument("--threads", type=int, default=0)
        if name == "torch":
            one.add_argument("--seed", type=int, required=True)
        else:
            one.add_argument("--command", type=pathlib.Path, required=True)
            one.add_argument("--jobs", type=int, default=5)
            one.add_argument("--json", type=pathlib.Path)
            one.add_argument("--commit", default="")
    options = parser.parse_args()
    if options.what == "prepare":
        return prepare(options)
    if options.what == "run":
        options.command = options.command.resolve()
        return run(options)
    import torch
    losses = torch_losses(options.folder, options.seed, options.device, options.steps, options.threads)
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else "none"
    examples = len(arrays_of(options.folder)[0])
    print(json.dumps({"losses": losses, "gpu": gpu, "torch": torch.__version__, "examples": examples}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
