#include "tensors/caller.hpp"

#include <fmt/format.h>

#include "tensors/text.hpp"
#include "tensors/walk.hpp"

namespace unisono::tensors {

namespace {

std::string source_of_callers() {
  std::string text = "// How tensors of the caller enter and leave.\n#include <unisono/tensor/caller.cuh>\n";
  for (const std::string_view name : {"enter", "leave"}) {
    const auto add = [&](const std::string& entry, const std::string& function) {
      text += kernel_text(entry, "CallerParams", function);
    };
    for (const std::size_t bytes : {1, 2, 4, 8})
      add(fmt::format("unisono_{}_{}", name, bytes), fmt::format("{}<{}>", name, word_of(bytes)));
    for (const DType element : {DType::f32, DType::bf16, DType::f16})
      add(fmt::format("unisono_{}_{}", name, to_string(element)), fmt::format("{}_float<{}>", name, tag_of(element)));
  }
  return text;
}

plan::Expected<Launches> launches(std::string_view name, const StridedTensor& own, Address address) {
  if (element_count(own.shape) == 0) return Launches{};
  const auto space = index_space(own.shape);
  if (!space) return space.refusal();
  CallerParams p{};
  p.space = *space;
  set_strides(p.own.strides, own.strides);
  Launch launch = launch_of(caller_kernel(name, own.type), space->count, p,
                            fmt::format("elements of {}", to_string(own.type.memory)));
  add_address(launch, offsetof(CallerParams, caller), reads(0));
  add_address(launch, offsetof(CallerParams, own), std::move(address));
  return Launches{{std::move(launch)}, {}, 0};
}

}  // namespace

KernelText caller_kernel(std::string_view name, const ElementType& type) {
  static const std::string source = source_of_callers();
  if (type.value == DType::f32) return {source, fmt::format("unisono_{}_{}", name, to_string(type.memory))};
  return {source, fmt::format("unisono_{}_{}", name, size_of(type.memory))};
}

plan::Expected<Launches> enter(const StridedTensor& to) { return launches("enter", to, writes(1, start_of(to))); }

plan::Expected<Launches> leave(const StridedTensor& x) { return launches("leave", x, reads(1, start_of(x))); }

}  // namespace unisono::tensors
