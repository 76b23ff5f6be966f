// An epilogue without normalisation and reductions, one element at a time: for kernels that are not of this library
// (docs/device-visitors.md). Each thread makes one from the kernel's parameters, and calls it for its sums:
//
//   const Epilogue epilogue(params, {y});                      once a thread: scalars are read
//   epilogue(sum, {image, m}, channel, channels);              stores all results of element [m, channel]
//
// `m` counts the rows of all images, `image` those that are done: operands [b] and [b,n] are the image's. Elements of
// [m,n] lie at m * channels + channel, in operands and results. Every element is called for exactly once; the one that
// has channel 0 stores the results of the row.
#pragma once
#include "unisono/epilogue/folds.cuh"
#include "unisono/epilogue/operands.cuh"
#include "unisono/epilogue/placed.cuh"

namespace unisono {

// Where the results of 16 bits go that the header's first lines call `main` and `side`; others are members of Params.
struct ElementResults {
  void* main = nullptr;
  void* side = nullptr;
};

template <class Visitor>
struct ElementVisitor {
  using Params = typename Visitor::Params;
  static_assert(Visitor::kColumnsBefore == 0 && Visitor::kTensorsBefore == 0 && !Visitor::kRaw,
                "nothing is normalised");
  const Params& params;
  const ElementResults to;
  const typename Visitor::Uniform uniform;

  UNISONO_DEVICE ElementVisitor(const Params& p, const ElementResults& results)
      : params(p), to(results), uniform(Visitor::uniform(p)) {}

  // Operands [m,n] that the element reads.
  UNISONO_DEVICE void load_tensors(u64 offset, u64 m, int channel, float* tensor) const {
    for_indices<0, Visitor::kTensors>([&](auto i) { tensor[i.kValue] = this->load<i.kValue>(offset, m, channel); });
  }
  template <int i>
  UNISONO_DEVICE float load(u64 offset, u64 m, int channel) const {
    const auto source = Visitor::template tensor<i>(params);
    return source.element(source.offset(offset, m, channel));
  }
};

// What an epilogue stores of 16 bits of an element: of one value for each, and another if kBoth;
template <class Visitor, bool kBoth>
struct SecondElement {
  static UNISONO_DEVICE void store(const ElementVisitor<Visitor>& of, u64 offset, float sum, const float* column,
                                   const float* tensor) {
    store_element<typename Visitor::Side>(of.to.side, offset, Visitor::side(sum, column, tensor, of.uniform));
  }
};
template <class Visitor>
struct SecondElement<Visitor, false> {
  static UNISONO_DEVICE void store(const ElementVisitor<Visitor>&, u64, float, const float*, const float*) {}
};
// of a general one's results, none, one or two.
template <class Visitor, int kTiled = Visitor::kTiled>
struct TiledElements {
  static UNISONO_DEVICE void store(const ElementResults& to, u64 offset, const typename Visitor::Result& result) {
    store_element<typename Visitor::Output>(to.main, offset, Visitor::tiled(result, 0));
    store_element<typename Visitor::Side>(to.side, offset, Visitor::tiled(result, 1));
  }
};
template <class Visitor>
struct TiledElements<Visitor, 1> {
  static UNISONO_DEVICE void store(const ElementResults& to, u64 offset, const typename Visitor::Result& result) {
    store_element<typename Visitor::Output>(to.main, offset, Visitor::tiled(result, 0));
  }
};
template <class Visitor>
struct TiledElements<Visitor, 0> {
  static UNISONO_DEVICE void store(const ElementResults&, u64, const typename Visitor::Result&) {}
};

// A value for each element, and a second one.
template <class Visitor>
struct PointwiseEpilogue : ElementVisitor<Visitor> {
  using ElementVisitor<Visitor>::ElementVisitor;

  UNISONO_DEVICE void operator()(float sum, const Where& at, int channel, int channels) const {
    float column[larger(1, Visitor::kColumnsAfter)], tensor[larger(1, Visitor::kTensors)];
    Visitor::columns_after(this->params, this->uniform, at.image, channel, column);
    const u64 offset = u64(at.m) * channels + channel;
    this->load_tensors(offset, at.m, channel, tensor);
    store_element<typename Visitor::Output>(this->to.main, offset,
                                            Visitor::after(sum, 0.f, column, tensor, this->uniform));
    SecondElement<Visitor, Visitor::kSide != SideStore::kNone>::store(*this, offset, sum, column, tensor);
  }
};

// Values of rows, coordinates, effects, and results of any type and number (epilogue/general.cuh).
template <class Visitor>
struct GeneralElementEpilogue : ElementVisitor<Visitor> {
  using ElementVisitor<Visitor>::ElementVisitor;
  static_assert(Visitor::kLevels == 0 && Visitor::kDomains == 0, "nothing is reduced");

  UNISONO_DEVICE void operator()(float sum, const Where& at, int channel, int channels) const {
    float column[larger(1, Visitor::kColumnsAfter)], tensor[larger(1, Visitor::kTensors)], none[1];
    const typename Visitor::Row row = Visitor::row(this->params, this->uniform, at);
    if (channel == 0) Visitor::close_row(this->params, this->uniform, at, row, none);
    Visitor::columns_after(this->params, this->uniform, at.image, channel, column);
    const u64 offset = u64(at.m) * channels + channel;
    this->load_tensors(offset, at.m, channel, tensor);
    const auto result = Visitor::element(sum, column, tensor, this->uniform, row, at, channel, true, none);
    TiledElements<Visitor>::store(this->to, offset, result);
    Visitor::put(this->params, offset, result);
  }
};

}  // namespace unisono
