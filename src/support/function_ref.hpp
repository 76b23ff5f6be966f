#pragma once
/// A function that somebody else owns, as an argument: unlike std::function it takes no memory.

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace unisono::support {

template <class Signature>
class FunctionRef;

/// Valid as long as the function object of which it was made.
template <class R, class... A>
class FunctionRef<R(A...)> {
 public:
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, FunctionRef> && std::is_invocable_r_v<R, F&, A...>) FunctionRef(F&& f)
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))), call_([](void* object, A... a) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<A>(a)...);
        }) {}

  R operator()(A... a) const { return call_(object_, std::forward<A>(a)...); }

 private:
  void* object_;
  R (*call_)(void* object, A... a);
};

}  // namespace unisono::support
