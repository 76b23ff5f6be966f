"""Random networks, valid by construction: motifs of operators put behind one another.

usage: generator.py FOLDER FIRST COUNT [--gpu]      writes FOLDER/<seed>.onnx, each with its inputs
"""

import pathlib
import random
import sys

import casts
import chains
import contractions as c
import elementwise as e
import functions
import images as i
import lines
import maps as m
import movement as v
import newer
import normalisations as n
import permuted as p
import steps
from draft import Draft, with_data

# motif: how often for the CPU, and for the GPU
MOTIFS = {
    c.conv: (10, 14), c.gated_conv: (2, 3), c.conv_transpose: (3, 3), c.gemm: (4, 4), c.matmul: (7, 6), c.attention: (1, 0),
    e.unary: (14, 14), e.binary: (16, 16), e.gated: (1, 2), e.embedded: (1, 2),
    n.batch_norm: (2, 3), n.batch_statistics: (0.7, 0), n.group_norm: (4, 5), n.instance_norm: (1, 2), n.layer_norm: (3, 2), n.written_layer_norm: (1, 0),
    n.softmax: (2, 1), n.rms_norm: (1, 0),
    v.reshape: (5, 2), v.flatten: (1, 1), v.squeeze: (2, 1), v.unsqueeze: (1, 0.5), v.transpose: (5, 1), v.split: (3, 2),
    v.slice_: (4, 2), v.concat: (6, 6), v.pad: (2, 1), v.tile: (1, 0), v.expand: (2, 0), v.gather: (2, 0), v.dropout: (1, 1),
    p.permuted: (4, 2), chains.chain: (3, 3), lines.rotation_of_opset: (2, 2), lines.line: (2, 2), i.depth_to_space: (1, 0), i.pool: (3, 4), i.resize: (2, 3),
    m.reduce: (5, 0), m.arg_reduce: (1, 0), m.choose: (2, 0), m.rounded: (1, 0), m.through_integers: (1, 0),
    m.through_other_floats: (0.7, 0), m.from_extents: (1, 0.5), m.by_indices: (1.5, 0), m.sequences: (1.5, 0), m.grid_sample: (0.5, 0), **functions.MOTIFS,
}
OLD_MOTIFS = {c.conv: (4, 0), e.unary: (4, 0), e.binary: (4, 0), n.batch_norm: (1, 0), i.upsample: (4, 0)}  # alike in opset 9
CONTRACTIONS = (c.conv, c.conv, c.conv, c.conv_transpose, c.gemm, c.matmul, c.matmul)
EPILOGUES = (e.unary, e.unary, e.binary, e.binary, e.binary, n.group_norm, n.batch_norm, n.layer_norm, n.softmax, e.embedded)


def motifs_of(d):
    if d.opset < 11:
        return OLD_MOTIFS
    return {**MOTIFS, **newer.MOTIFS} if d.opset >= 23 else MOTIFS


def contraction_with_epilogue(d, x):
    epilogues = EPILOGUES[:5] + (EPILOGUES[6],) if d.opset < 11 else EPILOGUES + newer.EPILOGUES if d.opset >= 23 else EPILOGUES
    for _ in range(12):
        y = d.pick(CONTRACTIONS if d.opset >= 11 else (c.conv,))(d, x)
        if y is not None:
            break
    else:
        return None
    for _ in range(d.random.randint(1, 4)):
        y = d.pick(epilogues if y.rank > 1 else EPILOGUES[:5])(d, y) or y
    return y


def seldom_drawn(d, motifs):
    """One motif more, all alike in how often they are drawn."""
    for _ in range(12):
        if d.pick(motifs)(d, d.pick([w for w in d.values if w.kind == "f"])) is not None:
            break


def generate(seed, gpu=False):
    """(model, inputs) of this seed."""
    d = Draft(seed, gpu)
    x = d.input(c.first_rank(d))
    motifs, weights = zip(*((f, often[1 if gpu else 0]) for f, often in motifs_of(d).items()))
    most = d.random.randint(2, 6 if gpu else 16)
    if d.chance(0.97):
        x = contraction_with_epilogue(d, x) or x
    for _ in range(60):
        if len(d.nodes) >= most and d.nodes:
            break
        if d.chance(0.35):  # another value: branches, residuals, several users
            x = d.pick([w for w in d.values if w.kind == "f"])
        if not gpu and d.chance(0.42):
            x = contraction_with_epilogue(d, x) or x
            continue
        y = d.random.choices(motifs, weights)[0](d, x)
        if y is not None and y.kind == "f" and d.fits(y.shape):
            x = d.tame(y)
    if not gpu and d.chance(0.6):
        seldom_drawn(d, motifs)
    # a stream of its own: what is drawn for the other seeds stays as it was
    if not gpu and d.opset >= 11 and random.Random(f"steps {seed}").random() < 0.12:
        seldom_drawn(d, steps.MOTIFS)
    extra = [w for w in d.values if w.name in d.used and d.chance(0.04)]
    model, inputs = d.model(extra[:2])
    return casts.with_casts(model, seed), inputs


def main():
    folder, first, count = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        model, inputs = generate(seed, "--gpu" in sys.argv)
        (folder / f"{seed}.onnx").write_bytes(with_data(model, inputs).SerializeToString())


if __name__ == "__main__":
    main()
