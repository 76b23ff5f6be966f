#include "gradients/derivative.hpp"

#include <fmt/format.h>

#include <variant>

#include "unisono/error.hpp"

namespace unisono::autodiff {

namespace {

template <class Kind>
concept HasDerivative = requires(const Kind& kind, const Use& use) {
  derivative_of(kind, use);
};

}  // namespace

void refuse_derivative(const Use& use, const std::string& reason) {
  throw Unsupported(fmt::format("gradients: {}: {}", use.where, reason));
}

InputGradients derivative(const OperatorKind& kind, const Use& use) {
  return std::visit(
      [&]<class Kind>(const Kind& k) -> InputGradients {
        if constexpr (HasDerivative<Kind>) {
          return derivative_of(k, use);
        } else {
          refuse_derivative(use, to_string(kind) +
                                     " has no derivative. Leave the parameters before it as they are "
                                     "(GradientOptions::parameters), or write it by operators that have one");
        }
      },
      kind);
}

}  // namespace unisono::autodiff
