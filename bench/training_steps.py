#!/usr/bin/env python3
"""Do training steps under torch.compile(backend="unisono") run, and do they learn what eager mode learns?

usage: training_steps.py [NAME…] [--precision autocast,bf16] [--rest inductor|eager] [--json FILE] [--jobs N] [--commit TEXT]
                         [--contiguous] [--again] [--smoke] [--list]

Networks: those of peers/torch_models.py, and of timm, diffusers and segmentation_models_pytorch those named in LIBRARIES.
A step is forward, loss against a target, backward and AdamW; under autocast parameters and inputs are float32, else all
is bf16. Five steps each, on one batch, from the same parameters, drawn anew by a seed:

* eager mode in float32 without TF32, which is right,
* eager mode, and twice more with inputs off by a unit of bf16: its noise,
* this backend, and the same captured into one CUDA graph that is replayed five times.

A loss is right if it is as near to float32's as twice the farthest of eager mode's losses up to that step, or a unit of
bf16; the gradients of the first step together if their relative L2 error is at most 1.5 times eager mode's. What raises
is run with backend="aot_eager", too: what raises there is PyTorch's.

Each row runs in a process that is ended after --limit seconds; --jobs of them at a time share the GPU, as far as its
memory goes. A row is {"network", "precision", "rest", "verdict", "losses": {…}, "gradients": {…}, …} and is kept in --json
as soon as it is there; one that is there already, at the same commit, is not judged again unless --again says so.
--smoke: small sizes on the CPU, without graphs. It exits with 1 unless every verdict is "right".
"""
import argparse
import concurrent.futures
import contextlib
import copy
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench" / "peers"))
import torch_models  # noqa: E402

STEPS, NOISE, RATE = 5, 2, 1e-4
UNIT = 2.0**-9  # of bf16
LAST = torch.channels_last


# ---- networks: {name: (maker of (module, inputs), GiB of a GPU's memory that its steps take at most)} ----------------

def _ours(name, small):
    make, inputs, _, _ = torch_models.NETWORKS[name]
    if small and name.startswith("sd15"):
        net = torch_models.DiffusionUNet(4, (32, 64, 64, 64), (True, True, True, False), 768)
        return net, inputs(4)[:2] + (torch.randn(inputs(8)[0].shape[0], 77, 768),)
    if small and name == "ddpm_256":
        return torch_models.DiffusionUNet(3, (32, 32, 64, 64), (False, False, True, False), eps=1e-6, padding=0), inputs(8)
    if small and name == "vae_decoder":
        return torch_models.VaeDecoder((64, 64, 32, 32)), inputs(8)
    if small and name == "llama_mlp":
        return torch_models.GatedMlp(256, 688), (torch.randn(1, 64, 256),)
    return make(), inputs((8 if name == "heatmap_unet" else 4) if small else 1)


def _timm(name, batch):
    def make(small):
        import timm
        size = 64 if small else 224
        options = {"img_size": size} if small and not name.startswith("convnext") else {}
        return timm.create_model(name, pretrained=False, **options), (torch.randn(2 if small else batch, 3, size, size),)
    return make


def _smp_unet(small):
    import segmentation_models_pytorch as smp
    size = 64 if small else 256
    return smp.Unet("resnet18" if small else "resnet34", encoder_weights=None, classes=3), (torch.randn(2 if small else 8, 3, size, size),)


