/// Decides which tensors need no memory of their own: slices of a concatenation, and reshapes that are views.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "network/dim.hpp"
#include "network/infer_tensors.hpp"
#include "network/regions.hpp"
#include "network/space.hpp"

namespace unisono::network {

namespace {

// Where the inputs of a concatenation stand in a row among those of another
struct RunOfParts {
  std::size_t whole = 0;  // the other's region
  std::size_t place = 0;  // of the first of them among its inputs
};

class Placer {
 public:
  explicit Placer(FusedNetwork& fused) : f_(fused), n_(fused.network) {
    f_.placement.assign(n_.tensors.size(), std::nullopt);
    made_.assign(n_.tensors.size(), false);
    pinned_.assign(n_.tensors.size(), false);
    beside_.assign(n_.tensors.size(), false);
    reshaped_.assign(n_.tensors.size(), false);
    depth_.assign(n_.tensors.size(), 0);
    for (const Operator& op : n_.operators) {
      reshaped_[op.output] = is_reshape(op.kind);
    }
    input_.assign(n_.tensors.size(), false);
    for (const TensorId id : n_.inputs) pinned_[id] = input_[id] = true;
    for (const TensorId id : n_.outputs) pinned_[id] = true, input_[id] = false;
    given_ = pinned_;
  }

  void run() {
    for (const Region& r : f_.regions)
      for (const RegionOutput& o : r.outputs) {
        made_[o.tensor] = true;
        beside_[o.tensor] = r.kind == RegionReport::Kind::contraction && r.outputs.size() > 1;
      }
    // what an epilogue reads as a vector or one value a pixel stays dense; on a GPU every operand of a contraction; and
    // a contraction's second operand
    for (const Region& r : f_.regions)
      if (r.kind == RegionReport::Kind::contraction) pinned_[n_.operators[r.operators[0]].inputs[1]] = true;
    for (const Region& r : f_.regions)
      for (const RegionOperand& o : r.operands)
        if (!(o.axes == axes::mn) || (!f_.style.slices_beside && r.kind == RegionReport::Kind::contraction))
          pinned_[o.tensor] = true;
    // views first in mind, slices first in deed: a view needs a dense base
    const std::vector<bool> wide = place_runs();
    for (std::size_t i = 0; i < f_.regions.size(); ++i)
      if (const auto* c = kind<operators::Concat>(f_.regions[i]); c != nullptr && !wide[i])
        place_concat(f_.regions[i], *c);
    for (Region& r : f_.regions) {
      if (const auto* s = kind<operators::Slice>(r); s != nullptr && f_.style.column_ranges) place_range(r, *s);
      if (is_alone(r) && is_reshape(n_.operators[r.operators[0]].kind)) place_view(r);
    }
  }

 private:
  static bool is_alone(const Region& r) { return r.kind == RegionReport::Kind::single && r.operators.size() == 1; }
  template <class K>
  const K* kind(const Region& r) const {
    return is_alone(r) ? std::get_if<K>(&n_.operators[r.operators[0]].kind) : nullptr;
  }
  const Operator& first(const Region& r) const { return n_.operators[r.operators[0]]; }
  bool joins_columns(const Region& r) const;
  std::map<std::size_t, RunOfParts> find_runs() const;
  std::vector<bool> place_runs();
  void place_run(Region& r, const Region& whole);
  void place_concat(Region& r, const operators::Concat& c);
  bool joins_rows(const Operator& op, const operators::Concat& c) const;
  void place_rows(Region& r);
  bool has_columns_of_root(TensorId id) const;
  void place_range(Region& r, const operators::Slice& s);
  void place_view(Region& r);
  bool is_slice(TensorId id) const { return f_.placement[id] && f_.placement[id]->slice; }
  // Where parts of the columns begin and end: kernels read octets of an island's f32, too
  std::int64_t multiple_of_parts(TensorId id) const {
    return n_[id].keeps_f32 ? f_.style.column_multiple : f_.column_multiple(id);
  }

  FusedNetwork& f_;
  const Network& n_;
  static constexpr int deepest = 32;  // concatenations inside each other

