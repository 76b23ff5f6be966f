#pragma once
/// The one parameter of a family's kernels as the host fills it: bytes, the tensor maps among them, and where each
/// argument went. Needs no driver.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "unisono/dtype.hpp"

namespace unisono::families {

inline constexpr std::size_t no_slot = ~std::size_t{0};

/// An address of the caller's, and the index of the slot that gives it.
struct Address {
  const void* data = nullptr;
  std::size_t slot = no_slot;
  operator const void*() const { return data; }
};

/// Where a kernel's parameter holds the address of a slot's tensor, or the bits of its scalar.
struct Site {
  enum class Kind : std::uint8_t { word, tensor_map };
  std::size_t slot = no_slot;
  std::size_t offset = 0;  ///< in the parameter, in bytes
  std::size_t ahead = 0;   ///< bytes from the tensor's address to the one that stands there
  Kind kind = Kind::word;
};

/// What a visitor reads, as codegen::Kernel::fields lists it.
struct Fields {
  std::vector<std::uint64_t> bits;
  std::vector<std::size_t> slots;  ///< no_slot: neither an address nor a caller's number

  void add(std::uint64_t field, std::size_t slot) { bits.push_back(field), slots.push_back(slot); }
};

/// What a launch reads and writes, as the caller bound it. Pitches are elements from pixel to pixel; 0: they lie
/// together.
struct Tensors {
  Address activation = {}, filter = {};
  Address filter1 = {};                 ///< the second of a dual one; it lies as the first
  std::int64_t step_a = 0, step_b = 0;  ///< elements from one product's matrix to the next; 0: dense
  std::int64_t filter_pitch = 0;        ///< from row to row of a dual product's B (n, k)
  std::int64_t activation_pitch = 0;
  Address output = {}, side = {};  ///< the main store; the second one, null without
  std::int64_t output_pitch = 0;
  Address upsampled = {}, pooled = {};  ///< what is made of the main store
  std::int64_t upsampled_pitch = 0, pooled_pitch = 0;
  Address moments = {};
  Fields fields = {};
};

/// A tensor map before it is encoded. Extents are listed innermost first.
struct MapShape {
  int rank = 0;
  std::array<std::uint64_t, 5> extents{};  ///< elements
  std::array<std::uint64_t, 4> strides{};  ///< bytes; of the extents from the second on
  // A box of a tiled map:
  std::array<std::uint32_t, 5> box{};
  // Or, of an im2col map, `channels` of `pixels` consecutive positions of the filter's corner; the corners bound where
  // that may stand, {w, h} or {w, h, d}, relative to the first and the last pixel of an image.
  bool im2col = false;
  std::array<int, 3> lower{}, upper{};
  std::uint32_t channels = 0, pixels = 0;
  std::array<std::uint32_t, 5> steps{1, 1, 1, 1, 1};
  std::uint64_t element_bytes = 2;
  int swizzle_bytes = 0;  ///< a row of the box: 128, 64, 32, or less for none

  bool operator==(const MapShape&) const = default;
};

/// As many bytes as every driver takes, zero wherever nothing is written; a kernel declares how many of them it reads.
struct alignas(64) ParameterBytes {
  std::array<std::byte, 4096> bytes{};

  template <class T>
  T& at(std::size_t offset = 0) {
    return *reinterpret_cast<T*>(bytes.data() + offset);
  }
};

/// A parameter as it is filled.
struct Parameter {
  /// A tensor map that the driver has yet to encode.
  struct Map {
    std::size_t offset = 0;  ///< where its 128 bytes begin
    MapShape shape;
    const void* base = nullptr;  ///< its first element
    DType element{};
    const char* what = "";  ///< "the image": in the driver's refusal
  };

  ParameterBytes bytes;
  std::vector<Map> maps;
  std::vector<Site> sites;

  /// Where a part of `bytes` lies in them.
  std::size_t offset_of(const void* place) const {
    return static_cast<std::size_t>(static_cast<const std::byte*>(place) - bytes.bytes.data());
  }
  /// Bits that a slot gives, or none does.
  void put_word(std::size_t offset, std::uint64_t bits, std::size_t slot) {
    std::memcpy(bytes.bytes.data() + offset, &bits, sizeof bits);
    note(slot, offset, 0, Site::Kind::word);
  }
  void put_address(std::size_t offset, const Address& address) {
    put_word(offset, reinterpret_cast<std::uintptr_t>(address.data), address.slot);
  }
  void put_fields(std::size_t offset, const Fields& fields) {
    for (std::size_t i = 0; i < fields.bits.size(); ++i) put_word(offset + 8 * i, fields.bits[i], fields.slots[i]);
  }
  /// A struct without padding that begins with the address of `base`.
  template <class T>
  void put_struct(std::size_t offset, const T& what, const Address& base) {
    static_assert(std::is_trivially_copyable_v<T> && offsetof(T, memory) == 0);
    static_assert(std::has_unique_object_representations_v<T>, "padding is never written");
    std::memcpy(bytes.bytes.data() + offset, &what, sizeof what);
    note(base.slot, offset, 0, Site::Kind::word);
  }
  /// `ahead`: bytes from the tensor's address to the map's first element.
  void put_map(std::size_t offset, const MapShape& shape, const Address& base, DType element, const char* what,
               std::size_t ahead = 0) {
    maps.push_back({offset, shape, static_cast<const std::byte*>(base.data) + ahead, element, what});
    note(base.slot, offset, ahead, Site::Kind::tensor_map);
  }
  void note(std::size_t slot, std::size_t offset, std::size_t ahead, Site::Kind kind) {
    if (slot != no_slot) sites.push_back({slot, offset, ahead, kind});
  }
};

}  // namespace unisono::families
