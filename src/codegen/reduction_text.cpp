#include "codegen/reduction_text.hpp"

#include <fmt/format.h>

#include "unisono/error.hpp"

namespace unisono::codegen {

std::string result_columns(const ReduceDomain& d) { return d.cols ? fmt::format("{}u", d.groups) : "p.columns"; }

std::string domain_text(const ReduceDomain& d) {
  const std::string width = fmt::format("p.columns / {}u", d.groups);
  return fmt::format(
      "    const u32 row = blockIdx.x / {0}, channel = blockIdx.x % {0};\n"
      "    const plain::Domain domain{{row, 1, {1}}};\n",
      result_columns(d), d.cols ? fmt::format("channel * ({0}), {0}", width) : "channel, 1");
}

std::string_view state_of(Op op) {
  switch (op) {
    case Op::mean:
    case Op::variance: return "plain::MomentState";
    case Op::sum: return "plain::Folded<plain::FoldSum>";
    case Op::sum_squares: return "plain::Folded<plain::FoldSquares>";
    case Op::reduce_max: return "plain::Folded<plain::FoldLargest>";
    case Op::reduce_min: return "plain::Folded<plain::FoldSmallest>";
    default: throw InternalError(fmt::format("{} is not a reduction", to_string(op)));
  }
}

std::string_view result_of(Op op) {
  if (op == Op::mean) return "state.of.mean";
  return op == Op::variance ? "state.of.m2 / state.of.count" : "state.value";
}

int state_floats(Op op) { return op == Op::mean || op == Op::variance ? 3 : 1; }

std::string reduction_text(Op op, int threads) {
  const auto over = [&](const char* start, const char* join, const char* value = "value") {
    return fmt::format("plain::reduce<{}>(domain, {}, {}, plain::{}())", threads, start, value, join);
  };
  switch (op) {
    case Op::sum: return over("0.f", "Sum");
    case Op::mean: return fmt::format("plain::mean<{}>(domain, value)", threads);
    case Op::variance: return fmt::format("plain::variance<{}>(domain, value)", threads);
    case Op::sum_squares: return over("0.f", "Sum", "square");
    case Op::reduce_max: return over("-__int_as_float(0x7f800000)", "Largest");
    case Op::reduce_min: return over("__int_as_float(0x7f800000)", "Smallest");
    default: throw InternalError(fmt::format("{} is not a reduction", to_string(op)));
  }
}

}  // namespace unisono::codegen