class Sample(torch.nn.Module):
    """What a model of diffusers gives, as a tensor."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *inputs):
        return self.net(*inputs, return_dict=False)[0]


def _unet_2d(small):
    from diffusers import UNet2DModel
    if small:
        net = UNet2DModel(sample_size=16, layers_per_block=1, block_out_channels=(32, 64), norm_num_groups=8, attention_head_dim=8,
                          down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"))
    else:
        net = UNet2DModel(sample_size=64)
    return Sample(net), (torch.randn(2 if small else 4, 3, 16 if small else 64, 16 if small else 64), torch.tensor([61, 498] * (1 if small else 2)))


def _unet_2d_condition(small):
    from diffusers import UNet2DConditionModel
    if small:
        net = UNet2DConditionModel(sample_size=16, cross_attention_dim=24, attention_head_dim=4, block_out_channels=(32, 64, 64, 64))
        return Sample(net), (torch.randn(2, 4, 16, 16), torch.tensor([61, 498]), torch.randn(2, 7, 24))
    net = UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
    return Sample(net), (torch.randn(4, 4, 64, 64), torch.tensor([61, 498, 12, 903]), torch.randn(4, 77, 768))


LIBRARIES = {"smp_unet": (_smp_unet, 10), "timm_convnext_tiny": (_timm("convnext_tiny", 16), 12),
             "timm_deit3_small": (_timm("deit3_small_patch16_224", 32), 12), "timm_volo_d1": (_timm("volo_d1_224", 16), 16),
             "diffusers_unet_2d": (_unet_2d, 24), "diffusers_unet_2d_condition": (_unet_2d_condition, 44)}
GIB = {"sd15_unet_2": 40, "sd15_unet_8": 60, "ddpm_256": 24, "vae_decoder": 30, "nnunet_2d": 24, "heatmap_unet": 16, "llama_mlp": 16}
NETWORKS = {name: (lambda small, name=name: _ours(name, small), GIB.get(name, 12)) for name in torch_models.NETWORKS} | LIBRARIES


def drawn(model):
    """Vectors off their trivial start, as a trained model has them: libraries start scales at 1 or 0, shifts at 0."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() == 1:
                p.add_(0.1 * torch.randn(p.shape, generator=generator))
    return model


# ---- one row ---------------------------------------------------------------------------------------------------------

class Row:
    """A network in one precision: its parameters, inputs and target, and five steps of it by whoever is asked."""

    def __init__(self, name, precision, options):
        self.options, self.precision = options, precision
        self.device = "cpu" if options.smoke else "cuda"
        torch.manual_seed(0)
        make, _ = NETWORKS[name]
        model, inputs = make(options.smoke)
        model = drawn(model).train().to(self.device)
        if not options.contiguous:
            model = model.to(memory_format=LAST)
        self.autocast = precision == "autocast"
        self.model = model if self.autocast else model.bfloat16()
        self.inputs = [self._placed(x) for x in inputs]
        self.initial = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        with torch.no_grad():
            shape = self._result(self.model, self.inputs).shape
        self.model.load_state_dict(self.initial)
        generator = torch.Generator().manual_seed(2)
        self.target = torch.randn(shape, generator=generator).to(self.device)

    def _placed(self, x):
        x = x.to(self.device, None if self.autocast or not x.is_floating_point() else torch.bfloat16)
        return x.contiguous(memory_format=LAST) if x.dim() == 4 and not self.options.contiguous else x

    def _result(self, call, inputs, autocast=None):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.autocast if autocast is None else autocast):
            return call(*inputs)

    def optimizer(self, model):
        on_gpu = self.device == "cuda"
        return torch.optim.AdamW(model.parameters(), lr=RATE, capturable=on_gpu, fused=on_gpu or None)

    def step(self, model, call, optimizer, inputs, autocast=None, gradients=None):
        loss = (self._result(call, inputs, autocast).float() - self.target).square().mean()
        loss.backward()
        if gradients is not None:
            gradients += [None if p.grad is None else p.grad.float() for p in model.parameters()]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def exact(self):
        """(losses, gradients of the first step) in float32."""
        wide = copy.deepcopy(self.model).float()
        inputs = [x.float() if x.is_floating_point() else x for x in self.inputs]
        optimizer, gradients = self.optimizer(wide), []
        return [self.step(wide, wide, optimizer, inputs, False, None if i else gradients).item() for i in range(STEPS)], gradients

    def run(self, call, right, noise=0):
        """Losses, and the relative L2 error of all gradients of the first step."""
        self.model.load_state_dict(self.initial)
        optimizer, gradients, generator = self.optimizer(self.model), [], torch.Generator().manual_seed(noise)
        def off(x):
            return x * (1 + UNIT * torch.randn(x.shape, generator=generator).to(x)) if noise and x.is_floating_point() else x
        inputs = [off(x) for x in self.inputs]
        losses = [self.step(self.model, call, optimizer, inputs, None, None if i else gradients).item() for i in range(STEPS)]
        if [g is None for g in gradients] != [g is None for g in right]:
            raise AssertionError("other parameters have gradients than in eager mode")
        pairs = [(g, r) for g, r in zip(gradients, right) if r is not None]
        error = sum((g.double() - r.double()).square().sum() for g, r in pairs) / sum(r.double().square().sum() for _, r in pairs)
        return losses, float(error) ** 0.5

    def captured(self, call):
        """Losses of replays of a whole step, from the same start."""
        self.model.load_state_dict(self.initial)
        optimizer = self.optimizer(self.model)
        def step():
            return self.step(self.model, call, optimizer, self.inputs)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            loss = step()
        self.model.load_state_dict(self.initial)
        with torch.no_grad():
            for state in optimizer.state.values():
                for value in state.values():
                    value.zero_()
        losses = []
        for _ in range(STEPS):
            graph.replay()
            losses.append(loss.item())
        return losses


