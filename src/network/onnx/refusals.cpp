/// Operators that are refused for what they are, with the reason.

#include <algorithm>
#include <array>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::string_view loops = "loops are not imported; export the model with its loops unrolled";
constexpr std::string_view counts =
    "the shape of its result depends on the values of its input; leave it out of the model and do it afterwards";
constexpr std::string_view quantised =
    "quantised operators are not imported; export the model with float32 or float16 weights";
constexpr std::string_view sequences = "sequences and optional values are no tensors";
constexpr std::string_view chance = "random numbers are not imported; make them an input of the model";

struct Refusal {
  std::string_view op_type, reason;
};
constexpr std::array refusals{Refusal{"Bernoulli", chance},
                              Refusal{"Compress", counts},
                              Refusal{"ConcatFromSequence", sequences},
                              Refusal{"ConvInteger", quantised},
                              Refusal{"DequantizeLinear", quantised},
                              Refusal{"DynamicQuantizeLinear", quantised},
                              Refusal{"DynamicQuantizeMatMul", quantised},
                              Refusal{"Loop", loops},
                              Refusal{"MatMulInteger", quantised},
                              Refusal{"MatMulIntegerToFloat", quantised},
                              Refusal{"MatMulNBits", quantised},
                              Refusal{"Multinomial", chance},
                              Refusal{"NonMaxSuppression", counts},
                              Refusal{"NonZero", counts},
                              Refusal{"Optional", sequences},
                              Refusal{"OptionalGetElement", sequences},
                              Refusal{"OptionalHasElement", sequences},
                              Refusal{"QLinearConv", quantised},
                              Refusal{"QLinearMatMul", quantised},
                              Refusal{"QuantizeLinear", quantised},
                              Refusal{"RandomNormal", chance},
                              Refusal{"RandomNormalLike", chance},
                              Refusal{"RandomUniform", chance},
                              Refusal{"RandomUniformLike", chance},
                              Refusal{"Scan", loops},
                              Refusal{"SequenceAt", sequences},
                              Refusal{"SequenceConstruct", sequences},
                              Refusal{"SequenceEmpty", sequences},
                              Refusal{"SequenceMap", sequences},
                              Refusal{"SplitToSequence", sequences},
                              Refusal{"Unique", counts}};

}  // namespace

std::string_view refusal_of(std::string_view op_type) {
  const auto it =
      std::find_if(refusals.begin(), refusals.end(), [&](const Refusal& r) { return r.op_type == op_type; });
  if (it != refusals.end()) return it->reason;
  return op_type.starts_with("QLinear") ? quantised : std::string_view();
}

}  // namespace unisono::network::onnx_import
