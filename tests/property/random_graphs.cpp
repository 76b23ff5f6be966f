// Random graphs through the passes and through a backend, each compared with the reference.
//
//   random_graphs [--count N] [--seed S] [--backend none|cpu]
//
// Checks seeds S to S + N - 1. On a failure prints the seed, the smallest set of stores that still fails, and what is
// wrong; exit code 1. One failing seed is enough to see it again: random_graphs --seed S --count 1.

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "property/check.hpp"
#include "unisono/contraction.hpp"

namespace {

using namespace unisono::test;

struct Options {
  std::uint64_t count = 2000;
  std::uint64_t seed = 1;
  bool cpu = false;
};

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_arguments(int argc, char** argv, Options& o) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view key = argv[i], value = argv[i + 1];
    bool known = true;
    if (key == "--count") {
      known = parse_number(value, o.count);
    } else if (key == "--seed") {
      known = parse_number(value, o.seed);
    } else if (key == "--backend") {
      known = value == "cpu" || value == "none";
      o.cpu = value == "cpu";
    } else {
      known = false;
    }
    if (!known) return false;
  }
  return argc % 2 == 1;
}

// Every eighth seed has infinities, NaN and other special numbers in its operands, every eighth is large
RandomOptions options_of(std::uint64_t seed, bool cpu) {
  RandomOptions o;
  if (seed % 8 == 0) o.special = cpu ? 0 : 0.05;
  if (seed % 8 == 1) o.operations = 30;
  if (seed % 8 == 2) o.idiom = 0.8;
  if (cpu) o.forms = 0.3;
  return o;
}

void report(std::uint64_t seed, const RandomCase& c, const Failure& f) {
  fmt::print(stderr, "seed {} ({}): {}\n---- before\n{}\n", seed, to_string(c.contraction), f.what, f.before);
  if (!f.after.empty()) fmt::print(stderr, "---- after\n{}\n", f.after);
}

bool check(std::uint64_t seed, bool cpu, Counts& counts) {
  for (auto* property : {&check_passes, &check_row, &check_cpu}) {
    if (property == &check_cpu && !cpu) continue;
    RandomCase c = random_case(seed, options_of(seed, property == &check_cpu));
    auto failure = property(c, counts);
    if (!failure) continue;
    report(seed, c, *shrink(c, property, *std::move(failure)));
    return false;
  }
  ++counts.graphs;
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  if (!parse_arguments(argc, argv, o)) {
    fmt::print(stderr, "usage: random_graphs [--count N] [--seed S] [--backend none|cpu]\n");
    return 2;
  }
  Counts counts;
  std::uint64_t failures = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < o.count && failures < 10; ++i) {
    if (!check(o.seed + i, o.cpu, counts)) ++failures;
    if (o.count >= 20000 && (i + 1) % 10000 == 0) fmt::print("{} graphs\n", i + 1), std::fflush(stdout);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  fmt::print(
      "{} graphs agree, {} fail ({:.1f} s): {} changes by passes; {} elements compared, {} of them bit for bit; "
      "{} elements without a claim, {} graphs overflow inside\n",
      counts.graphs, failures, elapsed.count(), counts.changed, counts.elements, counts.exact_elements,
      counts.without_claim, counts.overflowed);
  fmt::print("{} of {} rows fired by themselves\n", counts.rows.size(), row_count());
  if (o.cpu) fmt::print("CPU: worst error {:.2f} of its tolerance, {} graphs refused\n", counts.worst, counts.refused);
  return failures == 0 ? 0 : 1;
}
