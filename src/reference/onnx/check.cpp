#include "reference/onnx/check.hpp"

#include <algorithm>

namespace unisono::float64 {

NetworkAnswer defined_answer(const OnnxModel& model, const Tensors64& inputs, int evaluations) {
  const Evaluation evaluation = [model, inputs](const ResultObserver& observer) {
    return model.evaluate(inputs, observer);
  };
  return NetworkAnswer(evaluation, evaluation, evaluations);
}

std::vector<NetworkAgreement> check_model(const OnnxModel& model, const Network& network, const Tensors64& inputs,
                                          const Tensors64& outputs, const Rounding& rounding) {
  const NetworkAnswer defined = defined_answer(model, inputs);
  const bool rounds = rounding.tensors != DType::f32;
  std::vector<NetworkAgreement> agreements =
      rounds ? check_network(network, inputs, outputs, {}, rounding) : defined.compare(outputs);
  const std::vector<NetworkAgreement> imported = defined.compare(as_held(evaluate_network(network, inputs)));
  for (NetworkAgreement& a : agreements) {
    const auto found =
        std::find_if(imported.begin(), imported.end(), [&](const NetworkAgreement& i) { return i.output == a.output; });
    if (found == imported.end()) continue;
    a.misread = found->outside;
    a.misread_error = found->largest_error;
  }
  return agreements;
}

}  // namespace unisono::float64
