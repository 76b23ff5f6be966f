#pragma once
/// What a word on the command line stands for: a file with text, or the text itself.

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "unisono/graph.hpp"

namespace unisono::command {

/// Whether that is, or names, an epilogue's text: a file without control characters counts, and so does "-".
bool is_text(const std::string& subject);

/// The text of an epilogue that `subject` is or names ("-": standard input), and where it comes from (empty: itself).
/// Throws UserError if it is neither.
std::pair<std::string, std::string> find_text(const std::string& subject);

/// The user functions of a file of CUDA C++: its `__device__` functions that take float, int and long long, behind
/// these pointers that they capture, and return float or void. All of the file stands ahead of the kernel. They run on
/// a GPU alone. Throws UserError if the file has none.
std::vector<UserFunction> read_functions(const std::filesystem::path& path);

/// The graph that such a text describes, which may call the functions in these files. Throws UserError that names
/// `source`, if there is one.
Graph parse_text(const std::string& text, const std::string& source,
                 const std::vector<std::filesystem::path>& functions = {});

}  // namespace unisono::command
