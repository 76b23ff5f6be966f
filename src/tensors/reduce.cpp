#include "tensors/reduce.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tensors/named.hpp"
#include "tensors/text.hpp"
#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

using Of = Address::Of;

// The tag under which elements are folded: truth values as bytes
std::string_view folded_tag(DType t) { return tag_of(t == DType::boolean ? DType::u8 : t); }

std::string fold_of(ReduceOp op, DType from) {
  const std::string_view t = number_of(from == DType::boolean ? DType::u8 : from);
  const auto sum = [&](std::string_view term, std::string_view finish) {
    return fmt::format("FoldSum<{}, {}, {}>", t, term, finish);
  };
  switch (op) {
    case ReduceOp::sum: return sum("Itself", "Itself");
    case ReduceOp::mean: return sum("Itself", "Average");
    case ReduceOp::l1: return sum("Absolute", "Itself");
    case ReduceOp::l2: return sum("Squared", "Root");
    case ReduceOp::sum_square: return sum("Squared", "Itself");
    case ReduceOp::log_sum: return sum("Itself", "Logarithm");
    case ReduceOp::log_sum_exp: return fmt::format("FoldLogSumExp<{}>", t);
    case ReduceOp::prod: return fmt::format("FoldProduct<{}>", t);
    case ReduceOp::max: return fmt::format("FoldExtreme<{}, false>", t);
    case ReduceOp::min: return fmt::format("FoldExtreme<{}, true>", t);
  }
  throw InternalError("an unknown reduction");
}

// A thread, a warp or a CTA a result, or a part of one
struct Teams {
  static constexpr int warp = 32, cta = 256;
  int threads = 1;
  std::int64_t parts = 1, part_length = 0;
};
constexpr std::int64_t wanted_threads = 65536, most_of_a_warp = 2048, least_of_a_thread = 64;
// So few elements in all that a warp may take them from apart: one launch, where parts of results are two
constexpr std::int64_t few_elements = 1 << 18;

Teams teams_for(std::int64_t results, const Walk& elements) {
  const std::int64_t count = element_count(elements.extents);
  Teams teams;
  if (count >= Teams::warp && (elements.strides[0].back() == 1 || results * count <= few_elements))
    teams.threads = count <= most_of_a_warp ? Teams::warp : Teams::cta;
  const std::int64_t wanted = wanted_threads / std::max<std::int64_t>(results * teams.threads, 1);
  teams.parts = std::max<std::int64_t>(1, std::min(wanted, count / (least_of_a_thread * teams.threads)));
  teams.part_length = (count + teams.parts - 1) / teams.parts;
  return teams;
}

std::string source_of_reduction(std::string_view from, std::string_view to, const std::string& fold, int threads) {
  return "// A reduction of tensors.\n#include <unisono/tensor/reduce.cuh>\n" +
         kernel_text("unisono_reduce", "ReduceParams", fmt::format("reduce<{}, {}, {}, {}>", from, to, fold, threads)) +
         kernel_text("unisono_join_parts", "ReduceParams", fmt::format("join_parts<{}, {}>", to, fold));
}

std::string described(const Teams& t) {
  const std::string team = t.threads == 1 ? "a thread" : t.threads == Teams::warp ? "a warp" : "a CTA";
  return t.parts == 1 ? team + " a result" : fmt::format("{} a part of a result, {} parts", team, t.parts);
}

// The walks over what stays and over what is reduced
struct Split {
  Walk results{{}, {{}, {}}}, elements{{}, {{}}};
};
Split split(const std::vector<int>& axes, const StridedTensor& x, const StridedTensor& to) {
  Split s;
  const bool kept = to.shape.size() == x.shape.size();
  std::size_t at = 0;  // in `to`
  for (std::size_t i = 0; i < x.shape.size(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), static_cast<int>(i)) != axes.end();
    if (reduced) {
      s.elements.extents.push_back(x.shape[i]), s.elements.strides[0].push_back(x.strides[i]);
    } else {
      s.results.extents.push_back(x.shape[i]);
      s.results.strides[0].push_back(x.strides[i]), s.results.strides[1].push_back(to.strides[at]);
    }
    at += !reduced || kept ? 1 : 0;
  }
  return {collapse(s.results, {.order_of = 0}), collapse(s.elements, {.order_of = 0})};
}

plan::Expected<Launches> reduced(const std::vector<int>& axes, const std::string& fold, const StridedTensor& x,
                                 const StridedTensor& to) {
  if (element_count(to.shape) == 0) return Launches{};
  const Split s = split(axes, x, to);
  const auto results = index_space(s.results.extents), elements = index_space(s.elements.extents);
  if (!results) return results.refusal();
  if (!elements) return elements.refusal();
  const Teams teams = teams_for(results->count, s.elements);
  ReduceParams p{};
  p.results = *results, p.elements = *elements, p.count = elements->count;
  set_strides(p.from.strides, s.results.strides[0]), set_strides(p.to.strides, s.results.strides[1]);
  set_strides(p.element_strides, s.elements.strides[0]);
  p.parts = static_cast<u32>(teams.parts), p.part_length = static_cast<u32>(teams.part_length);

  const std::string source =
      source_of_reduction(folded_tag(x.type.memory), folded_tag(to.type.memory), fold, teams.threads);
  Launches launches;
  const auto add = [&](const char* entry, std::int64_t threads, std::string text, bool last) {
    Launch launch = launch_of({source, entry}, threads, p, std::move(text));
    if (entry == std::string_view("unisono_reduce"))
      add_address(launch, offsetof(ReduceParams, from), reads(0, start_of(x)));
    if (last) add_address(launch, offsetof(ReduceParams, to), writes(1, start_of(to)));
    if (teams.parts > 1)
      add_address(launch, offsetof(ReduceParams, partials), {.of = Of::scratch, .read = last, .written = !last});
    launches.list.push_back(std::move(launch));
  };
  add("unisono_reduce", teams.threads * teams.parts * results->count, described(teams), teams.parts == 1);
  if (teams.parts == 1) return launches;
  add("unisono_join_parts", std::int64_t{Teams::warp} * results->count, "a warp joins the parts of a result", true);
  constexpr std::size_t most_state_bytes = 16;  // kernels/unisono/tensor/folds.cuh
  launches.scratch_bytes = static_cast<std::size_t>(results->count * teams.parts) * most_state_bytes;
  return launches;
}

}  // namespace

plan::Expected<Launches> reduce(const operators::Reduce& op, const StridedTensor& x, const StridedTensor& to) {
  std::vector<int> axes = op.axes;
  for (std::size_t i = 0; op.axes.empty() && i < x.shape.size(); ++i) axes.push_back(static_cast<int>(i));
  return reduced(axes, fold_of(op.op, x.type.memory), x, to);
}

plan::Expected<Launches> arg_reduce(const operators::ArgReduce& op, const StridedTensor& x, const StridedTensor& to) {
  const std::string fold = fmt::format("FoldPlace<{}, {}, {}>", number_of(x.type.memory), op.smallest, op.last);
  return reduced({op.axis}, fold, x, to);
}

}  // namespace unisono::tensors
