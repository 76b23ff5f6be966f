#pragma once
/// The arguments of a launch, each of which can be changed by its index. Needs no driver.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/interface/parameters.hpp"
#include "unisono/tensor.hpp"

namespace unisono::cuda {

using families::Address;
using families::no_slot;
using families::Site;

/// One argument, as it was checked: a tensor, or a scalar that the launch carries.
struct Slot {
  std::string name;           ///< by which the caller asks for it
  std::string what;           ///< in messages: "operand bias[n]"
  ConstTensorView view = {};  ///< a tensor with its strides; for a scalar the dtype alone
  std::size_t alignment = 0;  ///< bytes to which a tensor's address is aligned; 0: a scalar
  enum class Kind : std::uint8_t { factor, operand, output } kind = Kind::operand;  ///< factor: of the contraction
  std::size_t field = no_slot;  ///< for a scalar: which of the fields of the launch it is

  bool is_tensor() const { return alignment != 0; }
  bool is_written() const { return kind == Kind::output; }
};

/// The slot of this name. What is multiplied goes first; "operand NAME" and "output NAME" stand for the others of a
/// name. Throws UserError for a name that is none, with those that there are, or that an operand and an output have.
std::size_t find_slot(std::span<const Slot> slots, std::string_view name);

/// Throws UserError if an output shares memory with another tensor, or with `workspace` (bytes, may be empty).
/// Allocates only to throw.
void check_sharing(std::span<const Slot> slots, std::span<const std::byte> workspace = {});

/// Throws UserError unless this is a tensor's slot, and its tensor may lie there.
void check_address(std::span<const Slot> slots, std::size_t slot, const void* data);

/// Throws UserError unless this is the slot of a scalar that the launch carries.
void check_number(std::span<const Slot> slots, std::size_t slot);

/// The bits that stand for a number of this dtype: f32, i32 or bool. Throws UserError for one that it does not have.
std::uint64_t bits_of(double value, DType dtype, std::string_view what);

}  // namespace unisono::cuda