def compiled(model, rest):
    torch._dynamo.reset()
    from unisono.pytorch import backend
    return torch.compile(model, backend=backend.unisono, options={"rest": rest})


def attempt(row, name, found, function):
    """What the function gives, or None and the error in the row."""
    try:
        return function()
    except Exception as failure:  # what raises is what this program looks for
        found["raised"][name] = f"{type(failure).__name__}: {str(failure)[:1500]}"
        return None


def judged(name, precision, options):
    """The row of a network, as a dict."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    found = {"network": name, "precision": precision, "rest": options.rest, "losses": {}, "gradients": {}, "raised": {}}
    row = Row(name, precision, options)
    found["losses"]["float32"], right = row.exact()
    for noise in range(NOISE + 1):
        key = f"eager_{noise}" if noise else "eager"
        found["losses"][key], found["gradients"][key] = row.run(row.model, right, noise)
    call = compiled(row.model, options.rest)
    start = time.perf_counter()
    mine = attempt(row, "compiled", found, lambda: row.run(call, right))
    found["seconds"] = round(time.perf_counter() - start, 1)
    if mine is not None:
        found["losses"]["unisono"], found["gradients"]["unisono"] = mine
        from unisono.pytorch.backend import reports
        found["regions"] = {kind: sum(r.regions for r in reports() if r.kind == kind) for kind in ("forward", "backward")}
    if mine is not None and row.device == "cuda":
        if (losses := attempt(row, "captured", found, lambda: row.captured(call))) is not None:
            found["losses"]["captured"] = losses
    if found["raised"]:
        torch._dynamo.reset()
        other = torch.compile(row.model, backend="aot_eager")
        attempt(row, "aot_eager", found, lambda: row.run(other, right))
        if "captured" in found["raised"]:
            attempt(row, "aot_eager_captured", found, lambda: row.captured(other))
    return found | verdict(found)


def verdict(found):
    """The verdict on what was found, and the largest part of its bar that a number of this backend takes."""
    raised, losses, gradients = found["raised"], found["losses"], found["gradients"]
    if raised:
        pytorchs = ("compiled" in raised and "aot_eager" in raised) or ("captured" in raised and "aot_eager_captured" in raised)
        return {"verdict": "PyTorch raises" if pytorchs else "raises"}
    eager = [losses[k] for k in losses if k.startswith("eager")]
    parts, bar = {}, 0.0
    for i, exact in enumerate(losses["float32"]):
        bar = max(bar, 2 * max(abs(run[i] - exact) for run in eager), UNIT * abs(exact))
        for peer in ("unisono", "captured"):
            if peer in losses:
                off = abs(losses[peer][i] - exact)
                parts[peer] = max(parts.get(peer, 0.0), off / bar if off == off else float("inf"))
    limit = max(1.5 * max(v for k, v in gradients.items() if k.startswith("eager")), 2 * UNIT)
    part = gradients["unisono"] / limit
    parts["gradients"] = part if part == part else float("inf")
    return {"verdict": "right" if max(parts.values()) <= 1 else "wrong", "parts": {k: round(v, 3) for k, v in parts.items()}}


# ---- all rows --------------------------------------------------------------------------------------------------------

class Memory:
    """GiB of the GPU's memory, lent to rows that run at the same time."""

    def __init__(self, gib):
        self.all = self.free = gib
        self.changed = threading.Condition()

    @contextlib.contextmanager
    def lent(self, gib):
        gib = min(gib, self.all)
        with self.changed:
            self.changed.wait_for(lambda: self.free >= gib)
            self.free -= gib
        try:
            yield
        finally:
            with self.changed:
                self.free += gib
                self.changed.notify_all()


