#pragma once
/// Standard output and standard error of the command.

#include <string>
#include <string_view>
#include <vector>

namespace unisono::command {

/// Both escape what a terminal would obey (support::printable): names of a model or of a file may hold anything.

/// Writes to standard output. Throws UserError if it cannot be written (closed, disk full).
void print(std::string_view text);

/// Writes a line to standard error; what cannot be written is lost.
void warn(std::string_view text);

/// Writes what is still buffered to standard output. Throws as print.
void finish_output();

/// Columns of text, each as wide as its widest cell and two blanks apart; the first row is the heading. `right` says
/// which columns are aligned to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> heading, std::vector<bool> right = {});
  void row(std::vector<std::string> cells);
  std::string text(std::string_view indent = "") const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> right_;
};

}  // namespace unisono::command
