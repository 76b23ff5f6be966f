#include "host/cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "../fixture.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "support/files.hpp"
#include "support/random.hpp"
#include "support/sources.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::codegen {

namespace {

constexpr std::size_t random_cases = 40, drawn_texts = 80;

std::optional<HostCase> prepared(HostCase c) {
  auto epilogue =
      plan::analyse(passes::run_pipeline(c.problem.graph), extents(c.problem.contraction), {.channels = 256});
  if (!epilogue) return {};
  c.epilogue = *std::move(epilogue);
  if (c.epilogue.general()) return {};  // the emulated GPU runs those
  c.options.storage = c.problem.storage;
  for (const auto& [name, view] : c.problem.arguments.operands)
    if (view.shape.empty()) c.options.scalar_pointers.insert(name);
  if (refuse_operands(c.epilogue, c.options)) return {};
  c.kernel = generate(c.epilogue, config_of(c.epilogue), c.options);
  return c;
}

HostCase recorded(const std::filesystem::path& path) {
  const auto text = support::read_file(path);
  if (!text) throw UserError(path.string() + " cannot be read");
  HostCase c;
  c.title = path.stem().string();
  c.problem.contraction = Gemm{.batch = 3, .m = 14, .n = 64, .k = 5};
  c.problem.graph = graph_of(*text);
  test::random_arguments(c.problem, 7, {.strided = 0});
  return c;
}

// A random graph with what a kernel cannot store taken away: the last two stores [m,n] stay, as bf16 and f16
std::optional<HostCase> random(std::uint64_t seed) {
  const test::RandomOptions options{.operations = 14,
                                    .wild = 0,
                                    .strided = 0,
                                    .reductions = false,
                                    .coordinates = false,
                                    .functions = false,
                                    .effects = false,
                                    .f64 = false,
                                    .transposed_convolutions = false};
  HostCase c;
  c.title = "seed " + std::to_string(seed);
  c.problem = test::random_case(seed, options);
  if (const auto* conv = std::get_if<Conv2d>(&c.problem.contraction); conv != nullptr && conv->layout == Layout::nchw)
    return {};
  auto& stores = c.problem.graph.stores;
  std::erase_if(stores, [&](const Store& s) { return !(c.problem.graph[s.value].axes == axes::mn); });
  if (stores.empty()) return {};
  if (stores.size() > 2) stores.erase(stores.begin(), stores.end() - 2);
  for (std::size_t i = 0; i < stores.size(); ++i) stores[i].dtype = i == seed % 2 ? DType::bf16 : DType::f16;
  c.problem.arguments = {};
  c.problem.storage.clear();
  c.problem.buffers.clear();
  test::random_arguments(c.problem, seed, options);
  return c;
}

// ---- Epilogues drawn as text, around a normalisation

std::string element(test::Random& r, const std::vector<std::string>& given, int depth) {
  static const std::vector<std::string> operands{"n0[n]",   "n1[n]",   "b0[b]",   "bn0[b,n]", "bn1[b,n]", "t0[m,n]",
                                                 "t1[m,n]", "t0[m,n]", "t1[m,n]", "s0[]",     "s1",       "0.5"};
  if (depth == 0) return r.one_of(r.chance(0.5) ? given : operands);
  const std::string x = element(r, given, depth - 1), y = element(r, given, depth - 1);
  switch (r.below(12)) {
    case 0:
    case 1:
    case 2: return fmt::format("({} + {})", x, y);
    case 3: return fmt::format("({} - {})", x, y);
    case 4:
    case 5: return fmt::format("({} * {})", x, y);
    case 6: return fmt::format("silu({})", x);
    case 7: return fmt::format("sigmoid({})", x);
    case 8: return fmt::format("tanh({})", x);
    case 9: return fmt::format("max({}, {})", x, y);
    case 10: return fmt::format("select({0} < {1}, {1}, {0} * 2)", x, y);
    default: return fmt::format("cast(cast({}, bf16), f32)", x);
  }
}

std::string epilogue_text(std::uint64_t seed) {
  test::Random r(seed);
  std::string text = "operand n1[n] : bf16\noperand bn1[b,n] : f16\noperand t1[m,n] : bf16\noperand s1 = 0.75\n";
  text += "x = acc + " + element(r, {"acc"}, static_cast<int>(r.below(3))) + "\n";
  const std::string groups = std::to_string(1 << r.below(7)),
                    over = r.chance(0.5) ? "over=m, per=b" : "over=(m,n), per=b, groups=" + groups;
  const bool instance = over.size() < 14;
  std::string norm = instance ? "instance_norm(x" : "group_norm(x, groups=" + groups;
  if (r.chance(0.3)) norm = "layer_norm(x";
  if (r.chance(0.7)) norm += r.chance(0.5) ? ", scale=n0[n]" : ", scale=bn0[b,n] * n1[n]";
  if (r.chance(0.7)) norm += r.chance(0.5) ? ", shift=n1[n]" : ", shift=exp(bn1[b,n])";
  text += "y = " + norm + ")" + (r.chance(0.3) ? " * bn1[b,n]" : "") +
          (r.chance(0.3)   ? " + n0[n]"
           : r.chance(0.3) ? " - bn1[b,n]"
                           : "") +
          "\n";
  const std::vector<std::string> behind =
      r.chance(0.3) ? std::vector<std::string>{"x", "y"} : std::vector<std::string>{"y"};
  text += "store y + " + element(r, behind, 2) + " as z : " + (r.chance(0.5) ? "bf16" : "f16") + "\n";
  if (r.chance(0.4))
    text += "store " + std::string(r.chance(0.5) ? "x" : "y * " + element(r, {"y"}, 1)) + " as w : f16\n";
  if (r.chance(0.3))
    text +=
        "store rsqrt(variance(x, " + over + ") + s1) as v : f32\nstore mean(x, " + over + ") * b0[b] as mu : bf16\n";
  return text;
}

HostCase drawn(std::uint64_t seed) {
  HostCase c;
  c.title = "text " + std::to_string(seed);
  c.problem.contraction = Gemm{.batch = 2, .m = 9, .n = 64, .k = 4};
  c.problem.graph = parse(epilogue_text(seed));
  test::random_arguments(c.problem, seed, {.strided = 0, .short_storage = false});
  return c;
}

}  // namespace

std::vector<HostCase> host_cases() {
  std::vector<HostCase> cases;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/golden/codegen")))
    if (entry.path().extension() == ".epi") paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const auto& path : paths)
    if (auto c = prepared(recorded(path))) cases.push_back(std::move(*c));
  const std::size_t texts = cases.size() + drawn_texts;
  for (std::uint64_t seed = 1; cases.size() < texts; ++seed)
    if (auto c = prepared(drawn(seed))) cases.push_back(std::move(*c));
  const std::size_t all = cases.size() + random_cases;
  for (std::uint64_t seed = 1; cases.size() < all; ++seed)
    if (auto drawn = random(seed))
      if (auto c = prepared(std::move(*drawn))) cases.push_back(std::move(*c));
  return cases;
}

}  // namespace unisono::codegen
