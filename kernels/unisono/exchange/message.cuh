// How a statistic (exchange/statistic.cuh) travels between CTAs: in entries of sixteen bytes, three floats and a tag,
// each written and read as one. The tag is the launch's epoch plus one. A reader polls the entry itself until the tag
// is this launch's, so that neither counters nor fences stand between writer and reader, and a replay needs no memset.
#pragma once
#include "unisono/exchange/statistic.cuh"
#include "unisono/ptx/global.cuh"
#include "unisono/ptx/sm90_barrier.cuh"

namespace unisono {

constexpr u32 kPollPause = 100;  // ns; thousands of threads poll: leave the cache to the main loops

UNISONO_DEVICE void write_entry(Entry* entry, float first, float second, float third, u32 epoch) {
  delay_point();
  store_whole(entry, {__float_as_uint(first), __float_as_uint(second), __float_as_uint(third), epoch + 1});
}

// One value of a statistic: as many entries as its floats fill, the rest of the last one zeros.
template <class Statistic>
struct Message {
  static constexpr int kFloats = Statistic::kFloats, kEntries = entries_of(kFloats);

  Entry entries[kEntries];

  static UNISONO_DEVICE Statistic value_of(const uint4* words) {
    return Statistic::unpack([&](int i) {
      const uint4& of = words[i / 3];
      return __uint_as_float(i % 3 == 0 ? of.x : i % 3 == 1 ? of.y : of.z);
    });
  }
  // Entry `e` of a message that changes nothing where it is merged.
  static UNISONO_DEVICE uint4 nothing(int e, u32 tag) {
    const Statistic identity = Statistic::identity();
    auto of = [&](int i) { return i < kFloats ? __float_as_uint(identity.packed(smaller(i, kFloats - 1))) : 0u; };
    return {of(3 * e), of(3 * e + 1), of(3 * e + 2), tag};
  }
};

template <int e = 0, class Statistic>
UNISONO_DEVICE void write_message(Message<Statistic>* to, const Statistic& value, u32 epoch) {
  constexpr int kFloats = Statistic::kFloats;
  auto of = [&](int i) { return i < kFloats ? value.packed(smaller(i, kFloats - 1)) : 0.f; };
  write_entry(to->entries + e, of(3 * e), of(3 * e + 1), of(3 * e + 2), epoch);
  if constexpr (e + 1 < Message<Statistic>::kEntries) write_message<e + 1>(to, value, epoch);
}

// The value of a message that is known to have come.
template <class Statistic>
UNISONO_DEVICE Statistic read_message(const Message<Statistic>* from) {
  uint4 words[Message<Statistic>::kEntries];
#pragma unroll
  for (int e = 0; e < Message<Statistic>::kEntries; ++e) words[e] = load_whole(from->entries + e);
  return Message<Statistic>::value_of(words);
}

// Merges `count` messages that lie `stride` apart, in order, each once it is written. kBatch of them are in flight.
template <int kBatch, class Statistic>
UNISONO_DEVICE Statistic merge_messages(const Message<Statistic>* message, size_t stride, int count, u32 epoch) {
  constexpr int kEntries = Message<Statistic>::kEntries, kInFlight = kBatch * kEntries;
  typename Statistic::Batches merged;
  for (int base = 0; base < count; base += kBatch) {
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i)
      words[i] = Message<Statistic>::nothing(i % kEntries, base + i / kEntries < count ? epoch : epoch + 1);
    Watchdog watchdog;
    delay_point();
    for (;;) {
#pragma unroll
      for (int i = 0; i < kInFlight; ++i)
        if (words[i].w != epoch + 1)
          words[i] = load_whole((message + (base + i / kEntries) * stride)->entries + i % kEntries);
      bool complete = true;
#pragma unroll
      for (int i = 0; i < kInFlight; ++i) complete &= words[i].w == epoch + 1;
      if (complete) break;
      __nanosleep(kPollPause);
      watchdog.tick();
    }
    merged.template add<kBatch>([&](int i) { return Message<Statistic>::value_of(words + i * kEntries); }, base == 0);
  }
  return merged.total();
}

}  // namespace unisono
