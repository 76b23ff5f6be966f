#include "plan/head.hpp"

#include <fmt/format.h>

#include "ir/store_forms.hpp"
#include "passes/passes.hpp"
#include "plan/analyse.hpp"
#include "plan/resampling.hpp"
#include "unisono/error.hpp"

namespace unisono::plan {
namespace {

// What verify() lets a head have, and kernels lack
void check_graph(const Epilogue& head) {
  const auto refuse = [](const std::string& what) {
    throw Unsupported("head: its graph " + what + "; it may have elementwise operations, and columns as operands");
  };
  if (head.norm) refuse("normalises");
  if (head.general) refuse("reduces, has values of rows, or stores something else than 16 bits");
  if (head.graph.stores.size() != 1)
    refuse(fmt::format("has {} stores, of which one is expected", head.graph.stores.size()));
  if (!main_store(head)) refuse("has no [m,n] store");
  if (!head.tensors_after.empty())
    refuse(fmt::format("reads '{}' with axes [m,n]", head.graph[head.tensors_after[0]].attr.name));
}

// The main store, of which the head is to be computed
const Store& source_of(const Epilogue& e, const WantedHead& wanted) {
  const auto main = main_store(e);
  if (!main) throw Unsupported("head: no result [m,n] of 16 bits is written by TMA, of which to compute it");
  const Store& store = e.graph.stores[*main];
  if (!wanted.source.empty() && wanted.source != store.name)
    throw Unsupported(fmt::format("head: the kernel writes '{}' last, and '{}' is a head of another store", store.name,
                                  wanted.head.graph.stores[0].name));
  if (e.resampled.any()) throw Unsupported("head: the store is pooled or upsampled too; one of them by one kernel");
  return store;
}

}  // namespace

HeadConfig head_of(const Epilogue& e) {
  if (!e.head) return {};
  return {.eights = static_cast<int>((e.head->channels + 7) / 8), .only = e.head->only};
}

void add_head(Epilogue& e, const WantedHead& wanted, const Contraction& contraction) {
  if (!wanted.any()) return;
  const Head& h = wanted.head;
  PlannedHead head{.channels = h.channels,
                   .filter = h.filter,
                   .only = wanted.only,
                   .contraction = ir::head_contraction(contraction, h.channels, source_of(e, wanted).dtype),
                   .epilogue = {}};
  head.epilogue = analyse(passes::run_pipeline(h.graph), extents(head.contraction), {.channels = h.channels});
  check_graph(head.epilogue);
  e.head = std::make_shared<const PlannedHead>(std::move(head));
}

std::string to_string(const HeadConfig& head) {
  return !head.any() ? "" : fmt::format("head {}{}", 8 * head.eights, head.only ? " alone" : "");
}

}  // namespace unisono::plan
