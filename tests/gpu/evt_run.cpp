#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <set>
#include <string>

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

struct Served {
  std::set<std::string> graphs, convolutions;  // texts
};

std::string arch_of(const Case& c) {
  for (const char* arch : {"sm80", "sm100a", "sm120"})
    if (c.options.plan.find(std::string("arch=") + arch) != std::string::npos) return arch;
  return "sm90a";
}

void count(const Case& c, std::map<std::string, Served>& of_arch) {
  Served& served = of_arch[arch_of(c)];
  served.graphs.insert(c.text);
  if (!c.product) served.convolutions.insert(c.text);
}

// Prints them; whether each architecture has enough
bool are_enough(const std::map<std::string, Served>& of_arch) {
  bool enough = !of_arch.empty();
  for (const auto& [arch, served] : of_arch) {
    std::printf("%s: %zu graphs by CUTLASS's visitors, %zu of them behind convolutions\n", arch.c_str(),
                served.graphs.size(), served.convolutions.size());
    const bool runs = arch == "sm90a" || arch == "sm80";
    enough = enough && served.graphs.size() >= (runs ? evt_graphs : evt_compiled_graphs) * 9 / 10 &&
             served.convolutions.size() >= (runs ? 20u : 5u);
  }
  return enough;
}

}  // namespace

int list_evt() {
  std::map<std::string, Served> of_arch;
  for (const Case& c : evt_cases(options().seed)) count(c, of_arch);
  return are_enough(of_arch) ? 0 : 1;
}

int run_evt(const std::function<void(const std::vector<jit::Request>&)>& compile) {
  const std::vector<Case> cases = evt_cases(options().seed);
  compile(requests_of(cases));
  std::map<std::string, Served> of_arch;
  int wrong = 0, checked = 0;
  for (const Case& c : cases) {
    if (c.describe().find(options().only) == std::string::npos) continue;
    if (options().verbose) std::printf("%s\n", c.describe().c_str()), std::fflush(stdout);
    count(c, of_arch);
    ++checked;
    const std::string problems = problems_of(c);
    if (problems.empty()) continue;
    ++wrong;
    std::printf("FAILED %s\n%s\n", c.describe().c_str(), problems.c_str());
  }
  const bool enough = are_enough(of_arch);
  std::printf("%d problems, %d wrong\n", checked, wrong);
  return wrong == 0 && checked > 0 && (enough || !options().only.empty()) ? 0 : 1;
}

}  // namespace unisono::gpu
