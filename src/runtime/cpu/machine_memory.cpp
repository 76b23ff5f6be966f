/// How a machine reaches memory beyond L1: outputs that are written in groups of blocks, and what
/// the next block reads.

#include <algorithm>
#include <cstring>

#include "runtime/cpu/machine.hpp"

namespace unisono::cpu {

namespace {

constexpr std::int64_t cache_line = cache_line_floats * static_cast<std::int64_t>(sizeof(float));

// How many of `rows` rows from `first` on end a cache line of a channels-first output; all if its image rows are
// not contiguous
std::int64_t whole_lines(const BoundTensor& out, const Extents& e, std::int64_t image, std::int64_t first,
                         std::int64_t rows) {
  if (out.strides.row != e.width * out.strides.pixel) return rows;
  const std::int64_t start = image * out.strides.image + first;
  const auto at = reinterpret_cast<std::uintptr_t>(static_cast<const float*>(out.target) + start + rows);
  const auto beyond = static_cast<std::int64_t>(at / sizeof(float) % cache_line_floats);
  return beyond < rows ? rows - beyond : rows;
}

}  // namespace

void Machine::defer_output(int store, std::byte* buffer) {
  for (const Instruction& i : program_.instructions) {
    if (i.kind != Kind::store || i.index != store) continue;
    const auto reg = static_cast<std::size_t>(i.source[0]);
    places_[reg] = {buffer, program_.registers[reg].shape.cols * static_cast<std::int64_t>(sizeof(float)), 0};
    in_place_[reg] = true;
    stored_by_[static_cast<std::size_t>(store)] = i.source[0];
    deferred_.push_back({store, i.source[0], buffer, 0});
  }
}

void Machine::start_strip(std::int64_t image, std::int64_t row) {
  for (Deferred& d : deferred_) {
    d.first = row;
    places_[static_cast<std::size_t>(d.reg)].origin = image * plan_.extents.rows_per_image() + row;
  }
}

void Machine::finish_group(std::int64_t image, std::int64_t end, bool last) {
  bool past_caches = false;
  for (Deferred& d : deferred_) {
    const BoundTensor& out = bound_.outputs[static_cast<std::size_t>(d.store)];
    RegisterMemory& place = places_[static_cast<std::size_t>(d.reg)];
    const std::int64_t rows = end - d.first;
    const std::int64_t now = last ? rows : whole_lines(out, plan_.extents, image, d.first, rows);
    store_block(unit_, d.buffer, false, plan_.extents, {image, d.first, now},
                program_.registers[static_cast<std::size_t>(d.reg)].shape.cols, out);
    std::memmove(d.buffer, d.buffer + now * place.pitch, static_cast<std::size_t>((rows - now) * place.pitch));
    d.first += now;
    place.origin += now;
    past_caches = past_caches || out.past_caches;
  }
  if (last && past_caches) unit_.finish_stores_past_caches();
}

// Reads ahead in what stands in memory, a block at a time: the pages of 4 KiB at which the processor itself stops
// reading ahead are as large as a block. Outputs, too: the processor reads a line before it writes to it.
void Machine::prefetch_next() const {
  const std::int64_t next = block_.image * plan_.extents.rows_per_image() + block_.first + block_.rows;
  const auto prefetch = [&](const RegisterMemory& p) {
    const std::byte* from = p.base + (next - p.origin) * p.pitch;
    for (std::int64_t at = 0; at < block_.rows * p.pitch; at += cache_line) __builtin_prefetch(from + at);
  };
  for (std::size_t r = 0; r < places_.size(); ++r) {
    const Home home = program_.registers[r].home;
    const bool is_read = home == Home::accumulator || home == Home::kept || home == Home::operand;
    if (places_[r].pitch != 0 && is_read) prefetch(places_[r]);
  }
  for (const int r : written_) prefetch(places_[static_cast<std::size_t>(r)]);
}

}  // namespace unisono::cpu
