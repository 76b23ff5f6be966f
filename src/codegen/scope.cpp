#include "codegen/scope.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "codegen/expression.hpp"

namespace unisono::codegen {

namespace {
bool is_name(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}
}  // namespace

void Scope::compute(std::span<const ValueId> values) {
  std::set<ValueId> needed;
  std::vector<ValueId> pending(values.begin(), values.end());
  std::map<ValueId, std::string> spelled;
  while (!pending.empty()) {
    const ValueId id = pending.back();
    pending.pop_back();
    if (g_[id].op == Op::constant || texts_.contains(id) || !needed.insert(id).second) continue;
    if (auto text = given_(id); !text.empty()) {
      spelled[id] = std::move(text);
      continue;
    }
    pending.insert(pending.end(), g_[id].inputs.begin(), g_[id].inputs.end());
  }
  for (const ValueId id : needed) {
    std::string value;
    if (const auto found = spelled.find(id); found != spelled.end()) {
      value = found->second;
      if (is_name(value)) {
        texts_[id] = value;
        continue;
      }
    } else {
      std::vector<std::string> inputs;
      for (const ValueId in : g_[id].inputs) inputs.push_back(g_[in].op == Op::constant ? "" : texts_.at(in));
      if (instead_) value = instead_(id, inputs);
      if (value.empty()) value = expression(g_, id, inputs, accurate_);
    }
    texts_[id] = names_.of(id);
    line(fmt::format("const {} {} = {};", type_of(g_[id].dtype), names_.of(id), value));
  }
}

std::string Scope::text(ValueId id, DType as) const {
  if (g_[id].op == Op::constant) return literal(g_[id].attr.value, as);
  return converted(texts_.at(id), g_[id].dtype, as);
}

}  // namespace unisono::codegen
