#include "plan/head.hpp"

#include <fmt/format.h>

#include "ir/store_forms.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/resampling.hpp"

namespace unisono::plan {
namespace {

// What verify() lets a head have, and kernels lack
std::optional<Refusal> refuse_graph(const Epilogue& head) {
  const auto refuse = [](const std::string& what) {
    return because("head: its graph " + what + "; it may have elementwise operations, and columns as operands");
  };
  if (head.norm) return refuse("normalises");
  if (head.general) return refuse("reduces, has values of rows, or stores something else than 16 bits");
  if (head.graph.stores.size() != 1)
    return refuse(fmt::format("has {} stores, of which one is expected", head.graph.stores.size()));
  if (!main_store(head)) return refuse("has no [m,n] store");
  if (!head.tensors_after.empty())
    return refuse(fmt::format("reads '{}' with axes [m,n]", head.graph[head.tensors_after[0]].attr.name));
  return std::nullopt;
}

// The type of the main store, of which the head is to be computed
Expected<DType> source_of(const Epilogue& e, const WantedHead& wanted) {
  const auto main = main_store(e);
  if (!main) return because("head: no result [m,n] of 16 bits is written by TMA, of which to compute it");
  const Store& store = e.graph.stores[*main];
  if (!wanted.source.empty() && wanted.source != store.name)
    return because(fmt::format("head: the kernel writes '{}' last, and '{}' is a head of another store", store.name,
                               wanted.head.graph.stores[0].name));
  if (e.wide_main())
    return because(
        fmt::format("head: '{}', of which to compute it, has 32 bits an element where an image's tiles do not "
                    "fit in flight. Store it as bf16 or f16",
                    store.name));
  if (e.resampled.any()) return because("head: the store is pooled or upsampled too; one of them by one kernel");
  return store.dtype;
}

}  // namespace

HeadConfig head_of(const Epilogue& e) {
  if (!e.head) return {};
  return {.eights = static_cast<int>((e.head->channels + 7) / 8), .only = e.head->only};
}

std::optional<Refusal> add_head(Epilogue& e, const WantedHead& wanted, const Contraction& contraction) {
  if (!wanted.any()) return std::nullopt;
  const auto source = source_of(e, wanted);
  if (!source) return source.refusal();
  if (const auto* g = std::get_if<Gemm>(&contraction); g != nullptr && g->batch != 1)
    return because(fmt::format("head: {} products in one; a head has one filter for all rows", g->batch));
  const Head& h = wanted.head;
  PlannedHead head{.channels = h.channels,
                   .filter = h.filter,
                   .only = wanted.only,
                   .contraction = ir::head_contraction(contraction, h.channels, *source),
                   .epilogue = {}};
  auto epilogue = analyse(passes::run_pipeline(h.graph), extents(head.contraction), {.channels = h.channels});
  if (!epilogue) return std::move(epilogue).refusal();
  if (auto refusal = refuse_graph(*epilogue)) return refusal;
  head.epilogue = *std::move(epilogue);
  if (e.norm && e.norm->batch && extents(contraction).images > 1 && head.epilogue.per_image())
    return because(
        "head: it reads values [b,n] of each image, for which tiles are an image's, and statistics over all images ask "
        "for tiles of rows of any. Compute it in a kernel of its own, or take statistics for each image (per=b)");
  e.head = std::make_shared<const PlannedHead>(std::move(head));
  return std::nullopt;
}

std::string to_string(const HeadConfig& head) {
  return !head.any() ? "" : fmt::format("head {}{}", 8 * head.eights, head.only ? " alone" : "");
}

}  // namespace unisono::plan
