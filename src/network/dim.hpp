#pragma once
/// Arithmetic on extents that may be symbols. A result that is no number is a formula in words of its symbols, the same
/// text for the same arithmetic, so that equal texts mean equal extents.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "unisono/network.hpp"

namespace unisono::network {

/// Number of places a window of `span` pixels (dilation included) can take when it moves by `stride` over x + pad
/// pixels; rounded up if `ceil`. Nothing if a known result would be below 1.
std::optional<Dim> window_count(const Dim& x, std::int64_t pad, std::int64_t span, std::int64_t stride, bool ceil);

/// What x is at least, where a symbol is 1 or more: 6 of "n+5". 0 of a formula that does not say.
std::int64_t least(const Dim& x);

/// x·factor + offset.
Dim affine(const Dim& x, std::int64_t factor, std::int64_t offset);

/// x + y.
Dim sum(const Dim& x, const Dim& y);

/// x/by, rounded down, for x that is not negative; divisions one after the other become one.
Dim divided(const Dim& x, std::int64_t by);

/// x/y if all factors of y are among those of x, products both; nothing otherwise.
std::optional<Dim> whole_quotient(const Dim& x, const Dim& y);

/// x/y, where y is known to divide x: what is left for one extent of a reshape.
Dim quotient(const Dim& x, const Dim& y);

/// floor(x·scale).
Dim scaled(const Dim& x, double scale);

/// A symbol of this text, or of its hash if it is long.
Dim formula(std::string text);

/// Product; 1 for none.
Dim product(std::span<const Dim> dims);

/// What two extents broadcast to. Two names may stand for different numbers, one of them 1: "a|b" is whichever is
/// larger. A name and a number above 1 make the number; a formula is taken to equal what it meets.
Dim broadcast(const Dim& x, const Dim& y);

/// Whether two extents may be equal: always, unless both are known and differ.
bool may_equal(const Dim& x, const Dim& y);

inline bool is_one(const Dim& x) { return x.known() && x.value() == 1; }

/// Shape of numbers; throws InternalError if a symbol is left.
std::vector<std::int64_t> values(const Shape& shape);
Shape to_shape(const std::vector<std::int64_t>& values);

}  // namespace unisono::network
