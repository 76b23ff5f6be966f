/// Launches of the kernels of src/tensors/.

#include <algorithm>
#include <set>
#include <utility>

#include "network/cuda/emit/emission.hpp"
#include "network/names.hpp"
#include "support/checked.hpp"

namespace unisono::network::gpu {

namespace {

using tensors::Address;

// Where the memory of one operator's launches lies
struct Places {
  std::vector<Location> arguments, tables;
  Location scratch;
  std::size_t scratch_bytes = 0;

  const Location& of(const Address& a, const Faults& faults) const {
    switch (a.of) {
      case Address::Of::tensor: return arguments.at(a.number);
      case Address::Of::table: return tables.at(a.number);
      case Address::Of::scratch: return scratch;
      case Address::Of::status: return faults.status;
    }
    throw InternalError("an address of no memory");
  }
};

Places places_of(RegionEmission& e, const TensorLaunches& made) {
  Places places;
  for (const TensorArgument& a : made.arguments) places.arguments.push_back(a.at);
  for (const auto& table : made.launches.tables) places.tables.push_back(e.in.constants.table(table));
  places.scratch_bytes = made.launches.scratch_bytes;
  if (places.scratch_bytes != 0) places.scratch = e.launches.scratch(places.scratch_bytes);
  return places;
}

// The status is no reason to wait: launches add to it by atomic operations
Touched touched_by(const tensors::Launch& launch, const TensorLaunches& made, const Places& places) {
  Touched touched;
  const auto touch = [&](const Interval& memory, const Address& a) {
    if (a.read) touched.reads.push_back(memory);
    if (a.written) touched.writes.push_back(memory);
  };
  const auto scratch_bytes = static_cast<std::int64_t>(places.scratch_bytes);
  for (const Address& a : launch.addresses) {
    if (a.of == Address::Of::tensor) touch(made.arguments.at(a.number).memory, a);
    if (a.of == Address::Of::scratch) touch(interval(places.scratch, 1, scratch_bytes, scratch_bytes), a);
  }
  return touched;
}

double bytes_of(const tensors::Launch& launch, const TensorLaunches& made) {
  std::set<std::size_t> numbers;
  for (const Address& a : launch.addresses)
    if (a.of == Address::Of::tensor) numbers.insert(a.number);
  double bytes = 0;
  for (const std::size_t i : numbers) bytes += made.arguments[i].bytes;
  return bytes;
}

// A grid of any number of CTAs does all of the work
cuda::PlainGrid grid_for(const RegionEmission& e, std::int64_t threads) {
  constexpr std::int64_t of_a_cta = 256, ctas_of_an_sm = 16;
  const std::int64_t ctas = std::clamp<std::int64_t>((threads + of_a_cta - 1) / of_a_cta, 1,
                                                     ctas_of_an_sm * std::max<std::int64_t>(e.in.device.sms, 1));
  return {count32(ctas), of_a_cta};
}

void emit_launch(RegionEmission& e, const tensors::Launch& launch, const TensorLaunches& made, const Places& places,
                 const std::string& what) {
  const Faults faults = launch.reports() ? e.launches.faults_of(where(*e.op)) : Faults{};
  std::vector<Location> used;
  for (const Address& a : launch.addresses)
    if (a.of != Address::Of::status) used.push_back(places.of(a, faults));
  const auto parameters = [launch, places, faults](const Bases& bases) {
    return tensors::complete(
        launch, [&](const Address& a) { return address(places.of(a, faults), bases); }, faults.number);
  };
  auto step = std::make_unique<PlainStep>(launch.source, launch.entry, e.in.device.arch(), grid_for(e, launch.threads),
                                          launch.parameters.size(), parameters);
  step->bytes = bytes_of(launch, made);
  e.add(std::move(step), {what, launch.how}, used, touched_by(launch, made, places));
}

}  // namespace

void emit_tensor_kernels(RegionEmission& e, const TensorLaunches& made, const std::string& what) {
  const Places places = places_of(e, made);
  for (const tensors::Launch& launch : made.launches.list) emit_launch(e, launch, made, places, what);
}

}  // namespace unisono::network::gpu
