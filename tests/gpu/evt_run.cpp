#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/broad_run.hpp"
#include "gpu/device.hpp"
#include "gpu/evt.hpp"
#include "gpu/moments.hpp"
#include "gpu/options.hpp"
#include "gpu/testbed.hpp"
#include "reference/reference.hpp"
#include "runtime/cuda/arguments.hpp"
#include "unisono/error.hpp"

namespace unisono::gpu {

namespace {

// Empty if all is well
std::string problems_of(const Case& c) try { return Testbed(c).check(); } catch (const std::exception& error) {
  return error.what();
}

// The case's arguments, at addresses that nothing has
Arguments invented_arguments(const Case& c) {
  const Graph graph = graph_of(c);
  const Contraction contraction = c.contraction();
  std::uintptr_t next = 0;
  const auto tensor = [&](DType t, const std::vector<std::int64_t>& shape) {
    next += std::uintptr_t{1} << 36;
    return TensorView{reinterpret_cast<void*>(next), t, shape, {}};
  };
  Arguments a;
  a.a(contraction) = tensor(c.conv.dtype_x, shape_a(contraction));
  a.b(contraction) = tensor(c.conv.dtype_w, shape_b(contraction));
  for (const Node& x : graph.nodes)
    if (x.op == Op::operand && x.axes != axes::scalar)
      a.operands[x.attr.name] = tensor(x.attr.storage.value_or(DType::f32), reference::shape_of(x.axes, contraction));
  for (const Store& s : graph.stores)
    a.outputs[s.name] = tensor(s.dtype, reference::shape_of(graph[s.value].axes, contraction));
  a.scalars = c.scalars;
  return a;
}

// Whether a launch can be bound to the case's arguments and carries its numbers; needs no GPU. Empty if all is well
std::string binding_problems_of(const Case& c) try {
  const lower::Lowered k = kernel_of(c, planning_device());
  const Arguments arguments = invented_arguments(c);
  const cuda::BoundArguments bound = cuda::bind_arguments(
      cuda::signature(k.problem.contraction, k.problem.graph, k.epilogue(), k.plan(), k.kernel, true), arguments);
  for (std::size_t i = 0; i < k.kernel.fields.size(); ++i) {
    const codegen::Field& f = k.kernel.fields[i];
    if (f.kind != codegen::Field::Kind::operand_value) continue;
    const auto number = static_cast<float>(arguments.scalars.at(f.name));
    if (bound.fields.bits.at(i) != std::bit_cast<std::uint32_t>(number))
      return fmt::format("the launch does not carry {} as {}", f.name, number);
  }
  return "";
} catch (const std::exception& error) {
  return error.what();
}

struct Served {
  std::set<std::string> graphs, convolutions;  // texts
  int gradients = 0, grouped = 0;              // problems
};

std::string arch_of(const Case& c) {
  for (const char* arch : {"sm80", "sm100a", "sm120"})
    if (c.options.plan.find(std::string("arch=") + arch) != std::string::npos) return arch;
  return "sm90a";
}

void count(const Case& c, std::map<std::string, Served>& of_arch) {
  Served& served = of_arch[arch_of(c)];
  if (c.gradient) return static_cast<void>(++served.gradients);
  if (c.product && !c.product->group_rows.empty()) return static_cast<void>(++served.grouped);
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
    if (arch == "sm90a") {
      std::printf("sm90a: %d gradients of filters, %d grouped products\n", served.gradients, served.grouped);
      enough = enough && served.gradients >= 30 && served.grouped == 30;
    }
    enough = enough && served.graphs.size() >= (runs ? evt_graphs : evt_compiled_graphs) * 9 / 10 &&
             served.convolutions.size() >= (runs ? 20u : 5u);
  }
  return enough;
}

}  // namespace

int list_evt() {
  std::map<std::string, Served> of_arch;
  int wrong = 0;
  for (const Case& c : evt_cases(options().seed)) {
    count(c, of_arch);
    const std::string problems = binding_problems_of(c);
    if (problems.empty()) continue;
    ++wrong;
    std::printf("FAILED %s\n%s\n", c.describe().c_str(), problems.c_str());
  }
  return are_enough(of_arch) && wrong == 0 ? 0 : 1;
}

int run_evt(const std::function<void(const std::vector<jit::Request>&)>& compile) {
  std::vector<Case> cases = evt_cases(options().seed);
  std::erase_if(cases, [](const Case& c) { return c.describe().find(options().only) == std::string::npos; });
  compile(requests_of(cases));
  std::map<std::string, Served> of_arch;
  int wrong = 0, checked = 0;
  for (const Case& c : cases) {
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
