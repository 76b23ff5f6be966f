#include "tensors/launch.hpp"

#include <algorithm>

#include "unisono/error.hpp"

namespace unisono::tensors {

bool Launch::reports() const {
  return std::any_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.of == Address::Of::status; });
}

std::vector<std::byte> complete(const Launch& launch, const std::function<void*(const Address&)>& address,
                                std::uint32_t number) {
  std::vector<std::byte> parameters = launch.parameters;
  const auto put = [&](std::size_t place, const void* value, std::size_t bytes) {
    if (place + bytes > parameters.size()) throw InternalError("an address beyond the parameters of " + launch.entry);
    std::memcpy(parameters.data() + place, value, bytes);
  };
  for (const Address& a : launch.addresses) {
    auto* const at = static_cast<std::byte*>(address(a));
    const std::byte* const memory = at == nullptr ? nullptr : at + a.bytes;
    put(a.place, &memory, sizeof memory);
    if (a.of == Address::Of::status) put(a.place + offsetof(FaultReport, launch), &number, sizeof number);
  }
  return parameters;
}

void append(Launches& launches, Launches more, const std::vector<Address>& tensors) {
  if (!more.tables.empty() || more.scratch_bytes != 0)
    throw InternalError("launches with separate tables or scratch after others");
  for (Launch& launch : more.list) {
    for (Address& a : launch.addresses) {
      if (a.of != Address::Of::tensor) continue;
      const Address& now = tensors.at(a.number);
      a.of = now.of, a.number = now.number, a.bytes += now.bytes;
    }
    launches.list.push_back(std::move(launch));
  }
}

}  // namespace unisono::tensors
