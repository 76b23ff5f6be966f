// What a gradient of filters needs of an epilogue of CUTLASS 3.x. Its kernel counts columns as (C, S, R), for the
// window that B is loaded from; visitors, and results in rows of R·S·C elements, know one number. So this epilogue
// hands on the matrix (K, R·S·C), whose tile of columns is the same where C is a multiple of a tile's columns.
#pragma once
#include <cutlass/cutlass.h>
#include <cute/tensor.hpp>

namespace unisono::evt {

template <class Epilogue>
struct OneExtentOfColumns : Epilogue {
  using Epilogue::Epilogue;
  using Tile = typename Epilogue::CtaTileMNK;

  // (K, (C, S, R), N·P·Q, 1) with one extent of columns
  template <class Problem>
  CUTLASS_DEVICE static auto matrix(const Problem& problem) {
    using namespace cute;
    return make_shape(get<0>(problem), int(size(get<1>(problem))), get<2>(problem), Int<1>{});
  }
  template <class Problem, class Coordinates>
  CUTLASS_DEVICE static auto place(const Problem& problem, const Coordinates& at) {
    using namespace cute;
    const auto [c, s, r] = flatten(get<1>(at));
    const auto [channels, width, height] = get<1>(problem);
    const int across = channels / size<1>(Tile{});  // tiles of a tap
    return make_coord(int(get<0>(at)), int(c) + across * (int(s) + width * int(r)), get<2>(at), Int<0>{});
  }

  template <class Pipeline, class State, class Problem, class Shape, class Coordinates, class Mma, class Storage>
  CUTLASS_DEVICE auto load(Pipeline pipeline, State state, const Problem& problem, Shape, const Coordinates& at,
                           Mma mma, int thread, Storage& shared) {
    return Epilogue::load(pipeline, state, matrix(problem), Tile{}, place(problem, at), mma, thread, shared);
  }

  template <class Load, class LoadState, class Store, class StoreState, class Problem, class Shape, class Coordinates,
            class Accumulators, class Mma, class Storage>
  CUTLASS_DEVICE auto store(Load load, LoadState load_state, Store store, StoreState store_state,
                            const Problem& problem, Shape, const Coordinates& at, Accumulators accumulators, Mma mma,
                            int thread, Storage& shared) {
    return Epilogue::store(load, load_state, store, store_state, matrix(problem), Tile{}, place(problem, at),
                           accumulators, mma, thread, shared);
  }
};

}  // namespace unisono::evt
