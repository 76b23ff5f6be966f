#include "tensors/map.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tensors/walk.hpp"
#include "unisono/error.hpp"

namespace unisono::tensors {

namespace {

// Elements of a thread's chunk: 16 bytes of short ones
int chunk_of(std::span<const StridedTensor> tensors) {
  const bool is_short =
      std::all_of(tensors.begin(), tensors.end(), [](const StridedTensor& t) { return size_of(t.type.memory) <= 2; });
  return is_short ? 8 : 4;
}

Walk walk_of(const MapProgram& program, std::span<const StridedTensor> tensors) {
  const StridedTensor& result = tensors[program.inputs.size()];
  Walk walk{result.shape, {}};
  for (const StridedTensor& t : tensors) walk.strides.push_back(broadcast(t, result.shape).strides);
  return collapse(walk, {.order_of = program.inputs.size()});
}

void check(const MapProgram& program, std::span<const StridedTensor> tensors) {
  if (tensors.size() != program.inputs.size() + program.outputs.size() || program.outputs.empty())
    throw InternalError("a program's tensors are not those that it is launched for");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::size_t output = i - program.inputs.size();
    if (tensors[i].type != (i < program.inputs.size() ? program.inputs[i] : program.outputs[output].type))
      throw InternalError("a program's tensor has another type than it is launched for");
  }
}

}  // namespace

plan::Expected<Launches> map(const MapProgram& program, std::span<const StridedTensor> tensors) {
  check(program, tensors);
  if (tensors.size() > most_map_tensors)
    return plan::because(fmt::format("tensors: {}; one launch has {}", tensors.size(), most_map_tensors));
  if (element_count(tensors.back().shape) == 0) return Launches{};
  Walk walk = walk_of(program, tensors);
  const int chunk = chunk_of(tensors);
  const std::int64_t length = walk.extents.back();
  walk.extents.back() = (length + chunk - 1) / chunk;
  const auto space = index_space(walk.extents);
  if (!space) return space.refusal();

  const MapText text = map_text(program, chunk);
  MapHead head{};
  head.space = *space, head.length = static_cast<u32>(length);
  Launch launch = launch_of(text.kernel, space->count, head, fmt::format("elementwise, {} a thread", chunk));
  if (text.reports) add_report(launch, offsetof(MapHead, faults));
  launch.parameters.resize(sizeof(MapHead) + tensors.size() * sizeof(MapTensor));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    MapTensor tensor{};
    set_strides(tensor.view.strides, walk.strides[i]);
    tensor.step = walk.strides[i].back(), tensor.view.strides[space->axes - 1] *= chunk;
    const std::size_t place = sizeof(MapHead) + i * sizeof(MapTensor);
    std::memcpy(launch.parameters.data() + place, &tensor, sizeof tensor);
    const std::int64_t bytes = tensors[i].offset * static_cast<std::int64_t>(size_of(tensors[i].type.memory));
    add_address(launch, place, i < program.inputs.size() ? reads(i, bytes) : writes(i, bytes));
  }
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace unisono::tensors
