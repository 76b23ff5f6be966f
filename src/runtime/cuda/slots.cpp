#include "runtime/cuda/slots.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <functional>

#include "ir/suggest.hpp"
#include "runtime/common/views.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

[[noreturn]] void refuse_name(std::span<const Slot> slots, std::string_view name) {
  std::vector<std::string_view> names;
  for (const Slot& s : slots) names.push_back(s.name);
  throw UserError(fmt::format("the launch has no argument '{}'; its arguments are {}{}", name, fmt::join(names, ", "),
                              ir::did_you_mean(ir::nearest(name, names))));
}

const Slot& at(std::span<const Slot> slots, std::size_t slot) {
  if (slot < slots.size()) return slots[slot];
  throw UserError(fmt::format("slot {} was given; the launch has slots 0 to {}, expected one that slot() returned",
                              slot, static_cast<std::ptrdiff_t>(slots.size()) - 1));
}

// "operand bias" or "output y"
bool is_qualified(const Slot& s, std::string_view name) {
  const std::string_view kind = s.is_written() ? "output " : "operand ";
  return s.kind != Slot::Kind::factor && name.starts_with(kind) && name.substr(kind.size()) == s.name;
}

void check_pair(const Slot& written, const Slot& other) {
  if (!runtime::may_overlap(other.view, other.view.strides, written.view, written.view.strides)) return;
  if (other.is_written())
    throw UserError(fmt::format("{} and {} share memory; give each its own", written.what, other.what));
  throw UserError(fmt::format(
      "{} shares memory with {}, which other CTAs may still read when it is written; give it separate memory",
      written.what, other.what));
}

void check_beside(const Slot& s, std::span<const std::byte> workspace) {
  const runtime::ByteRange range = runtime::byte_range(s.view, s.view.strides);
  const std::less<const std::byte*> before;
  if (before(range.first, workspace.data() + workspace.size()) && before(workspace.data(), range.last))
    throw UserError(fmt::format("{} shares memory with the workspace; give each its own", s.what));
}

}  // namespace

std::size_t find_slot(std::span<const Slot> slots, std::string_view name) {
  std::size_t found = no_slot;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Slot& s = slots[i];
    if (s.name != name && !is_qualified(s, name)) continue;
    if (s.kind == Slot::Kind::factor) return i;
    if (found != no_slot)
      throw UserError(fmt::format("'{0}' is the name of {1} and of {2}; ask for 'operand {0}' or 'output {0}'", name,
                                  slots[found].what, s.what));
    found = i;
  }
  if (found == no_slot) refuse_name(slots, name);
  return found;
}

void check_sharing(std::span<const Slot> slots, std::span<const std::byte> workspace) {
  for (const Slot& s : slots) {
    if (!s.is_tensor()) continue;
    if (!workspace.empty()) check_beside(s, workspace);
    if (!s.is_written()) continue;
    for (const Slot& other : slots)
      if (&other != &s && other.is_tensor()) check_pair(s, other);
  }
}

void check_address(std::span<const Slot> slots, std::size_t slot, const void* data) {
  const Slot& s = at(slots, slot);
  if (!s.is_tensor())
    throw UserError(fmt::format("{} was given an address; expected a number, which the launch carries", s.what));
  if (data == nullptr) throw UserError(fmt::format("{} was given a null pointer", s.what));
  if (const auto address = reinterpret_cast<std::uintptr_t>(data); address % s.alignment != 0)
    throw UserError(
        fmt::format("{} was given the address {:#x}; expected a multiple of {} bytes", s.what, address, s.alignment));
}

void check_number(std::span<const Slot> slots, std::size_t slot) {
  const Slot& s = at(slots, slot);
  if (s.is_tensor()) throw UserError(fmt::format("{} was given a number; expected the address of a tensor", s.what));
}

std::uint64_t bits_of(double value, DType dtype, std::string_view what) {
  if (dtype == DType::boolean) return value != 0 ? 1 : 0;
  if (dtype != DType::i32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (!(value == std::trunc(value) && value >= -0x1p31 && value < 0x1p31))
    throw UserError(
        fmt::format("{} has dtype i32 and was given the number {}; expected an integer of 32 bits", what, value));
  return static_cast<std::uint32_t>(static_cast<std::int32_t>(value));
}

}  // namespace unisono::cuda
