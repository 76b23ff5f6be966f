#include <fmt/format.h>

#include <cstdio>
#include <set>

#include "gpu/broad_run.hpp"
#include "gpu/device.hpp"
#include "gpu/evt.hpp"
#include "gpu/options.hpp"
#include "gpu/testbed.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

namespace {

// Empty if all is well
std::string problems_of(const Case& c) try { return Testbed(c).check(); } catch (const std::exception& error) {
  return error.what();
}

}  // namespace

int run_evt(const std::function<void(const std::vector<jit::Request>&)>& compile) {
  const std::vector<Case> cases = evt_cases(options().seed);
  compile(requests_of(cases));
  std::set<std::string> graphs;
  int wrong = 0, checked = 0;
  for (const Case& c : cases) {
    if (c.describe().find(options().only) == std::string::npos) continue;
    if (options().verbose) std::printf("%s\n", c.describe().c_str()), std::fflush(stdout);
    graphs.insert(c.text);
    ++checked;
    const std::string problems = problems_of(c);
    if (problems.empty()) continue;
    ++wrong;
    std::printf("FAILED %s\n%s\n", c.describe().c_str(), problems.c_str());
  }
  std::printf("%d problems of %zu graphs by CUTLASS's visitors, %d wrong\n", checked, graphs.size(), wrong);
  const bool enough = !options().only.empty() || graphs.size() >= static_cast<std::size_t>(evt_graphs) * 9 / 10;
  return wrong == 0 && checked > 0 && enough ? 0 : 1;
}

}  // namespace unisono::gpu
