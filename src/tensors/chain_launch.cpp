#include "tensors/chain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "tensors/chain_text.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

constexpr std::int64_t most_places = std::int64_t{1} << 30;  // kernels count them by int
constexpr std::int64_t widest_team = 32, most_times = 4;
constexpr std::size_t most_chain_tensors = 48;

// From the first to the last element
std::int64_t span_of(const StridedTensor& x) {
  std::int64_t span = 1;
  for (std::size_t i = 0; i < x.shape.size(); ++i) span += (x.shape[i] - 1) * std::abs(x.strides[i]);
  return span;
}

bool folds_lines(const ChainProgram& p) {
  return std::any_of(p.nodes.begin(), p.nodes.end(),
                     [](const ChainNode& n) { return n.kind == ChainNode::Kind::reduce; });
}

ChainShares shares_of(const ChainProgram& program, const StridedTensor& to) {
  ChainShares s;
  s.outer = memory_order(to);
  if (!s.outer.empty()) {
    s.axis = s.outer.back();
    s.outer.pop_back();
    s.length = to.shape[static_cast<std::size_t>(s.axis)];
  }
  for (const int axis : s.outer) s.lines *= to.shape[static_cast<std::size_t>(axis)];
  s.chunk = size_of(to.type.memory) <= 2 ? 8 : 4;
  while (s.length % s.chunk != 0) s.chunk /= 2;
  s.team = s.length / s.chunk;
  if (!folds_lines(program)) return s;
  const std::int64_t chunks = s.team;
  s.team = std::min(widest_team, static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(chunks))));
  s.times = (chunks + s.team - 1) / s.team;
  return s;
}

}  // namespace

std::vector<int> memory_order(const StridedTensor& x) {
  std::vector<int> axes(x.shape.size());
  std::iota(axes.begin(), axes.end(), 0);
  const auto stride = [&](int axis) {
    const auto i = static_cast<std::size_t>(axis);
    return x.shape[i] == 1 ? most_places * 2 : std::abs(x.strides[i]);
  };
  std::stable_sort(axes.begin(), axes.end(), [&](int a, int b) { return stride(a) > stride(b); });
  return axes;
}

plan::Expected<Launches> chain(const ChainProgram& program, std::span<const StridedTensor> tensors) {
  if (tensors.size() != program.inputs + program.results.size() || program.results.empty())
    throw InternalError("a chain's tensors are not those that it is launched for");
  if (tensors.size() > most_chain_tensors)
    return plan::because(fmt::format("tensors: {}; one launch has {}", tensors.size(), most_chain_tensors));
  for (const StridedTensor& t : tensors) {
    if (element_count(t.shape) == 0) return Launches{};
    if (span_of(t) > most_places)
      return plan::because(fmt::format("size: {} places; a chain counts {}", span_of(t), most_places));
  }
  for (const ChainNode& n : program.nodes)
    if (element_count(n.shape) > most_places)
      return plan::because(fmt::format("size: {} elements; a chain counts {}", element_count(n.shape), most_places));
  const ChainShares shares = shares_of(program, tensors[program.inputs]);
  if (shares.times > most_times)
    return plan::because(fmt::format("it reduces {} elements; a team of threads has fewer", shares.length));
  try {
    KernelText text = ChainWriter(program, tensors, shares).text();
    struct Head {
      u32 threads, unused;
    };
    const std::int64_t threads = shares.lines * shares.team;
    const Head head{static_cast<u32>(threads), 0};
    const std::string how = folds_lines(program) ? fmt::format("chain, {} threads a line", shares.team)
                                                 : fmt::format("chain, {} elements a thread", shares.chunk);
    Launch launch = launch_of(std::move(text), threads, head, how);
    launch.parameters.resize(sizeof(Head) + tensors.size() * sizeof(void*));
    for (std::size_t i = 0; i < tensors.size(); ++i)
      add_address(launch, sizeof(Head) + i * sizeof(void*),
                  i < program.inputs ? reads(i, start_of(tensors[i])) : writes(i, start_of(tensors[i])));
    return Launches{{std::move(launch)}, {}, 0};
  } catch (const ChainRefusal& refusal) {
    return plan::because(refusal.why);
  }
}

}  // namespace unisono::tensors
