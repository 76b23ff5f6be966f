#include "command/output.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "figure/font.hpp"
#include "support/printable.hpp"
#include "unisono/error.hpp"

namespace unisono::command {
namespace {

[[noreturn]] void refuse() {
  throw UserError(fmt::format("cannot write to standard output: {}", std::generic_category().message(errno)));
}

/// In characters: labels may hold more than ASCII.
std::size_t length(std::string_view text) {
  std::size_t count = 0;
  for (; !text.empty(); ++count) figure::next_character(text);
  return count;
}

}  // namespace

void print(std::string_view given) {
  const std::string text = support::printable(given);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) refuse();
}

void warn(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  const std::string line = support::printable(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void finish_output() {
  if (std::fflush(stdout) != 0) refuse();
}

Table::Table(std::vector<std::string> heading, std::vector<bool> right) : right_(std::move(right)) {
  right_.resize(heading.size(), false);
  rows_.push_back(std::move(heading));
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::string_view indent) const {
  std::vector<std::size_t> width(rows_[0].size(), 0);
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], length(row[c]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line(indent);
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string blanks(width[c] - length(row[c]), ' ');
      line += (right_[c] ? blanks + row[c] : row[c] + blanks) + "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace unisono::command
