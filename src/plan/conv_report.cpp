#include "plan/conv_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "plan/conv_override.hpp"
#include "plan/conv_problem.hpp"
#include "plan/fetching.hpp"

namespace unisono::plan {
namespace {

/// "resident: an image has # tiles, # fit in flight": reasons of one kind.
std::string kind_of(const std::string& reason) {
  std::string kind;
  for (const char c : reason)
    if (c < '0' || c > '9')
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  return kind;
}

/// How far a refusal is from legal: what a reason counts over what there is, its first number over its last.
double excess(const std::string& reason) {
  double first = 0, last = 0;
  constexpr const char* digits = "0123456789";
  for (std::size_t at = reason.find_first_of(digits); at != std::string::npos;) {
    const std::size_t end = std::min(reason.find_first_not_of(digits, at), reason.size());
    std::from_chars(reason.data() + at, reason.data() + end, last);
    if (first == 0) first = last;
    at = reason.find_first_of(digits, end);
  }
  return first / std::max(1.0, last);
}

struct Group {
  std::string kind;
  const Candidate* example = nullptr;
  int count = 0;
};

std::vector<Group> group(const std::vector<Candidate>& all) {
  std::map<std::string, Group> kinds;
  for (const Candidate& c : all) {
    if (c.refusal.empty()) continue;
    Group& g = kinds[kind_of(c.refusal)];
    if (g.count++ == 0 || excess(c.refusal) < excess(g.example->refusal)) g.example = &c;
  }
  std::vector<Group> list;
  for (auto& [kind, g] : kinds) g.kind = kind, list.push_back(g);
  std::ranges::stable_sort(list, std::greater(), &Group::count);
  return list;
}

std::string kilobytes(std::size_t bytes) { return fmt::format("{} KB", (bytes + 512) / 1024); }

std::string loads_by_hand(const ConvTask& task, const Gathering& g) {
  const std::string reason = why_gathered(task);
  if (g.direct)
    return fmt::format("every element from memory, without matrix instructions: {} of {} output channels",
                       why_gathered(task), task.conv.k / task.conv.groups);
  // Why few channels that are gathered, since they are no multiple of 8, do not use im2col in shared memory
  const Conv2d& c = task.conv;
  const bool few = c.c <= 32 && c.c % 8 != 0 && c.groups == 1 && c.r * c.s > 1 && !task.transposed;
  const std::string beyond = few ? beyond_unfolding(task) : "";
  return fmt::format("ordinary loads of {}{}{}{}", g.vectors ? "8 channels at once" : "single elements",
                     g.filters ? ", of the filters too" : "", reason.empty() ? "" : ": " + reason,
                     beyond.empty() ? "" : "; not unfolded: " + beyond);
}

std::string windows_unfolded(const Unfolding& u, const ConvConfig& c) {
  return fmt::format(
      "windows of {} lines of {} bytes, unfolded in shared memory: {} lines of {} taps x {} channels, {} k-steps; "
      "filters stay there",
      u.window_lines(c.tile_m), u.pitch, u.lines, u.taps, u.channels, u.steps(c.tile_k));
}

std::string loads_of_strips(const ConvTask& task, const ConvConfig& c) {
  const DepthwiseStrip& s = *c.depthwise;
  const auto bytes = static_cast<std::int64_t>(size_of(task.conv.dtype_x)) * s.channels / s.multiplier;
  return fmt::format("{} channels at once, {} bytes, {}, without matrix instructions: {}", s.channels / s.multiplier,
                     bytes, s.taps_h > 0 ? "each line of a thread's strip once" : "each tap by itself",
                     why_gathered(task));
}

std::string reason_of_general(const ConvPlan& p, const Epilogue& epilogue) {
  const General& general = *epilogue.general;
  std::size_t reductions = 0, stored = 0, returned = 0;
  for (const auto* lists : {&general.levels, &general.group_levels})
    for (const auto& level : *lists) reductions += level.size();
  for (const auto& level : general.returned)
    for (const General::Domain& d : level) returned += d.folds.size() + d.moments.size();
  for (const General::Domain& d : general.domains) stored += d.folds.size() + d.moments.size();
  std::string text = "general: rows have values of their own, elements know where they are";
  if (reductions > 0)
    text += fmt::format("; {} reductions over a row's channels in {} passes over a tile{}", reductions,
                        general.levels.size(),
                        p.config.wide && p.config.meets
                            ? fmt::format(", exchanged by the {} tiles of a row", p.tiles_n * p.config.cluster_n)
                        : p.config.wide ? ", joined by the last tile of the row"
                                        : "");
  if (returned > 0)
    text += fmt::format("; {} reductions over rows that elements read again, shared by the {} tiles of {}", returned,
                        p.tiles_m * p.tiles_n, p.images > 1 ? "an image" : "all images");
  if (stored > 0)
    text += fmt::format("; {} reductions over rows, joined by the last tile of a column, in order", stored);
  return text;
}

std::string reason_of_mode(const ConvPlan& p, const Epilogue& epilogue) {
  const int image = p.tiles_m * p.tiles_n;
  switch (p.config.mode) {
    case NormMode::none: return "none: no normalisation, tiles are stored as they are finished";
    case NormMode::resident:
      return fmt::format(
          "resident: {} together in flight, accumulators wait in registers for the image's statistics; stored once",
          image * p.splits == 1 ? "the one tile of an image is"
          : p.splits == 1       ? fmt::format("all {} tiles of an image are", image)
                                : fmt::format("all {} parts of an image's {} tiles are", image * p.splits, image));
    case NormMode::streamed:
      return fmt::format(
          "streamed: the {} tiles of an image wait in shared memory while the next ones are multiplied, and in "
          "memory if their image is not complete by then",
          image);
    case NormMode::rows:
      return "rows: a tile has all channels of its pixels, each is normalised by itself; nothing is exchanged, stored "
             "once";
    case NormMode::general: return reason_of_general(p, epilogue);
  }
  return {};
}

}  // namespace

std::string refusals_by_reason(const std::vector<Candidate>& all, std::size_t most) {
  std::string text;
  const std::vector<Group> groups = group(all);
  for (std::size_t i = 0; i < groups.size() && i < most; ++i)
    text += fmt::format("  {} ({}{})\n", groups[i].example->refusal, to_string(groups[i].example->plan.config),
                        groups[i].count > 1 ? fmt::format(" and {} like it", groups[i].count - 1) : "");
  if (groups.size() > most) text += fmt::format("  and {} other reasons\n", groups.size() - most);
  return text;
}

std::string no_candidate(const ConvTask& task, const std::vector<Candidate>& all, const Override& fixed) {
  std::vector<std::string> fields;
  for (const auto& [name, value] : fixed.fields) fields.push_back(fmt::format("{}={}", name, value));
  return fmt::format(
      "no kernel serves {}{}; each candidate and why it was refused:\n{}{}", to_string(task.contraction()),
      fields.empty() ? "" : fmt::format(" with {}", fmt::join(fields, " ")), refusals_by_reason(all),
      fields.empty() ? "Use the cpu device, or change what the reasons name." : "Leave out a field of the override.");
}

std::string to_string(const ConvConfig& c) {
  if (c.depthwise)
    return fmt::format("depthwise {}x{} in {}{}{}", c.tile_m, c.tile_n, to_string(*c.depthwise),
                       c.mode != NormMode::none ? fmt::format(", {}", to_string(c.mode)) : "",
                       c.element == DType::tf32 ? ", f32" : "");
  std::string text = fmt::format("{}x{}", c.tile_m, c.tile_n);
  if (c.tile_k != 64 && c.element != DType::tf32) text += fmt::format("x{}", c.tile_k);
  text += fmt::format("/{}", c.stages);
  if (c.patch || c.stationary) text += fmt::format("+{}", c.stages_a);
  text += fmt::format(" {}", order_name(c));
  if (c.cluster_m * c.cluster_n > 1) text += fmt::format(" cluster {}x{}", c.cluster_m, c.cluster_n);
  if (c.split) text += " split";
  if (c.group > 0) text += fmt::format(" group {}", c.group);
  if (c.swap) text += " swap";
  if (c.stationary) text += " stationary";
  if (c.mode != NormMode::none) text += fmt::format(" {}", to_string(c.mode));
  if (c.element == DType::tf32) text += " tf32";
  if (c.columns_a) text += " A(k,m)";
  if (c.phases)
    text += " by phases";
  else if (c.columns_b)
    text += " B(k,n)";
  if (c.batched) text += " batched";
  if (c.gather && c.gather->direct)
    text += " direct";
  else if (c.gather)
    text += c.gather->filters ? " gather all" : " gather";
  if (c.stores != Stores::tma) text += c.stores == Stores::plain ? " plain stores" : " planes";
  if (c.unfold) text += " unfold";
  if (c.resampling.any()) text += " " + to_string(c.resampling);
  if (c.fetch.value_or(0) > 0) text += fmt::format(" fetch {}x{}", *c.fetch, c.store_buffers);
  if (c.head.any()) text += " " + to_string(c.head);
  if (c.moments > 0) text += fmt::format(" moments/{}", c.moments);
  return text;
}

std::string describe(const ConvPlan& p) {
  return fmt::format("{}, {} {}, {} blocks of {} threads, {}", to_string(p.config), p.tiles,
                     p.splits > 1 ? fmt::format("tiles in {} parts", p.splits) : "tiles", p.blocks, p.threads,
                     kilobytes(p.shared_bytes));
}

std::string explain(const ConvTask& task, const Epilogue& epilogue, const Device& device, const Override& fixed,
                    std::size_t alternatives, const std::optional<ConvPlan>& chosen) {
  const std::vector<Candidate> all = candidates(task, epilogue, device, fixed);
  const auto legal =
      static_cast<std::size_t>(std::ranges::count_if(all, [](const Candidate& c) { return c.refusal.empty(); }));
  if (legal == 0) return no_candidate(task, all, fixed) + "\n";
  const ConvPlan& best = chosen ? *chosen : all.front().plan;
  std::string text = fmt::format("plan: {}\n", describe(best));
  text += fmt::format("predicted: {:.1f} us on {}\n", best.predicted_us, device.name);
  if (best.config.element == DType::tf32 && best.config.depthwise)
    text += "products: of f32, added in f32\n";
  else if (best.config.element == DType::tf32)
    text += "products: of tf32 (f32 operands without their last 13 bits), added in f32\n";
  text += fmt::format(
      "loads: {}\n",
      best.config.depthwise   ? loads_of_strips(task, best.config)
      : best.config.gather    ? loads_by_hand(task, *best.config.gather)
      : best.config.unfold    ? windows_unfolded(*best.config.unfold, best.config)
      : best.config.columns_a ? std::string("boxes of 64 columns of A")
      : best.config.patch
          ? fmt::format("patches 8 pixels wide with a halo of {} lines and {} pixels, one for all filter taps",
                        best.config.halo_h, best.config.halo_w) +
                (best.config.phases ? std::string(", in each of the four phases of the output") : std::string())
      : best.config.rows_a ? std::string("boxes of rows")
                           : std::string("runs of pixels, one for every filter tap"));
  text += fmt::format("mode: {}\n", reason_of_mode(best, epilogue));
  if (const std::string operands = describe_operands(best.config, make_problem(task, epilogue, device));
      !operands.empty())
    text += fmt::format("operands [m,n]: {}\n", operands);
  text += fmt::format("workspace: {} bytes\n", best.workspace.bytes);
  if (legal > 1 && alternatives > 0) text += fmt::format("next best of {} legal candidates:\n", legal);
  for (std::size_t i = 0, shown = 0; i < legal && shown < alternatives; ++i) {
    if (all[i].plan.config == best.config) continue;
    text += fmt::format("  {:6.1f} us  {}\n", all[i].plan.predicted_us, describe(all[i].plan));
    ++shown;
  }
  if (all.size() > legal)
    text += fmt::format("refused: {} candidates\n{}", all.size() - legal, refusals_by_reason(all));
  return text;
}

}  // namespace unisono::plan
