#include "bench/listing.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "bench/report.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

using nlohmann::json;

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
    throw UserError(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
}

std::vector<Suite> read_suites(const Options& options) {
  std::vector<Suite> suites;
  for (const auto& file : options.cases) suites.push_back(read_suite(file));
  for (Suite& s : suites)
    if (!options.only.empty()) keep_only(s, options.only);
  return suites;
}

int list(const std::vector<Suite>& suites) {
  json all = json::array();
  for (const Suite& s : suites) {
    json cases = json::array();
    for (const Case& c : s.cases) cases.push_back(to_json(c));
    all.push_back({{"suite", s.name}, {"cases", cases}});
  }
  print(all.dump(1) + "\n");
  return 0;
}

}  // namespace unisono::bench
