// Loads and stores of TMA.

#include "emulator/tma.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "emulator/grid.hpp"

namespace unisono_emulator {

namespace {

TensorMap map_at(const void* memory) {
  TensorMap map;
  std::memcpy(&map, memory, sizeof map);
  if (!map.valid) throw std::runtime_error("a load or store by something that is no tensor map");
  return map;
}

// One element's place in global memory, or null outside the tensor
std::uint8_t* element(const TensorMap& map, const std::int64_t (&at)[5]) {
  std::uint64_t address = map.base + static_cast<std::uint64_t>(at[0]) * map.element_bytes;
  for (int i = 0; i < map.rank; ++i) {
    if (at[i] < 0 || at[i] >= map.extents[i]) return nullptr;
    if (i > 0) address += static_cast<std::uint64_t>(at[i]) * map.strides[i - 1];
  }
  return reinterpret_cast<std::uint8_t*>(address);
}

// Calls f(element in global memory or null, offset in shared memory) for each element of a box.
template <class F>
void for_box(const TensorMap& map, const Coordinates& from, F&& f) {
  std::uint32_t offset = 0;
  std::int64_t index[5] = {};
  for (;;) {
    std::int64_t at[5];
    for (int i = 0; i < 5; ++i) at[i] = from.at[i] + index[i] * map.steps[i];
    f(element(map, at), offset);
    offset += map.element_bytes;
    int axis = 0;
    while (axis < map.rank && ++index[axis] == map.box[axis]) index[axis++] = 0;
    if (axis == map.rank) return;
  }
}

// The same of the pixels of an im2col load: (channels, w, h, n) or (channels, w, h, d, n), along the box's rows, then
// its lines, planes, images.
template <class F>
void for_pixels(const TensorMap& map, const Coordinates& from, F&& f) {
  const int axes = map.rank - 2;
  if (axes == 3)
    for (const std::uint16_t offset : from.offset)
      if (offset > 31) throw std::runtime_error("an im2col load of a volume with an offset above 31");
  std::int64_t at[5];
  std::copy_n(from.at, 5, at);
  std::uint32_t offset = 0;
  for (int pixel = 0; pixel < map.pixels; ++pixel) {
    std::int64_t seen[5] = {at[0], at[1], at[2], at[3], at[4]};
    for (int i = 0; i < axes; ++i) seen[i + 1] += from.offset[i];
    for (int c = 0; c < map.channels; ++c, ++seen[0], offset += map.element_bytes) f(element(map, seen), offset);
    int i = 0;
    while (i < axes && (at[i + 1] += map.steps[i + 1]) > std::int64_t{map.extents[i + 1]} - 1 + map.upper[i])
      at[i + 1] = map.lower[i], ++i;
    if (i == axes) ++at[axes + 1];
  }
}

std::uint32_t bytes_of(const TensorMap& map) {
  std::uint32_t count = map.element_bytes;
  if (map.im2col) return count * map.channels * map.pixels;
  for (int i = 0; i < map.rank; ++i) count *= map.box[i];
  return count;
}

// `ahead`: issued before the launches ahead were waited for. It may read what no launch writes, and nothing else.
void load(Cta& cta, std::uint32_t to, const TensorMap& map, std::uint32_t barrier, const Coordinates& from,
          bool ahead) {
  const std::uint32_t bytes = bytes_of(map);
  if (to % 128 != 0) throw std::runtime_error("a load to shared memory that is not aligned to 128 bytes");
  if (from.at[0] * map.element_bytes % 16 != 0)  // seen on an H200: an illegal instruction
    throw std::runtime_error("a load from an innermost coordinate that is no multiple of 16 bytes");
  cta.memory(to, bytes);
  const auto put = [&](const std::uint8_t* source, std::uint32_t offset) {
    std::uint8_t* target = cta.shared + swizzled(to + offset, std::max<int>(16, map.swizzle_bytes));
    if (source == nullptr)
      std::memset(target, 0, map.element_bytes);
    else if (ahead && is_written_by_launches(source))
      throw std::runtime_error("a load ahead of griddepcontrol.wait reads what a launch writes");
    else
      std::memcpy(target, source, map.element_bytes);
  };
  const bool hidden = grid->launches_ahead;
  if (ahead && hidden) show_memory();
  if (map.im2col)
    for_pixels(map, from, put);
  else
    for_box(map, from, put);
  if (ahead && hidden) hide_memory();
  complete_bytes(cta, barrier, static_cast<std::int32_t>(bytes));
}

}  // namespace

void copy_load(std::uint32_t to, const void* memory, std::uint32_t barrier, const Coordinates& from, unsigned ctas) {
  const TensorMap map = map_at(memory);
  Cta* own = current->cta;
  const bool ahead = grid->launches_ahead && !current->has_waited;
  for (std::size_t i = 0; i < own->cluster->ctas.size(); ++i) {
    Cta* target = own->cluster->ctas[i];
    if (ctas == 0 ? target != own : (ctas >> i & 1) == 0) continue;
    grid->copies.emplace_back([=] { load(*target, to, map, barrier, from, ahead); });
  }
  if (ctas >> own->cluster->ctas.size() != 0) fail("a load for a block that the cluster does not have");
}

void copy_store(const void* memory, std::uint32_t from, const Coordinates& to) {
  const TensorMap map = map_at(memory);
  if (map.im2col) fail("a store by an im2col map");
  Cta* cta = current->cta;
  cta->memory(from, bytes_of(map));
  auto done = std::make_shared<bool>(false);
  current->open_copies.push_back(done);
  grid->copies.emplace_back([=] {
    for_box(map, to, [&](std::uint8_t* target, std::uint32_t offset) {
      if (target != nullptr)
        std::memcpy(target, cta->shared + swizzled(from + offset, std::max<int>(16, map.swizzle_bytes)),
                    map.element_bytes);
    });
    *done = true;
  });
}

void bulk_load(std::uint32_t to, const void* from, std::uint32_t barrier, std::uint32_t bytes) {
  if (to % 16 != 0 || reinterpret_cast<std::uintptr_t>(from) % 16 != 0 || bytes % 16 != 0)
    fail("a bulk copy at no multiple of 16 bytes");
  Cta* cta = current->cta;
  cta->memory(to, bytes);
  grid->copies.emplace_back([=] {
    std::memcpy(cta->shared + to, from, bytes);
    complete_bytes(*cta, barrier, static_cast<std::int32_t>(bytes));
  });
}

void bulk_store(void* to, std::uint32_t from, std::uint32_t bytes) {
  if (from % 16 != 0 || reinterpret_cast<std::uintptr_t>(to) % 16 != 0 || bytes % 16 != 0)
    fail("a bulk copy at no multiple of 16 bytes");
  Cta* cta = current->cta;
  cta->memory(from, bytes);
  auto done = std::make_shared<bool>(false);
  current->open_copies.push_back(done);
  grid->copies.emplace_back([=] {
    std::memcpy(to, cta->shared + from, bytes);
    *done = true;
  });
}

void copy_commit() {
  current->copies.push_back(std::move(current->open_copies));
  current->open_copies.clear();
}

void copy_wait(int pending) {
  Thread& thread = *current;
  wait_until("its stores", [&thread, pending] {
    const auto done = [](const auto& group) {
      return std::all_of(group.begin(), group.end(), [](const auto& copy) { return *copy; });
    };
    while (static_cast<int>(thread.copies.size()) > pending && done(thread.copies.front())) thread.copies.pop_front();
    return static_cast<int>(thread.copies.size()) <= pending;
  });
}

}  // namespace unisono_emulator
