#include "network/cuda/emit/region_emission.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "network/names.hpp"
#include "support/checked.hpp"
#include "unisono/error.hpp"

namespace unisono::network::gpu {

namespace {

constexpr std::int64_t largest_place = std::int64_t{1}
                                       << 29;  // along an axis, or of padding; sums of three fit 32 bits

bool names(const std::vector<Interval>& list, const Location& at) {
  return std::any_of(list.begin(), list.end(), [&](const Interval& x) {
    return x.space == static_cast<std::uint8_t>(at.space) && x.begin == place_of(at);
  });
}

}  // namespace

std::uint32_t count32(std::int64_t x) { return support::narrow<std::uint32_t>("a count of a kernel on the GPU", x); }

PlacedTensor floats_in_scratch(RegionEmission& e, std::int64_t bytes, std::int64_t pitch) {
  PlacedTensor placed;
  placed.tensor.at = e.launches.scratch(static_cast<std::size_t>(bytes));
  placed.tensor.pitch = pitch;
  placed.tensor.type = DType::f32;
  placed.memory = interval(placed.tensor.at, 1, bytes, bytes);
  return placed;
}

PitchedTensor RegionEmission::tensor(TensorId id) const {
  const auto at = in_scratch.find(id);
  return at == in_scratch.end() ? in.element_tensor(id) : at->second;
}

void RegionEmission::refuse(const std::string& why) const {
  throw Unsupported(
      fmt::format("{}: {}; compile the network for Device::cpu", op ? where(*op) : "the network's border", why));
}

int RegionEmission::place32(const char* what, std::int64_t x) const {
  if (x < 0 || x > largest_place)
    refuse(fmt::format("{} {}; plain kernels count places to {}", what, x, largest_place));
  return static_cast<int>(x);
}

cuda::PlainGrid RegionEmission::grid(std::int64_t threads) const {
  if (threads > most_elements) refuse(fmt::format("{} elements; kernels count to {}", threads, most_elements));
  const std::int64_t most = std::int64_t{16} * in.device.sms;
  return {count32(std::clamp<std::int64_t>((threads + 255) / 256, 1, most)), 256};
}

// A concatenation has a step for every input
double RegionEmission::bytes_of_inputs() {
  if (bytes_of_inputs_) return *bytes_of_inputs_;
  double bytes = 0;
  for (const TensorId id : data_inputs(*op)) bytes += bytes_of(id);
  bytes_of_inputs_ = bytes;
  return bytes;
}

// The size of its elements; constants are counted as what is computed
double RegionEmission::bytes_of(TensorId id) const {
  return static_cast<double>(element_count(sizes(id))) *
         static_cast<double>(in.fused.own_type[id] ? size_of(net()[id].dtype) : size_of(in.element));
}

// What a plain kernel's operator reads and writes. Statistics are read, and next to nothing is written
double RegionEmission::bytes_of(const std::string& what) {
  if (op == nullptr || what.starts_with("joined")) return 0;
  const Region& r = in.region(index);
  double read = 0, written = 0;
  if (r.kind == RegionReport::Kind::single) {
    read = bytes_of_inputs();
  } else if (r.source) {
    read = bytes_of(*r.source);
  } else if (!r.outputs.empty()) {
    read = bytes_of(r.outputs[0].tensor);  // the contraction's sums
  }
  if (what.starts_with("statistics")) return read;
  for (const RegionOperand& o : r.operands) read += bytes_of(o.tensor);
  for (const RegionOutput& o : r.outputs) written += bytes_of(o.tensor);
  return read + written;
}

void RegionEmission::add(std::unique_ptr<Step> step, const std::vector<Location>& used) {
  step->name = name;
  if (step->bytes == 0) step->bytes = bytes_of(step->what);
  for (const Location& at : used)
    if (at.constant) step->constants.push_back(at.constant);
  launches.add(std::move(step), index);
}

Step& RegionEmission::add(std::unique_ptr<PlainStep> step, LaunchText text, const std::vector<Location>& used,
                          Touched touched) {
  // each location in the arena or in scratch is one that is read or written: what is not named is not waited for
  for (const Location& at : used)
    if (!at.constant && !names(touched.reads, at) && !names(touched.writes, at))
      throw InternalError(fmt::format("'{}' ({}) touches memory that it does not name", name, text.what));
  step->what = std::move(text.what), step->how = std::move(text.how);
  step->uses = {.reads = std::move(touched.reads), .writes = std::move(touched.writes)};
  step->uses.blocks = step->grid().ctas, step->uses.threads = step->grid().threads;
  add(std::unique_ptr<Step>(std::move(step)), used);
  return launches.last();
}

}  // namespace unisono::network::gpu
