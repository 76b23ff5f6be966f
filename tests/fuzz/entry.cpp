/// Descriptions of cached kernels: read or refused; what is read is written as a text that reads back.

#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <variant>

#include "jit/entry.hpp"
#include "support/hash.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace unisono::jit;
  const auto check = [](std::string_view text) {
    const auto parsed = parse_entry(text);
    const auto* info = std::get_if<EntryInfo>(&parsed);
    if (info == nullptr) return;
    const auto again = parse_entry(to_text(*info));
    if (!std::holds_alternative<EntryInfo>(again)) std::abort();
  };
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(text);
  // under the hash that belongs to it, which a fuzzer does not find
  check("{\"entry\":" + std::string(text) + ",\"hash\":\"" + unisono::support::hash(text) + "\"}");
  return 0;
}
