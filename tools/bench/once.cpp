#include "bench/once.hpp"

#include <fmt/format.h>

#include "families/interface/family.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

using Sets = std::vector<std::unique_ptr<Data>>;

void launch(const std::string& what, const Enqueue& enqueue) {
  const gpu::TestStream stream;
  enqueue(stream.get());
  gpu::wait(stream.get(), what);
  fmt::print("  {}\n", what);
}

void launch(const std::string& what, const Variants& variants, const Data& data) {
  const Built built = build(variants.list.front());
  const Launch bound = built.executable.bind(data.arguments());
  launch(fmt::format("{}: {}", what, families::describe(variants.list.front().lowered.plan())),
         [&](CUstream stream) { bound.enqueue(stream); });
}

bool launch(const std::string& what, const std::vector<Engine>& engines, int number) {
  if (static_cast<std::size_t>(number) > engines.size()) {
    fmt::print("  {}: --engine {}, but it proposes {}\n", what, number, engines.size());
    return false;
  }
  const Engine& engine = engines[static_cast<std::size_t>(number) - 1];
  launch(fmt::format("{}: {}", what, engine.name), engine.sets.front());
  return true;
}

}  // namespace

bool run_once(const Prepared& prepared, Peers& peers, const Options& options) {
  const Case& c = *prepared.c;
  fmt::print("{}\n", c.name);
  try {
    if (!prepared.error.empty()) throw UserError(prepared.error);
    const Graph bare = bare_graph(c.conv.dtype_x);
    const auto one = [&](const Contraction& contraction, const Graph& graph) {
      Sets sets;
      sets.push_back(std::make_unique<Data>(contraction, c.conv.dtype_x, graph, options.seed));
      return sets;
    };
    const Sets own = one(c.contraction(), c.graph), plain = one(c.bare_contraction(), bare);
    launch("Unisono", *prepared.variants, *own.front());
    for (const Prepared::Rival& r : prepared.rivals)
      if (r.variants) launch(r.name, *r.variants, *own.front());
    if (prepared.bare) launch("Unisono, bare", *prepared.bare, *plain.front());
    if (peers.cudnn && !c.product && !c.volume)
      return launch("cuDNN, bare", peers.cudnn->engines(c.conv, c.dgrad ? Direction::dgrad : Direction::forward, plain),
                    options.engine);
    if (peers.cublaslt && c.product)
      return launch("cuBLASLt, bare",
                    peers.cublaslt->engines(std::get<Gemm>(c.bare_contraction()), ProductEpilogue::none, plain),
                    options.engine);
    return true;
  } catch (const DeviceError&) {
    throw;  // the context may be broken
  } catch (const Error& error) {
    fmt::print("  {}\n", error.what());
    return false;
  }
}

}  // namespace unisono::bench
