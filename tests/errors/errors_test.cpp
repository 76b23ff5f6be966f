#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/says.hpp"
#include "support/sources.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono {
namespace {

struct Case {
  std::string title, text, message;
};

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/errors/text")))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  return paths;
}

// "== title", the text, "--", the message, a blank line
std::vector<Case> read(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<Case> cases;
  std::string* part = nullptr;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      cases.push_back({.title = line.substr(3), .text = {}, .message = {}});
      part = &cases.back().text;
    } else if (line == "--" && part) {
      part = &cases.back().message;
    } else if (part) {
      *part += line + "\n";
    } else {
      ADD_FAILURE() << path << " does not begin with a case";
      return {};
    }
  }
  for (Case& c : cases) c.message.erase(c.message.find_last_not_of('\n') + 1);
  return cases;
}

std::string message_of(const std::string& text) {
  const std::vector<UserFunction> functions{
      {.name = "probe", .arity = 1, .returns_value = false, .cuda_source = "x", .cpu = {}},
      {.name = "warp", .arity = 2, .returns_value = true, .cuda_source = "x", .cpu = {}}};
  try {
    parse(text, functions);
  } catch (const UserError& error) {
    return error.what();
  }
  return "(no error)";
}

class Errors : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Errors, SayWhereWhatAndWhatToDo) {
  const auto cases = read(GetParam());
  EXPECT_GE(cases.size(), 3u);
  for (const Case& c : cases) EXPECT_THAT(message_of(c.text), Says(c.message)) << "case: " << c.title;
}

INSTANTIATE_TEST_SUITE_P(Text, Errors, testing::ValuesIn(files()),
                         [](const auto& file) { return file.param.stem().string(); });

}  // namespace
}  // namespace unisono
