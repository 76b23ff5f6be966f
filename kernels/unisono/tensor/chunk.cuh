// Chunks: neighbouring elements of a tensor that a thread has, loaded and stored together where they lie so.
#pragma once
#include "unisono/tensor/number.cuh"
#include "unisono/tensor/space.cuh"

namespace unisono::tensor {

// Bytes in registers, and the change to and from memory that is aligned to them, or to 16.
template <int kBytes>
struct Raw {
  static constexpr int kWords = (kBytes + 3) / 4;
  u32 words[kWords];

  static UNISONO_DEVICE bool is_aligned(const void* memory) {
    return reinterpret_cast<size_t>(memory) % (kBytes < 16 ? kBytes : 16) == 0;
  }
  UNISONO_DEVICE void load(const void* memory) {
    if constexpr (kBytes >= 16) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i) {
        const uint4 x = __ldg(static_cast<const uint4*>(memory) + i);
        words[4 * i] = x.x, words[4 * i + 1] = x.y, words[4 * i + 2] = x.z, words[4 * i + 3] = x.w;
      }
    } else if constexpr (kBytes == 8) {
      const uint2 x = __ldg(static_cast<const uint2*>(memory));
      words[0] = x.x, words[1] = x.y;
    } else {
      words[0] = __ldg(static_cast<const typename WordOf<kBytes>::Word*>(memory));
    }
  }
  UNISONO_DEVICE void store(void* memory) const {
    if constexpr (kBytes >= 16) {
#pragma unroll
      for (int i = 0; i < kBytes / 16; ++i)
        static_cast<uint4*>(memory)[i] = {words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
    } else if constexpr (kBytes == 8) {
      *static_cast<uint2*>(memory) = {words[0], words[1]};
    } else {
      using Word = typename WordOf<kBytes>::Word;
      *static_cast<Word*>(memory) = Word(words[0]);
    }
  }

  template <class Word>
  UNISONO_DEVICE Word word(int i) const {
    if constexpr (sizeof(Word) == 8) return words[2 * i] | u64(words[2 * i + 1]) << 32;
    const int bit = i * 8 * int(sizeof(Word));
    return Word(words[bit / 32] >> bit % 32);
  }
  // Into words that were zero.
  template <class Word>
  UNISONO_DEVICE void put(int i, Word word) {
    const int bit = i * 8 * int(sizeof(Word));
    words[bit / 32] |= u32(word) << bit % 32;
    if constexpr (sizeof(Word) == 8) words[2 * i + 1] |= u32(word >> 32);
  }
};

template <int kElements, class T>
struct Chunk {
  using Word = typename Stored<T>::Word;
  static constexpr int kBytes = kElements * int(sizeof(Word));
  NumberOf<T> of[kElements];
};

// Elements that lie together, where Raw may load and store them.
template <int kElements, class T>
UNISONO_DEVICE Chunk<kElements, T> load_word(const void* memory, i64 offset) {
  using Word = typename Chunk<kElements, T>::Word;
  Raw<Chunk<kElements, T>::kBytes> raw;
  raw.load(static_cast<const Word*>(memory) + offset);
  Chunk<kElements, T> chunk;
#pragma unroll
  for (int k = 0; k < kElements; ++k) chunk.of[k] = Stored<T>::number(raw.template word<Word>(k));
  return chunk;
}

template <int kElements, class T>
UNISONO_DEVICE void store_word(void* memory, i64 offset, const Chunk<kElements, T>& chunk) {
  Raw<Chunk<kElements, T>::kBytes> raw = {};
#pragma unroll
  for (int k = 0; k < kElements; ++k) raw.put(k, Stored<T>::word(chunk.of[k]));
  raw.store(static_cast<typename Chunk<kElements, T>::Word*>(memory) + offset);
}

// Those of `here` elements; the others are undefined.
template <int kElements, class T>
UNISONO_DEVICE Chunk<kElements, T> load_chunk(const MapTensor& tensor, i64 offset, int here) {
  using Word = typename Chunk<kElements, T>::Word;
  const Word* from = words<Word>(tensor.view) + offset;
  Chunk<kElements, T> chunk;
  if (tensor.step == 1 && here == kElements && Raw<Chunk<kElements, T>::kBytes>::is_aligned(from)) {
    chunk = load_word<kElements, T>(from, 0);
  } else if (tensor.step == 0) {
    const NumberOf<T> x = Stored<T>::number(__ldg(from));
#pragma unroll
    for (int k = 0; k < kElements; ++k) chunk.of[k] = x;
  } else {
#pragma unroll
    for (int k = 0; k < kElements; ++k)
      if (k < here) chunk.of[k] = Stored<T>::number(__ldg(from + k * tensor.step));
  }
  return chunk;
}

template <int kElements, class T>
UNISONO_DEVICE void store_chunk(const MapTensor& tensor, i64 offset, int here, const Chunk<kElements, T>& chunk) {
  using Word = typename Chunk<kElements, T>::Word;
  Word* to = words<Word>(tensor.view) + offset;
  if (tensor.step == 1 && here == kElements && Raw<Chunk<kElements, T>::kBytes>::is_aligned(to)) {
    store_word(to, 0, chunk);
  } else {
#pragma unroll
    for (int k = 0; k < kElements; ++k)
      if (k < here) to[k * tensor.step] = Stored<T>::word(chunk.of[k]);
  }
}

}  // namespace unisono::tensor
