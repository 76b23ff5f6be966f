// Files that hold tensors: .npy, .npz and safetensors. The first byte says which: 'n', 'z' or 's' (others by
// remainder).

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "media/npz.hpp"
#include "unisono/error.hpp"
#include "unisono/safetensors.hpp"

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr unisono::media::Limits limits{.pixels = 1 << 20, .bytes = 1 << 24};

void require_same(const unisono::media::Array& a, const unisono::media::Array& b) {
  if (a.type != b.type || a.shape != b.shape || a.bytes != b.bytes) std::abort();
}

// What is read must come back from the writer unchanged
void npy(std::span<const std::uint8_t> file) {
  const unisono::media::Array array = unisono::media::decode_npy(file, "fuzz.npy", limits);
  require_same(unisono::media::decode_npy(unisono::media::encode_npy(array), "again.npy"), array);
}

void npz(std::span<const std::uint8_t> file) {
  const auto arrays = unisono::media::decode_npz(file, "fuzz.npz", limits);
  std::size_t total = 0;
  for (const auto& [name, array] : arrays) total += array.bytes.size();
  if (total > static_cast<std::size_t>(limits.bytes)) std::abort();
  const auto again = unisono::media::decode_npz(unisono::media::encode_npz(arrays), "again.npz");
  if (again.size() != arrays.size()) std::abort();
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    if (again[i].first != arrays[i].first) std::abort();
    require_same(again[i].second, arrays[i].second);
  }
}

std::uint32_t number(const Bytes& file, std::size_t at, std::size_t bytes) {
  std::uint32_t x = 0;
  for (std::size_t i = bytes; i-- > 0;) x = x << 8 | file[at + i];
  return x;
}

// Hardly any mutation of a member would get past its checksum: stored members get the right one, in both of their
// entries
Bytes with_right_checksums(std::span<const std::uint8_t> given) {
  constexpr std::size_t entry_bytes = 46, local_bytes = 30;
  Bytes file(given.begin(), given.end());
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  for (std::size_t at = 0; (at = text.find("PK\1\2", at)) != std::string_view::npos; ++at) {
    if (file.size() - at < entry_bytes) break;
    const std::size_t size = number(file, at + 20, 4), local = number(file, at + 42, 4);
    if (number(file, at + 10, 2) != 0 || local > file.size() || file.size() - local < local_bytes) continue;
    const std::size_t data = local + local_bytes + number(file, local + 26, 2) + number(file, local + 28, 2);
    if (data > file.size() || size > file.size() - data) continue;
    const auto sum = crc32(0, file.data() + data, static_cast<uInt>(size));
    for (std::size_t i = 0; i < 4; ++i)
      file[at + 16 + i] = file[local + 14 + i] = static_cast<std::uint8_t>(sum >> (8 * i));
  }
  return file;
}

// Entries lie one behind the other and cover the data
void safetensors(std::span<const std::uint8_t> given) {
  const auto bytes = std::as_bytes(given);
  const unisono::Safetensors file = unisono::parse_safetensors({bytes.begin(), bytes.end()}, "fuzz.safetensors");
  std::uint64_t at = 0;
  for (const unisono::SafetensorsEntry& e : file.entries()) {
    if (e.begin != at || file.read(e).size() != e.end - e.begin || file.find(e.name) != &e) std::abort();
    std::uint64_t count = e.shape.empty() ? 1 : 0;  // of an empty shape the product would not overflow either
    if (!e.shape.empty() && e.end > e.begin)
      count = std::accumulate(e.shape.begin(), e.shape.end(), std::uint64_t{1},
                              [](std::uint64_t a, std::int64_t b) { return a * static_cast<std::uint64_t>(b); });
    if (count * size_of(e.dtype) != e.end - e.begin) std::abort();
    at = e.end;
  }
  if (8 + at > given.size()) std::abort();
}

template <class F>
void attempt(F read, std::span<const std::uint8_t> file) {
  try {
    read(file);
  } catch (const unisono::UserError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::span file(data + 1, size - 1);
  switch (data[0] % 3) {
    case '0' % 3: attempt(npy, file); break;
    case '1' % 3:
      attempt(npz, file);
      attempt(npz, with_right_checksums(file));
      break;
    default: attempt(safetensors, file);
  }
  return 0;
}
