/// Operators that are refused for what they are, with the reason.

#include <algorithm>
#include <array>

#include "network/onnx/importer.hpp"

namespace unisono::network::onnx_import {

namespace {

constexpr std::string_view scans = "this kind of loop is not imported; export the model with its loops unrolled";
constexpr std::string_view counts =
    "the shape of its result depends on the values of its input; leave it out of the model and do it afterwards";
constexpr std::string_view quantised =
    "quantised operators are not imported; export the model with float32 or float16 weights";
constexpr std::string_view sequences =
    "optional values, and functions over the tensors of a sequence, are not imported; export the model without "
    "them";
constexpr std::string_view losses = "losses are for training, and networks for inference; leave it out of the model";
constexpr std::string_view varying =
    "ONNX defines it as a function that differs from node to node, and only functions that are the same for all nodes "
    "are imported; export it as the operators that it is made of";
constexpr std::string_view defined_by_scan =
    "ONNX defines it as a loop (Scan), and these are not imported; export it as the operators that it is made of, with "
    "the loop unrolled";
constexpr std::string_view chance = "random numbers are not imported; make them an input of the model";

struct RefusedOperator {
  std::string_view op_type, reason;
};
constexpr std::array refusals{RefusedOperator{"Bernoulli", chance},
                              RefusedOperator{"CausalConvWithState", varying},
                              RefusedOperator{"Compress", counts},
                              RefusedOperator{"ConvInteger", quantised},
                              RefusedOperator{"DequantizeLinear", quantised},
                              RefusedOperator{"DynamicQuantizeLinear", quantised},
                              RefusedOperator{"DynamicQuantizeMatMul", quantised},
                              RefusedOperator{"LinearAttention", defined_by_scan},
                              RefusedOperator{"MatMulInteger", quantised},
                              RefusedOperator{"MatMulIntegerToFloat", quantised},
                              RefusedOperator{"MatMulNBits", quantised},
                              RefusedOperator{"Multinomial", chance},
                              RefusedOperator{"NegativeLogLikelihoodLoss", losses},
                              RefusedOperator{"NonMaxSuppression", counts},
                              RefusedOperator{"NonZero", counts},
                              RefusedOperator{"Optional", sequences},
                              RefusedOperator{"OptionalGetElement", sequences},
                              RefusedOperator{"OptionalHasElement", sequences},
                              RefusedOperator{"QLinearConv", quantised},
                              RefusedOperator{"QLinearMatMul", quantised},
                              RefusedOperator{"QuantizeLinear", quantised},
                              RefusedOperator{"RandomNormal", chance},
                              RefusedOperator{"RandomNormalLike", chance},
                              RefusedOperator{"RandomUniform", chance},
                              RefusedOperator{"RandomUniformLike", chance},
                              RefusedOperator{"Scan", scans},
                              RefusedOperator{"SequenceMap", sequences},
                              RefusedOperator{"SoftmaxCrossEntropyLoss", losses},
                              RefusedOperator{"Unique", counts}};

}  // namespace

std::string_view refusal_of(std::string_view op_type) {
  const auto it =
      std::find_if(refusals.begin(), refusals.end(), [&](const RefusedOperator& r) { return r.op_type == op_type; });
  if (it != refusals.end()) return it->reason;
  return op_type.starts_with("QLinear") ? quantised : std::string_view();
}

}  // namespace unisono::network::onnx_import
