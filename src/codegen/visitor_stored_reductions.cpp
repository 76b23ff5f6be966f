// The general visitor's reductions that are stored, and what follows from them.
#include <fmt/format.h>

#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::codegen {

namespace {

using plan::Statistics;

std::string constants(const std::string& type, const std::string& head, const std::vector<std::string>& of,
                      std::string_view none) {
  return fmt::format("    static UNISONO_DEVICE constexpr {} {} {{ return {}; }}\n", type, head, chosen(of, none));
}

}  // namespace

std::string VisitorWriter::domains() {
  const plan::FoldCounts counts = plan::fold_counts(e_);
  std::string text = fmt::format("    static constexpr int kChannelFolds = {}, kMoments = {}, kTileFolds = {};\n",
                                 counts.channel, counts.moments, counts.tile);
  for (const auto& [list, name] : {std::pair{FoldList::channel, "channel_fold"}, {FoldList::tile, "tile_fold"}}) {
    std::vector<std::string> kinds;
    for (const ValueId id : folds(list)) kinds.emplace_back(fold_name(g_[id].op));
    text += constants("Fold", fmt::format("{}(int i)", name), kinds, "Fold::kSum");
  }
  std::vector<std::string> descriptions;
  std::string finishes;
  std::size_t tile = 0, channel = 0, moment = 0;
  const std::vector<Statistics> all = e_.folds();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Statistics& d = all[i];
    std::size_t& first = d.groups() == 1 ? tile : channel;
    descriptions.push_back(fmt::format("FoldDomain{{{}, {}, {}, {}, {}, {}}}", d.domain.per_image, d.groups(), first,
                                       d.folds.size(), moment, d.moments.size()));
    first += d.folds.size(), moment += d.moments.size();
    finishes += branch("domain", i, finish(d));
  }
  return text + fmt::format("    static constexpr int kDomains = {};\n", all.size()) +
         constants("FoldDomain", "domain(int i)", descriptions, "FoldDomain{}") + "    template <int domain>\n" +
         function(
             "void finish(const Params& p, const Uniform& u, int image, int group, float rows, float columns, "
             "const float* folded, const Moments* moments)",
             finishes);
}

// The lines for what an element adds to those of values behind statistics, or ahead of them
void VisitorWriter::add_fold_terms(Scope& s, bool of_behind) {
  const std::vector<bool> behind = plan::behind_statistics(e_);
  std::size_t at = 0;
  for (const FoldList list : {FoldList::channel, FoldList::moments, FoldList::tile})
    for (const ValueId id : folds(list)) {
      const ValueId in = g_[id].inputs[0];
      if (behind[in] == of_behind) {
        s.compute(std::vector{in});
        s.line(fmt::format("value[{}] = {};", at, term(g_[id].op, s.text(in, DType::f32))));
      }
      ++at;
    }
}

// Where tiles wait: which of these are of values ahead of the statistics, what an element adds to them there, and, of
// those behind them, the lines of the results
std::string VisitorWriter::folds_of_passes(Scope& behind) {
  const std::vector<bool> is_behind = plan::behind_statistics(e_);
  std::vector<std::string> sides;
  for (const FoldList list : {FoldList::channel, FoldList::moments, FoldList::tile})
    for (const ValueId id : folds(list)) sides.emplace_back(is_behind[g_[id].inputs[0]] ? "false" : "true");
  add_fold_terms(behind, true);
  std::string ahead;
  if (!e_.exchanging()) {
    const Bindings bindings = elements_before();
    Scope s = scope(bindings, options_.accurate);
    add_fold_terms(s, false);
    ahead =
        function("void fold_ahead(float acc, const float* column, const float* tensor, const Uniform& u, float* value)",
                 s.lines());
  }
  return fmt::format("    static constexpr int kFoldValues = {};\n", sides.size()) +
         constants("bool", "ahead(int i)", sides, "false") + ahead + domains();
}

// Stores what follows from a domain's reductions
std::string VisitorWriter::finish(const Statistics& d) {
  Bindings bindings;
  bindings.channel = "group", bindings.groups = d.groups();
  for (std::size_t i = 0; i < d.folds.size(); ++i) {
    const Node& x = g_[d.folds[i]];
    const char* count = x.attr.domain.cols ? " / (rows * columns)" : " / rows";
    bindings.values[d.folds[i]] = fmt::format("folded[{}]{}", i, x.op == Op::mean ? count : "");
  }
  for (std::size_t i = 0; i < d.moments.size(); ++i)
    bindings.values[d.moments[i]] = fmt::format("moments[{0}].m2 / moments[{0}].count", i);
  const std::string groups = d.groups() == 0 ? "p.channels" : fmt::format("{}", d.groups());
  const std::string at = d.groups() == 1      ? (d.domain.per_image ? "image" : "0")
                         : d.domain.per_image ? fmt::format("image * {} + group", groups)
                                              : "group";
  Scope s = scope(bindings, true);
  for (const std::size_t i : d.stores) {
    const Store& store = g_.stores[i];
    const DType held = store.dtype == DType::i32 || store.dtype == DType::boolean ? store.dtype : DType::f32;
    s.compute(std::vector{store.value});
    s.line(fmt::format("store<{}>(p.{}, {}, {});", element_name(store.dtype), names_.of_store(i), at,
                       s.text(store.value, held)));
  }
  return s.lines();
}

}  // namespace unisono::codegen
