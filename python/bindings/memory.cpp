/// Fingerprints of memory, by which a caller sees that somebody wrote to it.

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cpu/worker_pool.hpp"
#include "support/hash.hpp"
#include "tensors.hpp"

namespace unisono::python {
namespace {

using Bytes = std::span<const std::byte>;
using Ranges = std::vector<std::pair<std::uintptr_t, std::size_t>>;  // addresses, and bytes from there

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

// One thread hashes a piece
std::vector<Bytes> pieces_of(const Ranges& ranges) {
  std::vector<Bytes> pieces;
  for (const auto& [address, size] : ranges) {
    const Bytes all{reinterpret_cast<const std::byte*>(address), size};
    for (std::size_t at = 0; at < size; at += piece_bytes)
      pieces.push_back(all.subspan(at, std::min(piece_bytes, size - at)));
  }
  return pieces;
}

std::string fingerprint(const Ranges& ranges, int threads) {
  const std::vector<Bytes> pieces = pieces_of(ranges);
  std::vector<std::string> hashes(pieces.size());
  cpu::WorkerPool::shared().for_each(threads, std::ssize(pieces), [&](std::int64_t i, int) {
    const auto at = static_cast<std::size_t>(i);
    hashes[at] = support::hash(pieces[at]);
  });
  support::Hasher all;
  for (const std::string& hash : hashes) all.field(hash);
  return all.digest();
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("_fingerprint", &fingerprint, nb::arg("ranges"), nb::arg("threads"), nb::call_guard<nb::gil_scoped_release>(),
        "The 128-bit hash of ranges of host memory, [(address, bytes), …], computed by this number of threads.");
}

}  // namespace unisono::python
