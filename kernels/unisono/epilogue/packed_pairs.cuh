// Pairs of a tile's results on their way to its stores, a word each: what a slice has of the main store and, if there
// is one, of the second.
#pragma once
#include "unisono/epilogue/visitor.cuh"

namespace unisono {

template <int kWords, bool kBoth>
struct PackedPairs {
  u32 main[kWords], side[kWords];
};
template <int kWords>
struct PackedPairs<kWords, false> {
  u32 main[kWords];
};

// Those of an epilogue with a value for each element, and another if kBoth; `of` has `after` and `side`.
template <class Visitor, int kWords, bool kBoth>
struct StoredPairs : PackedPairs<kWords, kBoth> {
  template <class Of>
  UNISONO_DEVICE void put(int i, const Of& of, float x, float y, const float* one, const float* two, const float* t1,
                          const float* t2, int row) {
    this->main[i] = Visitor::Output::pack(of.after(x, one, t1, row), of.after(y, two, t2, row));
    this->side[i] = Visitor::Side::pack(of.side(x, one, t1, row), of.side(y, two, t2, row));
  }
};
template <class Visitor, int kWords>
struct StoredPairs<Visitor, kWords, false> : PackedPairs<kWords, false> {
  template <class Of>
  UNISONO_DEVICE void put(int i, const Of& of, float x, float y, const float* one, const float* two, const float* t1,
                          const float* t2, int row) {
    this->main[i] = Visitor::Output::pack(of.after(x, one, t1, row), of.after(y, two, t2, row));
  }
};
// Without a normalisation.
template <class Visitor>
struct PlainElements {
  const typename Visitor::Uniform& uniform;
  UNISONO_DEVICE float after(float x, const float* column, const float* tensor, int) const {
    return Visitor::after(x, 0.f, column, tensor, uniform);
  }
  UNISONO_DEVICE float side(float x, const float* column, const float* tensor, int) const {
    return Visitor::side(x, column, tensor, uniform);
  }
};

// Those of a general epilogue (epilogue/general.cuh), which has none, one or two results for these stores. to(store):
// calls store(PackedPairs), unless there are none.
template <class Visitor, int kWords, int kTiled = Visitor::kTiled>
struct TiledPairs : PackedPairs<kWords, true> {
  UNISONO_DEVICE void put(int i, const typename Visitor::Result& left, const typename Visitor::Result& right) {
    this->main[i] = Visitor::Output::pack(Visitor::tiled(left, 0), Visitor::tiled(right, 0));
    this->side[i] = Visitor::Side::pack(Visitor::tiled(left, 1), Visitor::tiled(right, 1));
  }
  template <class Store>
  UNISONO_DEVICE void to(const Store& store) const {
    store(*this);
  }
};
template <class Visitor, int kWords>
struct TiledPairs<Visitor, kWords, 1> : PackedPairs<kWords, false> {
  UNISONO_DEVICE void put(int i, const typename Visitor::Result& left, const typename Visitor::Result& right) {
    this->main[i] = Visitor::Output::pack(Visitor::tiled(left, 0), Visitor::tiled(right, 0));
  }
  template <class Store>
  UNISONO_DEVICE void to(const Store& store) const {
    store(*this);
  }
};
template <class Visitor, int kWords>
struct TiledPairs<Visitor, kWords, 0> {
  UNISONO_DEVICE void put(int, const typename Visitor::Result&, const typename Visitor::Result&) {}
  template <class Store>
  UNISONO_DEVICE void to(const Store&) const {}
};

}  // namespace unisono
