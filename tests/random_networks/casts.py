"""Casts in a finished network: its nodes compute in a type of 16 bits or, in islands, in f32."""

import random

from onnx import TensorProto, defs, helper

SHORT = {TensorProto.FLOAT16: "tensor(float16)", TensorProto.BFLOAT16: "tensor(bfloat16)"}
F32 = TensorProto.FLOAT
NOT_CAST = ("Cast", "CastLike", "Constant", "ConstantOfShape")
FIRST_OPSET = 13  # operators know bfloat16 since


def has_casts(seed):
    """Half of the networks have some."""
    return random.Random(f"casts {seed}").random() < 0.5


def parameter(formal, i):
    """The i-th of the formal parameters, the last of which may stand for several."""
    variadic = defs.OpSchema.FormalParameterOption.Variadic
    return formal[i] if i < len(formal) else formal[-1] if formal and formal[-1].option == variadic else None


class Caster:
    def __init__(self, model, seed):
        self.random = random.Random(f"types {seed}")
        self.model, self.opset = model, model.opset_import[0].version
        self.main = self.random.choice(list(SHORT))
        self.types = {}  # by name of a float: the type in which it is made
        self.made = set()  # casts
        self.nodes = []
        for value in (*model.graph.input, *model.graph.initializer):
            kind = value.data_type if isinstance(value, TensorProto) else value.type.tensor_type.elem_type
            if kind == F32:
                self.types[value.name] = F32

    def typed(self, name, kind):
        """The float in this type."""
        if self.types.get(name, kind) == kind:
            return name
        cast = f"{name}/{TensorProto.DataType.Name(kind).lower()}"
        if cast not in self.made:
            self.made.add(cast)
            self.nodes.append(helper.make_node("Cast", [name], [cast], to=kind))
        return cast

    def places(self, node):
        """(inputs, outputs) of the node that have its own type, if that may be one of 16 bits."""
        if node.op_type in NOT_CAST or node.domain or not defs.has(node.op_type, node.domain):
            return (), ()
        schema = defs.get_schema(node.op_type, self.opset, node.domain)
        own = schema.outputs[0].type_str
        allowed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == own), ())
        if SHORT[self.main] not in allowed or not any(n in self.types for n in node.input):
            return (), ()
        inputs = [i for i in range(len(node.input)) if parameter(schema.inputs, i).type_str == own]
        outputs = [i for i in range(len(node.output)) if parameter(schema.outputs, i).type_str == own]
        inputs = [i for i in inputs if node.input[i]]
        return (inputs, outputs) if all(node.input[i] in self.types for i in inputs) else ((), ())

    def write(self, node, kind):
        inputs, outputs = self.places(node)
        kind = kind if inputs and outputs else F32
        copy = type(node)()
        copy.CopyFrom(node)
        for i, name in enumerate(node.input):
            copy.input[i] = self.typed(name, kind if i in inputs else F32)
        self.nodes.append(copy)
        if inputs and outputs:
            self.types.update({node.output[i]: kind for i in outputs})
        else:
            self.types.update({n: F32 for n in node.output if n in self.floats})

    def cast(self):
        """The model with casts: of a type of 16 bits with islands, or of f32 with what its casts leave in an export."""
        self.floats = floats_of(self.model)
        exported = self.random.random() < 0.2
        kind = F32 if exported else self.random.choice((self.main, self.main, F32))
        for node in self.model.graph.node:
            if not exported and self.random.random() < 0.35:
                kind = self.random.choice((self.main, F32))
            self.write(node, kind)
            if exported and self.random.random() < 0.3:
                self.cast_in_f32(self.nodes[-1])
        for output in self.model.graph.output:
            if self.types.get(output.name, F32) != F32:
                output.type.tensor_type.elem_type = self.types[output.name]
        del self.model.graph.node[:]
        self.model.graph.node.extend(self.nodes)
        return self.model

    def cast_in_f32(self, node):
        """Behind a node, a cast of f32 to f32, with the name of what the node made."""
        for i, name in enumerate(node.output):
            if name in self.floats and self.types.get(name) == F32:
                node.output[i] = name + "/before"
                self.nodes.append(helper.make_node("Cast", [node.output[i]], [name], to=F32))


def floats_of(model):
    """The names of all floats that nodes make."""
    from onnx import shape_inference
    inferred = shape_inference.infer_shapes(model, strict_mode=False)
    infos = (*inferred.graph.value_info, *inferred.graph.output)
    return {v.name for v in infos if v.type.tensor_type.elem_type == F32}


def applies(model, seed):
    """Whether the model of this seed is one with casts."""
    return has_casts(seed) and model.opset_import[0].version >= FIRST_OPSET and not any(n.domain for n in model.graph.node)


def with_casts(model, seed):
    return Caster(model, seed).cast() if applies(model, seed) else model
