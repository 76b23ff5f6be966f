#pragma once
/// One measured plan, and rows as text: `unisono tune --export`, and the plans that travel in the library.

#include <string>
#include <string_view>
#include <vector>

#include "tuning/key.hpp"

namespace unisono::tuning {

/// Bytes of a row's field, at most; what is longer is no row.
inline constexpr std::size_t longest_text = 4096;

struct Row {
  Platform platform;
  Key key;
  std::string plan;         ///< an override: plan::to_string(plan::override_of(…))
  double measured_us = 0;   ///< one launch, operands not in L2
  double predicted_us = 0;  ///< by the cost model
  std::string when;         ///< "2026-11-21T20:40:12Z"
};

/// "NVIDIA H200/132 | 580.95.05 | 3f2a… | 8,64,64,320->320,… | norm/10 silu #… | tile=… | 61.32 us | 63.10 us |
/// 2026-…".
std::string to_line(const Row& row);

/// All rows, sorted, below a heading that names the fields.
std::string to_text(std::vector<Row> rows);

/// Empty lines and those that begin with # are skipped. Throws UserError with `where` and the line's number for a line
/// that is no row, and for one whose plan is not the text of an override.
std::vector<Row> parse_rows(std::string_view text, const std::string& where);

/// The rows of shipped/*.txt.
std::string_view shipped_text();

/// The time of day as Row::when writes it.
std::string now_text();

}  // namespace unisono::tuning
