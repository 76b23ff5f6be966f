#include "command/subject.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "ir/names.hpp"
#include "ir/store_forms.hpp"
#include "media/file.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::command {
namespace {

constexpr std::int64_t text_bytes = 1 << 20;  // as parse() takes

std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

/// No name of a file has an equals sign or a blank in it, one hopes, or ends as a call does; an epilogue has one of
/// these.
bool looks_like_text(const std::string& subject) {
  const bool call = subject.find('(') != std::string::npos && subject.ends_with(')');
  return call || subject.find_first_of("= \n;") != std::string::npos;
}

/// Comments become a blank each.
std::string without_comments(const std::string& text) {
  std::string code;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view two = std::string_view(text).substr(i, 2);
    const std::string_view until = two == "//" ? "\n" : two == "/*" ? "*/" : "";
    if (until.empty()) {
      code += text[i];
      continue;
    }
    code += ' ';
    const std::size_t end = text.find(until, i + 2);
    if (end == text.npos) break;
    i = end + until.size() - 1;
  }
  return code;
}

/// Identifiers.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool part = std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    if (part)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

/// "float x, long long row, const float* table": inputs, then memory that the function captures.
bool read_parameters(const std::string& parameters, UserFunction& f) {
  if (words_of(parameters).empty()) return true;
  for (std::size_t begin = 0; begin <= parameters.size();) {
    const std::size_t end = std::min(parameters.find(',', begin), parameters.size());
    const std::string one = parameters.substr(begin, end - begin);
    std::vector<std::string> words = words_of(one);
    begin = end + 1;
    if (one.find_first_of("&[=") != one.npos || words.empty()) return false;
    if (const auto star = one.find('*'); star != one.npos) {
      const std::string type = one.substr(one.find_first_not_of(" \n\t"), star + 1 - one.find_first_not_of(" \n\t"));
      if (words_of(one.substr(star)).size() != 1) return false;
      f.pointers.push_back({words.back(), type});
      continue;
    }
    if (!f.pointers.empty()) return false;  // what is captured stands last
    std::erase(words, "const");
    const std::string type = fmt::format("{}", fmt::join(words.begin(), words.end() - 1, " "));
    const bool wide = type == "long long", whole = type == "int";
    if (!wide && !whole && type != "float") return false;
    f.parameters.push_back(wide ? ParameterType::int64 : whole ? ParameterType::int32 : ParameterType::float32);
    ++f.arity;
  }
  if (std::ranges::all_of(f.parameters, [](ParameterType t) { return t == ParameterType::float32; })) f.parameters = {};
  return true;
}

}  // namespace

bool is_text(const std::string& subject) {
  if (subject == "-") return true;
  std::error_code ignored;
  if (!std::filesystem::exists(subject, ignored)) return looks_like_text(subject);
  try {
    const auto bytes = media::read_file(subject, {.bytes = text_bytes});
    const auto is_character = [](std::uint8_t c) { return c >= 0x20 || c == '\n' || c == '\r' || c == '\t'; };
    return !bytes.empty() && std::all_of(bytes.begin(), bytes.end(), is_character);
  } catch (const UserError&) {
    return false;  // too large, or no regular file
  }
}

std::pair<std::string, std::string> find_text(const std::string& subject) {
  if (subject == "-") return {text_of(media::read_standard_input({.bytes = text_bytes})), "standard input"};
  std::error_code ignored;
  if (std::filesystem::exists(subject, ignored))
    return {text_of(media::read_file(subject, {.bytes = text_bytes})), subject};
  if (looks_like_text(subject)) return {subject, ""};
  throw UserError(
      fmt::format("'{}' is neither a file nor an epilogue such as 'y = silu(acc + bias[n]); store y : bf16'", subject));
}

std::vector<UserFunction> read_functions(const std::filesystem::path& path) {
  const std::string source = text_of(media::read_file(path, {.bytes = text_bytes}));
  const std::string code = without_comments(source);
  std::vector<UserFunction> functions;
  std::string found = "the file defines no __device__ function that returns float or void";
  for (std::size_t at = code.find("__device__"); at != code.npos; at = code.find("__device__", at + 1)) {
    const std::size_t open = code.find('(', at), close = code.find(')', at), brace = code.find_first_of("{;", at);
    if (open == code.npos || close == code.npos || brace == code.npos || open > brace || code[brace] == ';') continue;
    const std::vector<std::string> words = words_of(code.substr(at, open - at));
    if (words.size() < 3 || (words[words.size() - 2] != "float" && words[words.size() - 2] != "void")) continue;
    UserFunction f;
    f.arity = 0;
    if (!read_parameters(code.substr(open + 1, close - open - 1), f)) {
      found = fmt::format("the parameters of {} are not all float, int or long long, and pointers after these",
                          words.back());
      continue;
    }
    f.name = words.back();
    f.returns_value = words[words.size() - 2] == "float";
    f.cuda_source = source;
    if (ir::is_reserved(f.name) || ir::is_store_form(f.name)) {  // a helper that the text cannot call
      found = fmt::format("{} is a word of the text form", f.name);
      continue;
    }
    std::erase_if(functions, [&](const UserFunction& other) { return other.name == f.name; });  // overloads: the last
    functions.push_back(std::move(f));
  }
  if (functions.empty())
    throw UserError(
        fmt::format("--function {}: {}; expected CUDA C++ that defines a function of numbers, such as "
                    "__device__ float gain(float x, float y) {{ return x * y; }}",
                    path.string(), found));
  return functions;
}

Graph parse_text(const std::string& text, const std::string& source,
                 const std::vector<std::filesystem::path>& functions) {
  std::vector<UserFunction> all;
  for (const auto& path : functions)
    for (UserFunction& f : read_functions(path)) all.push_back(std::move(f));
  try {
    return parse(text, all);
  } catch (const UserError& error) {
    if (source.empty()) throw;
    throw UserError(fmt::format("{}: {}", source, error.what()));
  }
}

}  // namespace unisono::command
