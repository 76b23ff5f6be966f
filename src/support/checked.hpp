#pragma once
/// Size arithmetic that cannot overflow: extents come from files and callers, and a product of a few of them may be
/// above any integer. A result that does not fit is an error that says what was computed, never a wrapped number; for
/// whoever has another plan, an answer (Narrowing).

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace unisono::support {

/// "WHAT: the number does not fit N bits …".
std::string beyond_text(const char* what, int bits);

/// Throws Unsupported with that text.
[[noreturn]] void throw_beyond(const char* what, int bits);

/// `x` as a To. Throws Unsupported if To cannot hold it.
template <std::integral To, std::integral From>
constexpr To narrow(const char* what, From x) {
  if (!std::in_range<To>(x)) throw_beyond(what, 8 * static_cast<int>(sizeof(To)));
  return static_cast<To>(x);
}

/// A count (of elements, bytes, tiles …) under way: every step is checked. `what` names the result; it must outlive the
/// number, as a literal does. A number that a step does not fit stays beyond all, and whoever asks for it is told.
class Checked {
 public:
  template <std::integral T>
  constexpr Checked(const char* what, T value) : what_(what) {
    set(value);
  }

  template <std::integral T>
  constexpr Checked& operator*=(T by) {
    fits_ = fits_ && !__builtin_mul_overflow(value_, by, &value_);
    return *this;
  }
  template <std::integral T>
  constexpr Checked& operator+=(T more) {
    fits_ = fits_ && !__builtin_add_overflow(value_, more, &value_);
    return *this;
  }
  constexpr Checked& operator*=(const Checked& by) { return by.fits_ ? *this *= by.value_ : *this = by; }
  constexpr Checked& operator+=(const Checked& more) { return more.fits_ ? *this += more.value_ : *this = more; }
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

  /// Throws Unsupported if it does not fit.
  constexpr std::int64_t value() const {
    if (!fits_) throw_beyond(what_, 64);
    return value_;
  }
  /// The largest number if it does not fit, for comparisons with a limit.
  constexpr std::int64_t saturated() const { return fits_ ? value_ : std::numeric_limits<std::int64_t>::max(); }
  template <std::integral To>
  constexpr To to() const {
    return narrow<To>(what_, value());
  }

 private:
  friend class Narrowing;

  template <std::integral T>
  constexpr void set(T value) {
    fits_ = std::in_range<std::int64_t>(value);
    value_ = fits_ ? static_cast<std::int64_t>(value) : 0;
  }
  template <std::integral T>
  constexpr Checked in_units(T unit) const {
    Checked units = *this;
    units.value_ /= static_cast<std::int64_t>(unit);
    return units;
  }

  const char* what_;
  std::int64_t value_ = 0;
  bool fits_ = true;
};

/// Takes numbers as types that may not hold them, for callers to whom that is an answer.
class Narrowing {
 public:
  /// 0 if it does not fit.
  template <std::integral To, std::integral From>
  To as(const char* what, From x) {
    if (std::in_range<To>(x)) return static_cast<To>(x);
    return note(what, 8 * static_cast<int>(sizeof(To))), To{};
  }
  template <std::integral To>
  To as(const Checked& x) {
    if (x.fits_) return as<To>(x.what_, x.value_);
    return note(x.what_, 64), To{};
  }
  /// What the first number that did not fit was, as narrow() says it; nothing: all have fitted.
  const std::optional<std::string>& beyond() const { return beyond_; }

 private:
  void note(const char* what, int bits) {
    if (!beyond_) beyond_ = beyond_text(what, bits);
  }
  std::optional<std::string> beyond_;
};

}  // namespace unisono::support
