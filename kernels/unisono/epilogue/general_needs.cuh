// What an epilogue needs for a general visitor (epilogue/general.cuh).
#pragma once
#include "unisono/epilogue/folds.cuh"
#include "unisono/epilogue/row_groups.cuh"
#include "unisono/params/sm90_shared_layout.cuh"

namespace unisono {

// Config::kElementsInShared: epilogue/general_shared.cuh.
template <class Config, class = void>
struct ElementsInShared {
  static constexpr bool kValue = false;
};
template <class Config>
struct ElementsInShared<Config, typename Said<Config::kElementsInShared>::Type> {
  static constexpr bool kValue = Config::kElementsInShared;
};

// What only a general epilogue's visitor says: how many results TMA stores, and the shared memory of its reductions.
template <class Config, class Visitor, bool kGeneral>
struct GeneralNeeds {
  static constexpr int kTiled = 1, kFoldBytes = 0;
  static constexpr bool kMeets = false;
};
template <class Config, class Visitor>
struct GeneralNeeds<Config, Visitor, true> {
  static constexpr int kTiled = Visitor::kTiled;
  static constexpr bool kMeets = Config::kMeets;
  static constexpr int kFoldWords = larger(Visitor::kChannelFolds + 2 * Visitor::kMoments, Returns<Visitor>::words());
  static constexpr int kFoldOnly = int(shared_layout::fold_bytes(kFoldWords, Config::kTileN, Visitor::kTileFolds)),
                       kElementsAt = kFoldOnly + RowGroups<Config, Visitor>::kBytes,
                       kFoldBytes =
                           kElementsAt +
                           (ElementsInShared<Config>::kValue ? int(shared_layout::element_bytes(Config::kTileN)) : 0);
};

}  // namespace unisono
