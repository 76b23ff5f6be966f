#include <algorithm>
#include <array>
#include <string>

#include "support/random.hpp"
#include "support/random_graph.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

namespace {

// Stores of a value [m,n] that nothing else stores, in a floating-point dtype
std::vector<std::size_t> sources(const Graph& g) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < g.stores.size(); ++i) {
    const Store& s = g.stores[i];
    const auto same = [&](const Store& x) { return x.value == s.value; };
    if (g[s.value].axes == axes::mn && is_float(s.dtype) && std::ranges::count_if(g.stores, same) == 1)
      found.push_back(i);
  }
  return found;
}

}  // namespace

void add_random_forms(Graph& g, const Contraction& contraction, std::uint64_t seed, const RandomOptions& options) {
  Random r(seed ^ 0x666f726du);
  const auto candidates = sources(g);
  if (!r.chance(options.forms) || candidates.empty()) return;
  const std::size_t at = r.one_of(candidates);
  const Store of = g.stores[at];
  const auto* product = std::get_if<Gemm>(&contraction);
  const Extents e = extents(contraction);
  const bool pooled = product == nullptr && e.height > 1 && e.width > 1 && r.chance(0.5);
  const bool upsampled = product == nullptr && r.chance(0.4);
  if (upsampled && !pooled && r.chance(0.4)) g.stores.erase(g.stores.begin() + static_cast<std::ptrdiff_t>(at));
  if (pooled) g.stores.push_back({of.value, of.dtype, "pooled", StoreForm::max_pool_2x2});
  if (upsampled) g.stores.push_back({of.value, of.dtype, "upsampled", StoreForm::upsample_2x2});
  verify(g);
}

}  // namespace unisono::test
