#include "codegen/names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "plan/epilogue.hpp"

namespace unisono::codegen {

namespace {

// Words of C++, and names that compilers, and CUDA, define
constexpr std::array language{
    "alignas",     "alignof",  "and",       "and_eq",    "asm",       "auto",         "bitand",
    "bitor",       "bool",     "break",     "case",      "catch",     "char",         "char8_t",
    "char16_t",    "char32_t", "class",     "co_await",  "co_return", "co_yield",     "compl",
    "concept",     "const",    "consteval", "constexpr", "constinit", "const_cast",   "continue",
    "decltype",    "default",  "delete",    "do",        "double",    "dynamic_cast", "else",
    "enum",        "explicit", "export",    "extern",    "false",     "float",        "for",
    "friend",      "goto",     "if",        "inline",    "int",       "long",         "mutable",
    "namespace",   "new",      "noexcept",  "not",       "not_eq",    "nullptr",      "operator",
    "or",          "or_eq",    "private",   "protected", "public",    "register",     "reinterpret_cast",
    "requires",    "return",   "short",     "signed",    "sizeof",    "static",       "static_assert",
    "static_cast", "struct",   "switch",    "template",  "this",      "thread_local", "throw",
    "true",        "try",      "typedef",   "typeid",    "typename",  "typeof",       "union",
    "unsigned",    "using",    "virtual",   "void",      "volatile",  "wchar_t",      "while",
    "xor",         "xor_eq",   "linux",     "unix",      "gridDim",   "blockDim",     "blockIdx",
    "threadIdx",   "warpSize"};

// What generated code calls its own: the parameters of a visitor's functions, and more
constexpr std::array words{"load",     "as_column", "p",       "u",      "acc",     "norm",  "raw",
                           "column",   "tensor",    "late",    "image",  "channel", "group", "mean",
                           "variance", "channels",  "row",     "at",     "exists",  "value", "folded",
                           "moments",  "rows",      "columns", "result", "domain",  "level"};

// Letters, digits and single underscores; macros are written in capitals
std::string legal(std::string_view name) {
  std::string text;
  for (const char c : name)
    if (c != '_' || text.empty() || text.back() != '_') text += c;
  if (text.front() == '_') text.insert(0, "v");
  const bool shouts = std::none_of(text.begin(), text.end(), [](unsigned char c) { return std::islower(c); });
  return shouts && text.size() > 1 ? text + "_" : text;
}

}  // namespace

bool is_word(std::string_view name) { return std::ranges::find(language, name) != language.end(); }

Names::Names(const Graph& graph)
    : values_(graph.nodes.size()), stores_(graph.stores.size()), pitches_(graph.nodes.size()) {
  taken_.insert(language.begin(), language.end());
  taken_.insert(words.begin(), words.end());
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (graph[id].op == Op::operand) values_[id] = distinct(graph[id].attr.name);
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (values_[id].empty() && !graph[id].name.empty()) values_[id] = distinct(graph[id].name);
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (values_[id].empty()) values_[id] = distinct(fmt::format("v{}", id));
  for (std::size_t i = 0; i < graph.stores.size(); ++i) stores_[i] = distinct(graph.stores[i].name + "_memory");
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (graph[id].op == Op::operand && graph[id].axes == axes::bn)
      pitches_[id] = distinct(graph[id].attr.name + "_pitch");
  for (ValueId id = 0; id < graph.nodes.size(); ++id)
    if (plan::is_placed(graph[id])) steps_[id] = steps_named(graph[id].attr.name);
  for (std::size_t i = 0; i < graph.stores.size(); ++i)
    if (graph.stores[i].strided) store_steps_[i] = steps_named(graph.stores[i].name + "_memory");
}

Names::Steps Names::steps_named(const std::string& name) {
  Steps steps;
  for (const auto& [c, word] :
       {std::pair{Coordinate::b, "image"}, {Coordinate::h, "row"}, {Coordinate::w, "pixel"}, {Coordinate::n, "column"}})
    steps[static_cast<std::size_t>(c)] = distinct(fmt::format("{}_{}_step", name, word));
  steps[static_cast<std::size_t>(Coordinate::m)] = distinct(name + "_vectors");
  return steps;
}

std::string Names::distinct(std::string_view wish) {
  std::string name = legal(wish);
  const std::string stem = name;
  for (int copy = 2; taken_.contains(name); ++copy)
    name = fmt::format("{}{}{}", stem, stem.back() == '_' ? "" : "_", copy);
  taken_.insert(name);
  return name;
}

}  // namespace unisono::codegen
