#pragma once
/// Plans as text: what a family says of the fields of its plans, of which a caller, or a stored row, fixes some
/// (PlanOverride).

#include <cstddef>
#include <string_view>
#include <vector>

#include "unisono/plan.hpp"

namespace unisono::plan {

/// A field that the plans of a family have.
struct PlanField {
  /// A word that stood for one of today's: in rows that are stored, and of whoever has written one down.
  struct Former {
    std::string_view before, now;
  };
  /// What a value is where it is no word: 1x2, 5+3, 8. Neither: any text.
  struct Numbers {
    int largest = 0;  ///< no kernel has more, and products of them fit 32 bits by far
    std::size_t least = 1, most = 1;
    char separator = 'x';
  };

  std::string_view name;
  std::string_view form;                     ///< its values', for people: "on or off"
  std::vector<std::string_view> words = {};  ///< its values
  Numbers numbers = {};
  std::vector<Former> former = {};
};

/// The value as it is written now.
std::string_view as_now(const PlanField& field, std::string_view value);
bool is_value(const PlanField& field, std::string_view value);
/// Throws UserError with what is expected.
[[noreturn]] void refuse_value(const PlanField& field, std::string_view value);

/// Its numbers; those that a legal value leaves out are absent. Throws UserError for no value of the field.
std::vector<int> numbers_of(const PlanField& field, std::string_view value);
/// Its place among the words. Throws UserError for none of them.
std::size_t word_of(const PlanField& field, std::string_view value);

}  // namespace unisono::plan
