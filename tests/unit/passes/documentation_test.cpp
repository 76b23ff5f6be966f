#include <gtest/gtest.h>

#include <algorithm>

#include "passes/canonicalise.hpp"
#include "passes/eliminate_reductions.hpp"
#include "passes/factor_cross_entropy.hpp"
#include "passes/fuse_multiply_add.hpp"
#include "passes/fuse_operators.hpp"
#include "passes/gather_factors.hpp"
#include "passes/passes.hpp"
#include "passes/split_normalisations.hpp"
#include "support/golden.hpp"
#include "support/sources.hpp"

namespace unisono::passes {
namespace {

// docs/passes.md names every pass and every row, as code
TEST(Documentation, NamesEveryPassAndEveryRow) {
  std::string text = test::text_of(test::source_path("docs/passes.md"));
  for (auto bar = text.find("\\|"); bar != text.npos; bar = text.find("\\|")) text.erase(bar, 1);  // a bar in a table
  for (const Pass& pass : pipeline())
    EXPECT_NE(text.find("| `" + std::string(pass.name) + "` |"), text.npos) << pass.name;
  for (const RowTable* table : {&canonical_rows(), &fusion_rows(), &cross_entropy_rows(), &softmax_rows(),
                                &reduction_rows(), &multiply_add_rows(), &factor_rows()})
    for (const Row& row : table->rows()) EXPECT_NE(text.find("`" + std::string(row.name) + "`"), text.npos) << row.name;
}

}  // namespace
}  // namespace unisono::passes
