#pragma once
/// What happens at the end of a scope, also where an exception ends it.

#include <utility>

namespace unisono::support {

/// Calls a function.
template <class F>
class AtExit {
 public:
  explicit AtExit(F call) : call_(std::move(call)) {}
  AtExit(const AtExit&) = delete;
  AtExit& operator=(const AtExit&) = delete;
  ~AtExit() { call_(); }

 private:
  F call_;
};

/// Gives a variable its value back.
template <class T>
class Restored {
 public:
  template <class U>
  Restored(T& variable, U&& meanwhile)
      : variable_(variable), before_(std::exchange(variable, std::forward<U>(meanwhile))) {}
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;
  ~Restored() { variable_ = std::move(before_); }

 private:
  T& variable_;
  T before_;
};

}  // namespace unisono::support
