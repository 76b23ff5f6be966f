#pragma once
/// A contraction, its epilogue and everything that running it needs, with random contents.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "reference/reference.hpp"
#include "runtime/cpu/vector/unit.hpp"
#include "support/random_graph.hpp"
#include "unisono/executable.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

inline RandomCase problem(const Contraction& contraction, const std::string& text, std::uint64_t seed = 1) {
  RandomCase c;
  c.contraction = contraction;
  c.graph = parse(text);
  const bool is_volume = std::holds_alternative<Conv3d>(contraction);  // gaps between planes are refused
  random_arguments(c, seed, {.special = 0, .strided = is_volume ? 0 : 0.5});
  return c;
}

/// The text with a dtype in place of each "{}".
inline std::string of_dtype(std::string text, const std::string& dtype) {
  for (std::size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) text.replace(at, 2, dtype);
  return text;
}

inline CompileOptions options_of(const RandomCase& c, int threads) {
  CompileOptions options;
  options.storage = c.storage;
  options.threads = threads;
  return options;
}

/// Bytes of all outputs, in the order of their names.
inline std::string output_bytes(const RandomCase& c) {
  std::string bytes;
  for (const Buffer& b : c.buffers)
    for (const auto& [name, view] : c.arguments.outputs)
      if (view.data == b.view.data) bytes.append(reinterpret_cast<const char*>(b.bytes.data()), b.bytes.size());
  return bytes;
}

/// Runs on poisoned outputs and compares every element with the float64 reference.
inline void expect_agreement(RandomCase& c, int threads) {
  poison_outputs(c);
  const Executable kernel = compile(c.contraction, c.graph, options_of(c, threads));
  kernel.run(c.arguments);
  const auto expected = reference::run(c.contraction, c.graph, c.arguments, {.function_ulps = cpu::function_ulps});
  ASSERT_FALSE(expected.empty());
  for (const auto& [name, values] : expected) {
    const Store& store = *std::ranges::find(c.graph.stores, name, &Store::name);
    const auto found = reference::compare(values, store, c.contraction, c.arguments.outputs.at(name));
    EXPECT_TRUE(found.ok()) << to_string(c.contraction) << ": " << name << ": " << found.outside << " of "
                            << found.elements << " outside; element " << found.worst_index << " is "
                            << found.worst_actual << " instead of " << found.worst_expected << ", " << found.worst
                            << " times its tolerance";
    EXPECT_EQ(found.unclaimed, 0) << name;
  }
}

}  // namespace unisono::test
