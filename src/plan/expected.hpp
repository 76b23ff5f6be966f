#pragma once
/// What a step on the way down answers: what was asked for, or why there is none.

#include <utility>
#include <variant>

#include "plan/refusal.hpp"

namespace unisono::plan {

/// A T, or a refusal. As std::expected, of which `*` and `->` are for whoever has asked whether there is a value.
template <class T>
class Expected {
 public:
  Expected(T value) : held_(std::in_place_index<0>, std::move(value)) {}
  Expected(Refusal refusal) : held_(std::in_place_index<1>, std::move(refusal)) {}

  bool has_value() const { return held_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& operator*() & { return std::get<0>(held_); }
  const T& operator*() const& { return std::get<0>(held_); }
  T&& operator*() && { return std::get<0>(std::move(held_)); }
  T* operator->() { return &std::get<0>(held_); }
  const T* operator->() const { return &std::get<0>(held_); }

  const Refusal& refusal() const& { return std::get<1>(held_); }
  Refusal&& refusal() && { return std::get<1>(std::move(held_)); }

  /// For whoever has no answer but the value: throws Refused if there is none.
  T& value() & { return check(), **this; }
  const T& value() const& { return check(), **this; }
  T value() && { return check(), *std::move(*this); }

 private:
  void check() const {
    if (!has_value()) throw Refused(refusal());
  }

  std::variant<T, Refusal> held_;
};

}  // namespace unisono::plan
