#include <fmt/format.h>

#include "ir/store_forms.hpp"
#include "unisono/error.hpp"

namespace unisono::ir {

namespace {

class StoreFormVerifier {
 public:
  explicit StoreFormVerifier(const Graph& graph) : g_(graph) {}

  void run() const {
    for (const Store& s : g_.stores) {
      if (s.form > StoreForm::upsample_2x2) throw InternalError(fmt::format("store {} has no such form", s.name));
      if (s.form != StoreForm::whole && !(g_[s.value].axes == axes::mn))
        refuse(s, fmt::format("is of a value with axes {}; expected [m,n]", to_string(g_[s.value].axes)));
      if (s.form != StoreForm::whole && !is_float(s.dtype))
        refuse(s, fmt::format("has dtype {}; expected a floating-point type", to_string(s.dtype)));
    }
    resampled();
  }

 private:
  // One pooled and one upsampled store at most, of one image, which is stored whole too or upsampled alone
  void resampled() const {
    const Store* first = nullptr;
    for (const Store& s : g_.stores) {
      if (s.form == StoreForm::whole) continue;
      if (first != nullptr && first->form == s.form) refuse_second(s, *first);
      if (first != nullptr && (first->value != s.value || first->dtype != s.dtype))
        refuse(s, fmt::format("differs from {} in its value or dtype; expected the same of both", first->name));
      if (first == nullptr) first = &s;
    }
    if (first != nullptr) has_whole(*first);
  }

  void has_whole(const Store& made) const {
    bool other_type = false, pooled = false;
    for (const Store& s : g_.stores) {
      if (s.form == StoreForm::whole && s.value == made.value && s.dtype == made.dtype) return;
      other_type = other_type || (s.form == StoreForm::whole && s.value == made.value);
      pooled = pooled || s.form == StoreForm::max_pool_2x2;
    }
    if (other_type || pooled)
      refuse(made, fmt::format("needs a store of its value itself as {}; add it, or write {} alone",
                               to_string(made.dtype), to_string(StoreForm::upsample_2x2)));
  }

  [[noreturn]] static void refuse_second(const Store& s, const Store& first) {
    refuse(s, fmt::format("is the second {} (the first is {}); a graph has one", to_string(s.form), first.name));
  }

  [[noreturn]] static void refuse(const Store& s, const std::string& what) {
    throw UserError(fmt::format("store {0} ({1}) {2}", s.name, to_string(s.form), what));
  }

  const Graph& g_;
};

}  // namespace

void verify_store_forms(const Graph& graph) { StoreFormVerifier(graph).run(); }

}  // namespace unisono::ir
