"""unisono.export: a PyTorch model as an ONNX file whose weights are in a safetensors file next to it, for runs without
Python."""

from __future__ import annotations

import json
import pathlib
import struct
from typing import Any, Iterable, Optional

import torch

from .._native import Device, DType, Unsupported, UserError, load_onnx, pack_network
from .decompositions import WHOLE
from .regions import aten

OPSET = 22  # of the first that have convolutions in bf16
KEPT = (*WHOLE, aten.linear, aten.matmul, aten.upsample_nearest2d, aten._upsample_nearest_exact2d,
        aten.upsample_nearest3d, aten.upsample_bilinear2d,
        aten.scaled_dot_product_attention, aten.adaptive_avg_pool2d, aten._softmax, aten.softmax, aten.max_pool2d,
        aten.avg_pool2d, aten.group_norm, aten.layer_norm, aten.instance_norm)
SAFETENSORS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
               torch.int32: "I32", torch.bool: "BOOL", torch.float64: "F64", torch.uint8: "U8", torch.int8: "I8"}
PRECISIONS = {None: DType.bf16, "bf16": DType.bf16, "f16": DType.f16}  # of a pack's kernels


def write_safetensors(path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> dict[str, tuple[int, int]]:
    """Writes the file; returns {name: (offset in the file, bytes)}."""
    header: dict[str, Any] = {}
    place = 0
    for name, t in tensors.items():
        size = t.numel() * t.element_size()
        header[name] = {"dtype": SAFETENSORS[t.dtype], "shape": list(t.shape), "data_offsets": [place, place + size]}
        place += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            file.write(t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    start = 8 + len(text)
    return {n: (start + h["data_offsets"][0], h["data_offsets"][1] - h["data_offsets"][0]) for n, h in header.items()}


def _rms_norm(x: torch.Tensor, shape: list[int], weight: Optional[torch.Tensor], eps: Optional[float]) -> Any:
    """As a GPU has it. PyTorch 2.11 has no decomposition of it for others than Inductor."""
    wide = x.to(torch._prims_common.get_computation_dtype(x.dtype))
    least = torch.finfo(wide.dtype).eps if eps is None else eps
    rstd = torch.rsqrt(wide.square().mean([*range(-len(shape), 0)], True) + least)
    made = wide * rstd
    return (made if weight is None else made * weight).to(x.dtype), rstd


def decompositions_but(packets: Iterable[Any]) -> dict:
    """torch.export's, without those of these operators."""
    kept = {getattr(packet, name) for packet in packets for name in packet.overloads()}
    table = {aten._fused_rms_norm.default: _rms_norm, **torch.export.default_decompositions()}
    return {op: how for op, how in table.items() if op not in kept}


def decomposed(program: Any) -> Any:
    """An exported program in the operators that have translations."""
    return program.run_decompositions(decompositions_but(KEPT))


def _program(model: torch.nn.Module, example: tuple[Any, ...], dynamic_shapes: Any) -> Any:
    if model.training:
        raise UserError(
            "export: the model is in training mode; call model.eval() first, or dropout and batch normalisation "
            "would be "
            "those of training"
        )
    with torch.no_grad():
        return decomposed(torch.export.export(model, example, dynamic_shapes=dynamic_shapes))


def tensors_of(program: Any) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants by the names of their placeholders."""
    from torch.export.graph_signature import InputKind
    found = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind == InputKind.USER_INPUT:
            continue
        name = spec.arg.name
        if spec.target in program.state_dict:
            found[name] = program.state_dict[spec.target]
        elif spec.target in program.constants:
            found[name] = program.constants[spec.target]
        else:
            raise Unsupported(f"export: {spec.kind.name.lower()} '{spec.target}' is not a tensor")
    return found


def export(model: torch.nn.Module, example: Any, path: Any, *, dynamic_shapes: Optional[Any] = None, pack: Any = False,
           precision: Optional[str] = None) -> pathlib.Path:
    """`unisono.export`, which documents the arguments.

    The command (`unisono run`, `bench`, `tune`) and the C++ interface (`unisono::load_onnx`) run the file without
    Python, on a GPU as one CUDA graph.
    """
    from .onnx_file import Writer
    from .onnx_gradients import HANDLERS
    example = example if isinstance(example, tuple) else (example,)
    path = pathlib.Path(path)
    if precision not in PRECISIONS:
        raise UserError(f"export: precision={precision!r}; expected 'bf16' or 'f16'")
    if precision is not None and not pack:
        raise UserError(
            f"export: precision={precision!r} only applies with pack=True; without a pack, the file keeps the "
            "model's dtypes"
        )
    if path.suffix != ".onnx":
        raise UserError(f"export: path '{path}'; expected a file that ends in .onnx")
    program = _program(model, example, dynamic_shapes)
    weights = path.with_suffix(".safetensors")
    tensors = tensors_of(program)
    writer = Writer(program, tensors)
    writer.write_nodes(HANDLERS)
    used = {n: t for n, t in tensors.items() if n in writer.used}
    places = write_safetensors(weights, used)
    path.write_bytes(writer.model(OPSET, weights.name, places).SerializeToString())
    if pack:
        _packed(path, writer.shapes_of_inputs(), path.with_suffix(".pack") if pack is True else pathlib.Path(pack),
                precision)
    return path


def _packed(path: pathlib.Path, shapes: dict[str, list[int]], folder: pathlib.Path, precision: Optional[str]) -> None:
    pack_network(load_onnx(str(path)), shapes, str(folder), device=Device.cuda, precision=PRECISIONS[precision])