  // by tensor: written by a region; given or wanted by the caller; one of these, or to stay dense; made by a reshape,
  // which may turn out to be a view
  std::vector<bool> made_, given_, pinned_, reshaped_;
  std::vector<bool> input_;   // by tensor: given by the caller, and not wanted as well
  std::vector<bool> beside_;  // by tensor: one of several outputs of a contraction
  std::vector<int> depth_;    // by tensor: how deep the slices in it nest
};

bool Placer::joins_columns(const Region& r) const {
  const auto* c = kind<operators::Concat>(r);
  const Shape& shape = n_[first(r).output].shape;
  return c != nullptr && !shape.empty() && c->axis == static_cast<int>(column_axis(shape.size()));
}

// By region: a network that concatenates all that it has so far, layer by layer, does so in runs of its last
// concatenation. Of those with the same first two inputs the widest is asked.
std::map<std::size_t, RunOfParts> Placer::find_runs() const {
  std::map<std::pair<TensorId, TensorId>, RunOfParts> widest;
  const auto inputs = [&](std::size_t i) -> const std::vector<TensorId>& { return first(f_.regions[i]).inputs; };
  for (std::size_t i = 0; i < f_.regions.size(); ++i) {
    if (!joins_columns(f_.regions[i])) continue;
    for (std::size_t k = 0; k + 1 < inputs(i).size(); ++k) {
      const auto [known, is_new] = widest.try_emplace({inputs(i)[k], inputs(i)[k + 1]}, RunOfParts{i, k});
      if (!is_new && inputs(known->second.whole).size() < inputs(i).size()) known->second = {i, k};
    }
  }
  std::map<std::size_t, RunOfParts> runs;
  for (std::size_t i = 0; i < f_.regions.size(); ++i) {
    if (!joins_columns(f_.regions[i]) || inputs(i).size() < 2) continue;
    const RunOfParts found = widest.at({inputs(i)[0], inputs(i)[1]});
    const auto& all = inputs(found.whole);
    if (all.size() - found.place >= inputs(i).size() && all.size() > inputs(i).size() &&
        std::equal(inputs(i).begin(), inputs(i).end(), all.begin() + static_cast<std::ptrdiff_t>(found.place)))
      runs.emplace(i, found);
  }
  return runs;
}

// The wide ones first, so that everything lies in them; by region: whether it is placed
std::vector<bool> Placer::place_runs() {
  std::vector<bool> placed(f_.regions.size(), false);
  if (!f_.style.column_ranges) return placed;
  const std::map<std::size_t, RunOfParts> runs = find_runs();
  for (const auto& [region, run] : runs) {
    if (placed[run.whole] || runs.contains(run.whole)) continue;
    place_concat(f_.regions[run.whole], *kind<operators::Concat>(f_.regions[run.whole]));
    placed[run.whole] = true;
  }
  for (const auto& [region, run] : runs)
    if (placed[run.whole]) {
      place_run(f_.regions[region], f_.regions[run.whole]);
      placed[region] = f_.regions[region].kind == RegionReport::Kind::free;
    }
  return placed;
}

// Columns of the wide one, which the inputs' producers write
void Placer::place_run(Region& r, const Region& whole) {
  const Operator &op = first(r), &wide = first(whole);
  const auto lies_there = [&](TensorId id) { return is_slice(id) && f_.placement[id]->base == wide.output; };
  if (given_[op.output] || pinned_[op.output] || f_.placement[op.output]) return;
  if (f_.own_type[op.output] != f_.own_type[wide.output]) return;
  if (!std::all_of(op.inputs.begin(), op.inputs.end(), lies_there)) return;
  if (needs_dense(n_, f_.regions, op.output)) return;
  const std::int64_t column = f_.placement[op.inputs[0]]->column;
  f_.placement[op.output] = Placement{.base = wide.output, .column = column, .slice = true};
  depth_[wide.output] = std::max(depth_[wide.output], depth_[op.output] + 1);
  r.kind = RegionReport::Kind::free;
  r.note = fmt::format("columns of '{}', into which its producers write", n_[wide.output].name);
}

// Whether the parts follow each other in memory: image rows of a single image
bool Placer::joins_rows(const Operator& op, const operators::Concat& c) const {
  const Shape& whole = n_[op.output].shape;
  const auto is_number = [](const Dim& d) { return d.known() && d.value() > 0; };
  return f_.style.column_ranges && whole.size() == 4 && c.axis == 2 && is_one(whole[0]) && !given_[op.output] &&
         std::ranges::all_of(whole, is_number);
}

// Each producer writes its rows where they belong
void Placer::place_rows(Region& r) {
  const Operator& op = first(r);
  std::int64_t element = 0;
  std::size_t placed = 0;
  for (const TensorId id : op.inputs) {
    const Shape& s = n_[id].shape;
    const bool once = std::ranges::count(op.inputs, id) == 1;
    if (once && f_.own_type[id] == f_.own_type[op.output] && made_[id] && !given_[id] && !reshaped_[id] &&
        !f_.placement[id] && depth_[id] < deepest) {
      f_.placement[id] = Placement{.base = op.output, .column = element};
      depth_[op.output] = std::max(depth_[op.output], depth_[id] + 1);
      ++placed;
    }
    element += s[2].value() * s[3].value() * f_.pitch(id, s[1].value());
  }
  r.note = fmt::format("{} of {} inputs are written in place", placed, op.inputs.size());
  if (placed < op.inputs.size()) return;
  r.kind = RegionReport::Kind::free;
  r.note = "its producers write into it";
}

void Placer::place_concat(Region& r, const operators::Concat& c) {
  const Operator& op = n_.operators[r.operators[0]];
  if (joins_rows(op, c)) return place_rows(r);
  const Shape& whole = n_[op.output].shape;
  if (whole.empty() || c.axis != static_cast<int>(column_axis(whole.size()))) {
    r.note = fmt::format("copied: axis {} is not the innermost in memory", c.axis);
    return;
  }
  std::map<TensorId, int> times;
  for (const TensorId id : op.inputs) ++times[id];
  std::int64_t column = 0;
  std::size_t placed = 0;
  std::vector<std::string> copied;
  for (const TensorId id : op.inputs) {
    const bool once = times[id] == 1;
    const Dim width = columns(n_[id].shape);
    if (!width.known()) break;
    const std::int64_t unit = multiple_of_parts(op.output);
    const bool aligned = (f_.style.slices_beside || !beside_[id]) && column % unit == 0 && width.value() % unit == 0;
    const bool one_type = f_.own_type[id] == f_.own_type[op.output];
    if (aligned && one_type && made_[id] && !pinned_[id] && !reshaped_[id] && once && !f_.placement[id] &&
        depth_[id] < deepest) {
      f_.placement[id] = Placement{.base = op.output, .column = column, .slice = true};
      depth_[op.output] = std::max(depth_[op.output], depth_[id] + 1);
      ++placed;
    } else {
      copied.push_back(n_[id].name);
    }
    column += width.value();
  }
  if (placed == op.inputs.size()) {
    r.kind = RegionReport::Kind::free;
    r.note = "its producers write into it";
  } else {
    r.note = fmt::format("{} of {} inputs are written in place", placed, op.inputs.size());
  }
}

// Whether all views on the way to the memory that a tensor lies in keep columns: a range's rows are as far apart as
// there
bool Placer::has_columns_of_root(TensorId id) const {
  for (; f_.placement[id]; id = f_.placement[id]->base)
    if (!is_slice(id) && !(columns(n_[f_.placement[id]->base].shape) == columns(n_[id].shape))) return false;
  return true;
}

// Columns of a tensor that are read where they lie
void Placer::place_range(Region& r, const operators::Slice& s) {
  const Operator& op = n_.operators[r.operators[0]];
  const TensorId from = op.inputs[0], to = op.output;
  const Dim whole = columns(n_[from].shape);
  const auto refuse = [&](const std::string& why) { r.note = "copied: " + why; };
  if (s.axes != std::vector<int>{static_cast<int>(column_axis(n_[from].shape.size()))} ||
      s.steps != std::vector<std::int64_t>{1} || !whole.known())
    return refuse("no range of columns");
  const SliceRange range = slice_range(s, 0, whole.value());
  const std::int64_t unit = multiple_of_parts(from);
  if (f_.own_type[from] != f_.own_type[to]) return refuse("another type in memory");
  if (range.begin % unit != 0 || range.count % unit != 0 || range.count == 0)
    return refuse(fmt::format("its columns do not begin and end at multiples of {}", unit));
  if (!made_[from] || f_.placement[to] || given_[from] || given_[to])
    return refuse("an input, an output or a part of a concatenation");
  if (!has_columns_of_root(from)) return refuse(fmt::format("'{}' is a view of other columns", n_[from].name));
  if (const auto refusal = needs_dense(n_, f_.regions, to)) return refuse(refusal->first());
  f_.placement[to] = Placement{.base = from, .column = range.begin, .slice = true};
  r.kind = RegionReport::Kind::free;
  r.note = fmt::format("columns {} to {} of '{}'", range.begin, range.begin + range.count, n_[from].name);
}

void Placer::place_view(Region& r) {
  const Operator& op = n_.operators[r.operators[0]];
  const TensorId from = op.inputs[0], to = op.output;
  const Dim &from_columns = columns(n_[from].shape), &to_columns = columns(n_[to].shape);
  const std::int64_t unit = f_.column_multiple(from);
  const auto whole = [&](const Dim& d) { return d.known() && d.value() % unit == 0; };
  if (f_.own_type[from] != f_.own_type[to]) {
    r.note = "copied: another type in memory";
    return;
  }
  if (unit > 1 && !(from_columns == to_columns) && !(whole(from_columns) && whole(to_columns))) {
    r.note = fmt::format("copied: rows are padded to multiples of {} elements", unit);
    return;
  }
  // that of a slice, whose rows stay rows, where readers take such
  const bool rows =
      is_slice(from) && f_.style.column_ranges && from_columns == to_columns && !needs_dense(n_, f_.regions, to);
  const bool dense = input_[from] || (made_[from] && (!is_slice(from) || rows));
  const bool in_order = walks_pixels(op.kind) || (logical_order(n_[from].shape) && logical_order(n_[to].shape));
  if (!dense || given_[to] || (given_[from] && !input_[from]) || !in_order) {
    r.note =
        "copied: " + std::string(!in_order ? "channels last in memory" : "an output or a slice of a concatenation");
    return;
  }
  f_.placement[to] = Placement{.base = from, .slice = rows};
  r.kind = RegionReport::Kind::free;
  r.note = "a view";
}

}  // namespace

void place(FusedNetwork& fused) { Placer(fused).run(); }

}  // namespace unisono::network
