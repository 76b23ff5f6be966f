#pragma once
/// A kernel's parameter as a family fills it, apart into what is the same in every launch and what depends on the
/// caller's memory.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "families/interface/parameters.hpp"
#include "lower/lower.hpp"

namespace unisono::emit {

/// What the caller gives: a tensor's address, or a number.
struct Argument {
  std::string name;  ///< the member of NAME_arguments
  std::string what;  ///< "operand bias[n]"
  DType dtype{};
  std::vector<std::int64_t> shape = {};
  std::size_t alignment = 0;  ///< what the address is a multiple of; 0: a number
  bool is_factor = false, is_written = false;
  bool is_captured = false;  ///< by a user function: of any type and size
  bool is_optional = false;  ///< null: the operand's default
  std::string bound = {};    ///< the name of the factor, operand or output

  bool is_tensor() const { return alignment != 0; }
};

struct Filled {
  struct Word {
    std::size_t at = 0;  ///< bytes
    std::uint64_t bits = 0;
  };
  struct Place {
    std::size_t argument = 0, at = 0;
    std::uint64_t ahead = 0;  ///< bytes from the argument's address to the one that stands there
  };
  struct Map {
    Place place;
    families::MapShape shape;
    DType element{};
  };

  std::size_t bytes = 0;  ///< the parameter's size
  std::vector<Argument>
      arguments;                 ///< tensors, then numbers, in the order of the members; "workspace" is not among them
  std::vector<Word> words;       ///< the same in every launch; the others are 0
  std::vector<Place> addresses;  ///< tensors'; argument tensors(): the workspace's
  std::vector<Place> numbers;
  std::vector<Map> maps;

  std::size_t tensors() const;  ///< how many arguments are
};

/// By binding made-up memory, and filling as the runtime does. Dense tensors.
Filled filled(const lower::Lowered& lowered);

}  // namespace unisono::emit