def in_process(name, precision, options, memory):
    command = [sys.executable, __file__, "--row", name, precision, "--rest", options.rest]
    command += [flag for flag, on in (("--smoke", options.smoke), ("--contiguous", options.contiguous)) if on]
    with memory.lent(NETWORKS[name][1]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=options.limit)
            lines = done.stdout.splitlines()
            if done.returncode == 0 and lines:
                return json.loads(lines[-1])
            why = f"exit {done.returncode}: {done.stderr[-1500:]}"
        except subprocess.TimeoutExpired:
            why = f"no end after {options.limit} seconds"
    return {"network": name, "precision": precision, "rest": options.rest, "raised": {"process": why}, "verdict": "raises"}


def kept(path, rows, machine):
    """The file is whole at any time."""
    whole = {"suite": "training_steps", **machine, "rows": rows}
    temporary = path.with_suffix(".partial")
    temporary.write_text(json.dumps(whole, indent=1) + "\n")
    os.replace(temporary, path)


def about(options):
    device = {"gpu": torch.cuda.get_device_name(), "cudnn": torch.backends.cudnn.version()} if not options.smoke else {}
    return {"torch": torch.__version__, **device}


def commit_here():
    done = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def run_all(options):
    path = options.json and pathlib.Path(options.json)
    commit, rows = options.commit or commit_here(), []
    if path and path.exists():
        rows = json.loads(path.read_text())["rows"]
    def key(row):
        return row["network"], row["precision"], row["rest"], row.get("contiguous", False)
    there = {key(row) for row in rows if row["commit"] == commit and not options.again}
    wanted = [(n, p) for n in options.names or NETWORKS for p in options.precision
              if (n, p, options.rest, options.contiguous) not in there]
    wanted.sort(key=lambda pair: -NETWORKS[pair[0]][1])
    gib = 1e9 if options.smoke else torch.cuda.get_device_properties(0).total_memory / 2**30 - 4
    memory, machine, counts = Memory(gib), about(options), {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        asked = [pool.submit(in_process, n, p, options, memory) for n, p in wanted]
        for done, future in enumerate(concurrent.futures.as_completed(asked), 1):
            row = future.result() | {"commit": commit, "contiguous": options.contiguous}
            counts[row["verdict"]] = counts.get(row["verdict"], 0) + 1
            rows = [r for r in rows if key(r) != key(row)] + [row]
            said = "; ".join(f"{k}: {v.splitlines()[0][:200]}" for k, v in row["raised"].items()) or json.dumps(row.get("parts"))
            print(f"{done}/{len(wanted)} {row['network']} {row['precision']}: {row['verdict']} {said}", flush=True)
            if path:
                kept(path, sorted(rows, key=key), machine)
    print(json.dumps({"rows": len(wanted), **counts}))
    return 0 if set(counts) <= {"right"} else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(NETWORKS))
    parser.add_argument("--precision", default="autocast,bf16", type=lambda s: s.split(","))
    parser.add_argument("--rest", default="inductor", choices=("inductor", "eager"), help="who runs what this backend does not take")
    parser.add_argument("--json", help="where rows are kept: bench/results/training_steps.json")
    parser.add_argument("--jobs", default=4, type=int, help="rows at a time")
    parser.add_argument("--limit", default=500, type=int, help="seconds of one row")
    parser.add_argument("--commit", help="what the rows are of, if this is no clone")
    parser.add_argument("--contiguous", action="store_true", help="images and filters as PyTorch makes them, not channels last")
    parser.add_argument("--again", action="store_true", help="judge rows that are there, too")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--list", action="store_true", help="names of the networks")
    parser.add_argument("--row", nargs=2, metavar=("NAME", "PRECISION"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(NETWORKS))
        return 0
    if unknown := set(options.names) - set(NETWORKS):
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(NETWORKS)}")
    if unknown := set(options.precision) - {"autocast", "bf16"}:
        parser.error(f"no precision {', '.join(sorted(unknown))}; there are autocast, bf16")
    if not options.smoke and not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU here; --smoke runs small sizes on the CPU")
    if options.row:
        if options.smoke:
            torch.set_num_threads(1)
        print(json.dumps(judged(*options.row, options)))
        return 0
    return run_all(options)


if __name__ == "__main__":
    sys.exit(main())
