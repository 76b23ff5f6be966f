#include "families/cutlass_evt/builtin_fusion.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace unisono::families::cutlass_evt {
namespace {

/// The parts of act(alpha·acc + beta·C + bias), as they are found from D on.
struct Parts {
  std::string activation;
  bool alpha = false, source = false, beta = false;
  bool per_row = false, per_column = false;  ///< bias [m], bias [n]
  bool aux = false;                          ///< the value ahead of the activation is stored too
};

class Matcher {
 public:
  explicit Matcher(const Visitors& v) : list_(v.list) {}

  std::optional<Parts> match() {
    int at = static_cast<int>(list_.size()) - 1;
    if (is_activation(list_[at])) {
      parts_.activation = list_[at].functor->name;
      at = list_[at].inputs[0];
    }
    if (list_[at].kind == VisitorKind::aux_store && !parts_.activation.empty()) {
      parts_.aux = true;
      at = list_[at].inputs[0];
    }
    if (!sum(at) || !accumulator_) return std::nullopt;
    for (const Visitor& v : list_)
      if (v.kind == VisitorKind::compute && v.element != DType::f32) return std::nullopt;
    return parts_;
  }

 private:
  static bool is_activation(const Visitor& v) {
    return v.kind == VisitorKind::compute && v.functor->name.starts_with("thread::") && v.inputs.size() == 1 &&
           v.after.empty() && v.functor->name != "thread::Identity";
  }
  bool calls(int at, const char* name) const {
    return list_[at].kind == VisitorKind::compute && list_[at].functor->name == name;
  }
  bool is(int at, VisitorKind kind) const { return list_[at].kind == kind; }

  bool sum(int at) {
    if (calls(at, "cutlass::plus")) return sum(list_[at].inputs[0]) && sum(list_[at].inputs[1]);
    if (calls(at, "cutlass::homogeneous_multiply_add"))
      return product(list_[at].inputs[0], list_[at].inputs[1]) && sum(list_[at].inputs[2]);
    if (calls(at, "cutlass::multiplies")) return product(list_[at].inputs[0], list_[at].inputs[1]);
    if (is(at, VisitorKind::row)) return !list_[at].per_batch && !std::exchange(parts_.per_column, true);
    if (is(at, VisitorKind::column)) return !std::exchange(parts_.per_row, true);
    if (is(at, VisitorKind::source)) return !std::exchange(parts_.source, true);
    return is(at, VisitorKind::accumulator) && !std::exchange(accumulator_, true);
  }
  bool product(int x, int y) {
    if (is(y, VisitorKind::scalar)) std::swap(x, y);
    if (!is(x, VisitorKind::scalar) || list_[x].scalars.size() != 1) return false;
    if (is(y, VisitorKind::accumulator)) return !std::exchange(accumulator_, true) && (parts_.alpha = true);
    return is(y, VisitorKind::source) && !std::exchange(parts_.source, true) && (parts_.beta = true);
  }

  const std::vector<Visitor>& list_;
  Parts parts_;
  bool accumulator_ = false;
};

}  // namespace

std::optional<std::string> builtin_fusion(const Visitors& v) {
  const auto found = Matcher(v).match();
  if (!found || (found->per_row && found->per_column)) return std::nullopt;
  const Parts& p = *found;
  const bool bias = p.per_row || p.per_column;
  if (p.aux && !bias) return std::nullopt;
  std::string name;
  if (!p.source && !bias && p.activation.empty()) {
    if (!p.alpha) return std::nullopt;  // D = acc needs no fusion
    name = "ScaledAcc";
  } else if (!bias) {
    name = p.activation.empty() ? "LinearCombination" : "LinCombEltAct";
  } else {  // CUTLASS counts a bias by what it is constant along D's rows for: [m] is per row
    name = fmt::format("LinCombPer{}Bias{}{}", p.per_row ? "Row" : "Col", p.activation.empty() ? "" : "EltAct",
                       p.aux ? "Aux" : "");
  }
  return fmt::format("cutlass::epilogue::fusion::{}{}", name,
                     p.activation.empty() ? "" : fmt::format("<{}>", p.activation));
}

}  // namespace unisono::families::cutlass_evt
