#include "lower/request.hpp"
#include "families/interface/family.hpp"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <vector>

namespace unisono::lower {

std::span<const jit::Header> device_headers() {
  static const std::vector<jit::Header> headers = [] {
    std::vector<jit::Header> all;
    for (const codegen::Header& h : codegen::device_headers()) all.push_back({h.name, h.text});
    return all;
  }();
  return headers;
}

std::span<const jit::Header> headers_named(std::string_view source) {
  const std::span<const jit::Header> all = device_headers();
  std::vector<bool> named(all.size());
  std::vector<std::string_view> open{source};
  while (!open.empty()) {
    const std::string_view text = open.back();
    open.pop_back();
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!named[i] && text.find(all[i].name) != text.npos) named[i] = true, open.push_back(all[i].text);
  }
  static std::mutex mutex;
  static std::map<std::vector<bool>, std::vector<jit::Header>> lists;  // which spans refer to
  const std::lock_guard lock(mutex);
  const auto [list, is_new] = lists.try_emplace(named);
  for (std::size_t i = 0; is_new && i < all.size(); ++i)
    if (named[i]) list->second.push_back(all[i]);
  return list->second;
}

jit::Request request(const codegen::Kernel& kernel, const families::Plan& plan, const Contraction& contraction,
                     const std::string& arch) {
  return {.source = kernel.source,
          .headers = kernel.library ? headers_named(kernel.source) : device_headers(),
          .entry = kernel.entry,
          .title = fmt::format("{}, {}", to_string(contraction), families::title(plan)),
          .arch = kernel.library ? kernel.library->arch : arch,
          .host_library = kernel.library.has_value()};
}

}  // namespace unisono::lower
