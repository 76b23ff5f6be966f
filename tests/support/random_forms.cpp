#include <algorithm>
#include <array>
#include <string>

#include "ir/store_forms.hpp"
#include "support/random.hpp"
#include "support/random_graph.hpp"
#include "unisono/text.hpp"

namespace unisono::test {

namespace {

// {T}: the result's dtype
constexpr std::array heads{"store acc as heat : {T}", "store relu(acc + hbias[n]) as heat : {T}",
                           "t = acc * hscale[] + htime[b,n]\nstore t * sigmoid(t) as heat : {T}",
                           "store select(acc > hbias[n], acc, hnone[b]) as heat : {T}"};

Graph head_graph(Random& r, bool f16) {
  std::string text = heads[static_cast<std::size_t>(r.below(static_cast<int>(heads.size())))];
  const char* type = r.chance(0.5) ? "f32" : f16 && r.chance(0.5) ? "f16" : "bf16";
  text.replace(text.find("{T}"), 3, type);
  return parse(text);
}

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
  const bool head = (product == nullptr || product->batch == 1) && of.dtype != DType::f64 && r.chance(0.6);
  if (head && !pooled && r.chance(0.3)) g.stores[at].form = StoreForm::scratch;
  if (upsampled && !head && !pooled && r.chance(0.4))
    g.stores.erase(g.stores.begin() + static_cast<std::ptrdiff_t>(at));
  if (pooled) g.stores.push_back({of.value, of.dtype, "pooled", StoreForm::max_pool_2x2});
  if (upsampled) g.stores.push_back({of.value, of.dtype, "upsampled", StoreForm::upsample_2x2});
  if (head) {
    const auto what = std::make_shared<const Head>(
        Head{.channels = r.between(1, 9), .filter = "hfilter", .graph = head_graph(r, options.f16)});
    g.stores.push_back({of.value, what->graph.stores[0].dtype, "heat", StoreForm::head, what});
  }
  verify(g);
}

}  // namespace unisono::test
