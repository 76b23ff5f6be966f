#pragma once
/// Launches of tensor kernels, complete but for the addresses of memory. Plain data.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tensors/parameters.hpp"

namespace unisono::tensors {

/// Memory whose address is missing in a launch's parameters.
struct Address {
  /// tensor: one of those given to the function that made the launch, in their order; table: one of Launches::tables;
  /// scratch: memory that lives as long as the launches, aligned to 16 bytes; status: the run's TensorStatus, where
  /// faults are recorded (fault.hpp).
  enum class Of : std::uint8_t { tensor, table, scratch, status } of{};
  std::size_t number = 0;  ///< which tensor, or which table
  std::int64_t bytes = 0;  ///< added to the address of its beginning
  bool read = true, written = false;
  std::size_t place = 0;  ///< offset in the parameters where the address, 8 bytes, belongs
};

struct Launch {
  std::string source, entry;  ///< a translation unit, which may hold several kernels, and the name of this one
  std::string how;            ///< for reports: "words of 16 bytes"
  std::int64_t threads = 0;   ///< how many have work; a grid of any number of CTAs of 256 does all of it
  std::vector<std::byte> parameters;
  std::vector<Address> addresses;

  /// Whether it may record faults.
  bool reports() const;
};

/// The launches that compute an operator's result, in the order in which they must run; none if the result is empty.
/// They share the tables, which are constant, and one piece of scratch memory.
struct Launches {
  std::vector<Launch> list;
  std::vector<std::vector<int>> tables;
  std::size_t scratch_bytes = 0;
};

/// The parameters with addresses filled in. `number`, from 1, identifies the launch in the status of the run.
std::vector<std::byte> complete(const Launch& launch, const std::function<void*(const Address&)>& address,
                                std::uint32_t number);

/// Tensors by their position, as arguments of add_address().
inline Address reads(std::size_t tensor, std::int64_t bytes = 0) {
  return {.of = Address::Of::tensor, .number = tensor, .bytes = bytes};
}
inline Address writes(std::size_t tensor, std::int64_t bytes = 0) {
  return {.of = Address::Of::tensor, .number = tensor, .bytes = bytes, .read = false, .written = true};
}
inline Address updates(std::size_t tensor, std::int64_t bytes = 0) {
  return {.of = Address::Of::tensor, .number = tensor, .bytes = bytes, .read = true, .written = true};
}

/// A kernel's text.
struct KernelText {
  std::string source, entry;
};

/// A launch of a kernel whose parameter is `parameters`; what it points at follows.
template <class P>
Launch launch_of(KernelText text, std::int64_t threads, const P& parameters, std::string how) {
  Launch launch;
  launch.source = std::move(text.source), launch.entry = std::move(text.entry);
  launch.threads = threads, launch.how = std::move(how);
  launch.parameters.resize(sizeof(P));
  std::memcpy(launch.parameters.data(), &parameters, sizeof(P));
  return launch;
}

/// Another address, at this place of the parameters.
inline void add_address(Launch& launch, std::size_t place, Address address) {
  address.place = place;
  launch.addresses.push_back(address);
}
/// More launches behind those that there are. `tensors` says what their tensors are here, by number.
void append(Launches& launches, Launches more, const std::vector<Address>& tensors);

/// The status of the run, for the FaultReport at this place.
inline void add_report(Launch& launch, std::size_t place) {
  add_address(launch, place, {.of = Address::Of::status, .read = true, .written = true});
}

}  // namespace unisono::tensors
