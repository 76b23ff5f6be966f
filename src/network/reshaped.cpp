#include "network/reshaped.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "network/dim.hpp"
#include "network/shape_limits.hpp"
#include "unisono/error.hpp"

namespace unisono::network {

namespace {

// The shape as it is asked for; `free` is the axis of -1, whose extent follows from the others
struct Wanted {
  Shape shape;
  std::optional<std::size_t> free;
};

Wanted wanted_shape(const Shape& x, const operators::Reshape& r, const std::string& where) {
  Wanted wanted;
  for (std::size_t i = 0; i < r.shape.size(); ++i) {
    const auto v = r.shape[i];
    if (v <= -2 && v > -2 - std::ssize(x)) {
      wanted.shape.push_back(x[static_cast<std::size_t>(-2 - v)]);
      continue;
    }
    if (v < -1 || v > largest_extent)
      throw UserError(fmt::format("{}: extent {} of the new shape is out of range", where, v));
    if (v == 0 && r.literal) {
      wanted.shape.push_back(0);
      continue;
    }
    if (v == 0 && i >= x.size())
      throw UserError(fmt::format("{}: place {} keeps an extent that input {} does not have", where, i, to_string(x)));
    if (v == -1 && wanted.free)
      throw UserError(fmt::format("{}: the new shape ({}) has two extents of -1", where, fmt::join(r.shape, ",")));
    if (v == -1) wanted.free = i;
    wanted.shape.push_back(v == 0 ? x[i] : Dim(v == -1 ? 1 : v));
  }
  return wanted;
}

// Erases from both the symbols that stand on both sides, and returns what is left of the wanted ones
std::vector<Dim> cancel_symbols(std::vector<Dim>& from, const Wanted& wanted) {
  std::vector<Dim> to;
  for (std::size_t i = 0; i < wanted.shape.size(); ++i) {
    if (wanted.free && i == *wanted.free) continue;
    const auto same = std::find(from.begin(), from.end(), wanted.shape[i]);
    if (!wanted.shape[i].known() && same != from.end()) {
      from.erase(same);
    } else {
      to.push_back(wanted.shape[i]);
    }
  }
  return to;
}

}  // namespace

Shape reshaped(const Shape& x, const operators::Reshape& r, const std::string& where) {
  Wanted wanted = wanted_shape(x, r, where);
  std::vector<Dim> from(x);
  const Dim want = product(cancel_symbols(from, wanted)), have = product(from);
  const auto mismatch = [&] {
    return UserError(fmt::format("{}: {} does not reshape to ({})", where, to_string(x), fmt::join(r.shape, ",")));
  };
  if (!wanted.free) {
    if (!may_equal(have, want)) throw mismatch();
    return wanted.shape;
  }
  Dim& free = wanted.shape[*wanted.free];
  if (have.known() && want.known()) {
    if (want.value() == 0)
      throw UserError(fmt::format("{}: the extent of -1 in ({}) is open: the others leave no elements", where,
                                  fmt::join(r.shape, ",")));
    if (have.value() % want.value() != 0) throw mismatch();
    free = Dim(have.value() / want.value());
  } else {
    free = is_one(want) ? have : quotient(have, want);
  }
  return wanted.shape;
}

}  // namespace unisono::network
