#pragma once
/// Size arithmetic that cannot overflow: extents come from files and callers, and a product of a few of them may be
/// above any integer. A result that does not fit is an error that says what was computed, never a wrapped number.

#include <concepts>
#include <cstdint>
#include <utility>

namespace unisono::support {

/// Throws Unsupported: "WHAT: the number does not fit N bits …".
[[noreturn]] void throw_beyond(const char* what, int bits);

/// `x` as a To. Throws Unsupported if To cannot hold it.
template <std::integral To, std::integral From>
constexpr To narrow(const char* what, From x) {
  if (!std::in_range<To>(x)) throw_beyond(what, 8 * static_cast<int>(sizeof(To)));
  return static_cast<To>(x);
}

/// A count (of elements, bytes, tiles …) under way: every step is checked. `what` names the result; it must outlive the
/// number, as a literal does.
class Checked {
 public:
  template <std::integral T>
  constexpr Checked(const char* what, T value) : what_(what), value_(narrow<std::int64_t>(what, value)) {}

  template <std::integral T>
  constexpr Checked& operator*=(T by) {
    if (__builtin_mul_overflow(value_, by, &value_)) throw_beyond(what_, 64);
    return *this;
  }
  template <std::integral T>
  constexpr Checked& operator+=(T more) {
    if (__builtin_add_overflow(value_, more, &value_)) throw_beyond(what_, 64);
    return *this;
  }
  constexpr Checked& operator*=(const Checked& by) { return *this *= by.value_; }
  constexpr Checked& operator+=(const Checked& more) { return *this += more.value_; }
  friend constexpr Checked operator*(Checked x, const auto& y) { return x *= y; }
  friend constexpr Checked operator+(Checked x, const auto& y) { return x += y; }

  /// The least multiple of `unit` that is not below it; both positive.
  template <std::integral T>
  constexpr Checked rounded_up(T unit) const {
    return (*this + (unit - 1)).in_units(unit) * unit;
  }
  /// Divided and rounded up.
  template <std::integral T>
  constexpr Checked divided_up(T by) const {
    return (*this + (by - 1)).in_units(by);
  }

  constexpr std::int64_t value() const { return value_; }
  template <std::integral To>
  constexpr To to() const {
    return narrow<To>(what_, value_);
  }

 private:
  template <std::integral T>
  constexpr Checked in_units(T unit) const {
    return {what_, value_ / static_cast<std::int64_t>(unit)};
  }

  const char* what_;
  std::int64_t value_;
};

}  // namespace unisono::support
