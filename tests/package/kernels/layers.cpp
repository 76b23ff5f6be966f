// What a user's library does with its kernels, here without memory.
#include "layers.hpp"

#include "block.h"
#include "dense.h"
#include "single.h"
#ifdef WITH_CUTLASS
#include "tree.h"
#endif

std::vector<Outcome> launch_all() {
  std::vector<Outcome> all;
  const auto add = [&](const char* name, int status, const char* text) { all.push_back({name, status, text}); };
  const dense_arguments dense{};
  int status = dense_run(&dense, nullptr);
  add("dense", status, dense_text(status));
  block_arguments block{};
  block.workspace_bytes = block_workspace_bytes();
  status = block_run(&block, nullptr);
  add("block", status, block_text(status));
  const single_arguments single{};
  status = single_run(&single, nullptr);
  add("single", status, single_text(status));
#ifdef WITH_CUTLASS
  if (status < 0) return all;  // there is a GPU, and CUTLASS does not ask for null pointers
  tree_arguments tree{};
  tree.m = 256, tree.n = 128, tree.k = 128, tree.batch = 1;
  tree.pitch_a = tree.pitch_b = tree.pitch_d = 128, tree.sms = 132;
  status = tree_run(&tree, nullptr);
  add("tree", status, tree_text(status));
#endif
  return all;
}
