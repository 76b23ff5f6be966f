// The general visitor's reductions over groups of a row's channels, and those over rows that elements read again.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codegen/expression.hpp"
#include "codegen/pieces.hpp"
#include "codegen/visitor.hpp"
#include "plan/visitor_shape.hpp"

namespace unisono::codegen {

namespace {

using plan::Statistics;

// "level == 0 ? 2 : 0": the last for all others
std::string by_level(const std::vector<std::string>& of) {
  std::string text;
  for (std::size_t l = 0; l + 1 < of.size(); ++l) text += fmt::format("level == {} ? {} : ", l, of[l]);
  return text + of.back();
}

}  // namespace

// ---- Groups of a row's channels

std::string VisitorWriter::group_lists() const {
  std::vector<std::string> counts, kinds, means, widths;
  for (const plan::Stage& stage : e_.levels()) {
    std::vector<std::string> kind, mean, width;
    for (const ValueId id : stage.groups()) {
      kind.emplace_back(fold_name(g_[id].op));
      mean.emplace_back(g_[id].op == Op::mean ? "true" : "false");
      width.push_back(fmt::format("{}", e_.group_width(g_[id])));
    }
    counts.push_back(fmt::format("{}", stage.groups().size()));
    kinds.push_back(fmt::format("({})", chosen(kind, "Fold::kSum")));
    means.push_back(fmt::format("({})", chosen(mean, "false")));
    widths.push_back(fmt::format("({})", chosen(width, "1")));
  }
  const auto list = [](const char* head, const std::vector<std::string>& of) {
    return fmt::format("    static UNISONO_DEVICE constexpr {} {{ return {}; }}\n", head, by_level(of));
  };
  return list("int group_folds(int level)", counts) + list("Fold group_fold(int level, int i)", kinds) +
         list("bool group_mean(int level, int i)", means) + list("int group_width(int level, int i)", widths);
}

std::string VisitorWriter::groups() {
  if (!e_.reduces_groups()) return "    static constexpr bool kGroups = false;\n";
  std::string reads, closes;
  for (std::size_t l = 0; l < e_.levels().size(); ++l) {
    const std::vector<ValueId> of = e_.levels()[l].groups();
    for (std::size_t i = 0; i < of.size(); ++i)
      reads += fmt::format("        row.{} = line[Groups::first({}, {}) + n / {}];\n", names_.of(of[i]), l, i,
                           e_.group_width(g_[of[i]]));
  }
  Bindings bindings = row_bindings();
  bindings.image = "at.image", bindings.channel = "group";
  std::vector<std::string> widths;
  for (const plan::Output& o : e_.outputs) {
    if (o.path != plan::Output::StorePath::grouped) continue;
    const Store& store = g_.stores[o.store];
    bindings.groups = g_[store.value].axes.groups;
    Scope s = scope(bindings, true);
    s.compute(std::vector{store.value});
    const DType held = store.dtype == DType::i32 || store.dtype == DType::boolean ? store.dtype : DType::f32;
    s.line(fmt::format("store<{}>(p.{}, at.m * columns + group, {});", element_name(store.dtype),
                       names_.of_store(o.store), s.text(store.value, held)));
    closes += fmt::format("        if constexpr (i == {}) {{\n{}        }}\n", widths.size(), s.lines());
    widths.push_back(fmt::format("{}", e_.group_width(g_[store.value])));
  }
  return "    static constexpr bool kGroups = true;\n" +
         fmt::format("    static constexpr int kGroupStores = {};\n", widths.size()) + group_lists() +
         "    template <class Groups>\n" + function("void read_groups(Row& row, const float* line, int n)", reads) +
         fmt::format("    static UNISONO_DEVICE constexpr int group_store_width(int i) {{ return {}; }}\n",
                     chosen(widths, "1")) +
         "    template <int i>\n" +
         function(
             "void close_group(const Params& p, const Uniform& u, const Where& at, const Row& row, int columns, int "
             "group)",
             closes);
}

// ---- Reductions over rows that elements read again

// A column's value as it lies among the tile's
std::string VisitorWriter::column_text(std::size_t i, DType as) const {
  const std::string column = fmt::format("column[{}]", i);
  return as == DType::i32 ? fmt::format("__float_as_int({})", column) : converted(column, DType::f32, as);
}

std::string VisitorWriter::returned() {
  if (!e_.returns()) return "    static constexpr bool kReturns = false;\n";
  std::string text = "    static constexpr bool kReturns = true;\n";
  std::vector<std::string> names;
  for (std::size_t l = 0; l < e_.levels().size(); ++l) {
    names.push_back(fmt::format("Returned{}", l));
    text += fmt::format("    struct {} {{\n{}    }};\n", names.back(), indented(returned_list(l)));
  }
  return text + fmt::format("    template <int level> using Returned = typename Nth<level, {}>::Type;\n",
                            fmt::join(names, ", "));
}

// What an element adds to each reduction of the lists, one after the other
std::string VisitorWriter::shared_terms(std::initializer_list<const std::vector<ValueId>*> lists) {
  const Bindings bindings = element_bindings();
  Scope s = scope(bindings, options_.accurate);
  std::size_t at = 0;
  for (const auto* list : lists)
    for (const ValueId id : *list) {
      s.compute(g_[id].inputs);
      const std::string x = s.text(g_[id].inputs[0], DType::f32);
      s.line(fmt::format("value[{}] = {};", at++, term(g_[id].op, x)));
    }
  return s.lines();
}

std::string VisitorWriter::returned_list(std::size_t level) {
  const std::vector<Statistics> all = e_.levels()[level].over_rows();
  std::vector<ValueId> folds, moments;
  std::vector<std::string> kinds, domains, values;
  std::string conclusions;
  for (std::size_t d = 0; d < all.size(); ++d) {
    domains.push_back(fmt::format("FoldDomain{{{}, {}, {}, {}, {}, {}}}", all[d].domain.per_image, all[d].groups(),
                                  folds.size(), all[d].folds.size(), moments.size(), all[d].moments.size()));
    values.push_back(fmt::format("{}", plan::returned_values(all[d])));
    for (const ValueId id : all[d].folds) folds.push_back(id), kinds.emplace_back(fold_name(g_[id].op));
    moments.insert(moments.end(), all[d].moments.begin(), all[d].moments.end());
    conclusions += fmt::format("        if constexpr (domain == {}) {{\n{}        }}\n", d, concluded(all[d]));
  }
  const auto list = [](const char* head, const std::vector<std::string>& of, const char* none) {
    return fmt::format("    static UNISONO_DEVICE constexpr {} {{ return {}; }}\n", head, chosen(of, none));
  };
  return fmt::format("    static constexpr int kChannelFolds = {}, kMoments = {}, kDomains = {};\n", folds.size(),
                     moments.size(), all.size()) +
         list("Fold channel_fold(int i)", kinds, "Fold::kSum") +
         list("FoldDomain domain(int i)", domains, "FoldDomain{}") + list("int values(int i)", values, "0") +
         "    template <int domain>\n" +
         function("void conclude(float rows, float columns, const float* folded, const Moments* moments, float* value)",
                  conclusions) +
         function(
             "void share(float acc, const float* column, const float* tensor, const Uniform& u, const Row& row, int "
             "channel, float* value)",
             shared_terms({&folds, &moments})) +
         function(
             "void columns(const Params& p, const Uniform& u, int image, int channel, const float* value, float* "
             "column)",
             returned_columns(level));
}

// The values of a domain's result: its folds, then mean and variance of each of its moments
std::string VisitorWriter::concluded(const Statistics& d) const {
  std::string lines;
  std::size_t at = 0;
  for (std::size_t i = 0; i < d.folds.size(); ++i) {
    const Node& x = g_[d.folds[i]];
    const char* count = x.attr.domain.cols ? " / (rows * columns)" : " / rows";
    lines += fmt::format("            value[{}] = folded[{}]{};\n", at++, i, x.op == Op::mean ? count : "");
  }
  for (std::size_t i = 0; i < d.moments.size(); ++i) {
    lines += fmt::format("            value[{}] = moments[{}].mean;\n", at++, i);
    lines += fmt::format("            value[{0}] = moments[{1}].m2 / moments[{1}].count;\n", at++, i);
  }
  return lines;
}

// The columns that are known with a level's results; those known before lie among the tile's
std::string VisitorWriter::returned_columns(std::size_t level) {
  const auto& columns = e_.reads.columns;
  Bindings bindings;
  bindings.channel = "channel";
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (late_[columns[i]] && level_of_[columns[i]] <= static_cast<int>(level))
      bindings.values[columns[i]] = column_text(i, g_[columns[i]].dtype);
  std::size_t at = 0;
  for (const Statistics& d : e_.levels()[level].over_rows()) {
    for (const ValueId id : d.folds) bindings.values[id] = fmt::format("value[{}]", at++);
    for (std::size_t i = 0; i < d.moments.size(); ++i) {
      if (d.means[i] != d.moments[i]) bindings.values[d.means[i]] = fmt::format("value[{}]", at);
      bindings.values[d.moments[i]] = fmt::format("value[{}]", at + 1);
      at += 2;
    }
  }
  Scope s = scope(bindings, true);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (!late_[columns[i]] || level_of_[columns[i]] != static_cast<int>(level) + 1) continue;
    s.compute(std::vector{columns[i]});
    s.line(fmt::format("column[{}] = as_column({});", i, s.text(columns[i], g_[columns[i]].dtype)));
  }
  return s.lines();
}

}  // namespace unisono::codegen
