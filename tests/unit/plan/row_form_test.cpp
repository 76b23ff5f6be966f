#include "passes/row_form.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/analyse.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::plan {
namespace {

constexpr Extents extents{.images = 1, .height = 1, .width = 64, .cols = 1024};

Forms analysed(const std::string& text, std::int64_t columns = extents.cols) {
  Extents e = extents;
  e.cols = columns;
  return analyse_forms(passes::run_pipeline(parse(text)), e, {.channels = 256}).value();
}

/// The form of a general epilogue that is one normalisation of rows; null: there is none.
const Epilogue* rows_of(const Forms& forms) {
  const auto found = std::ranges::find_if(forms.list, test::is_rows);
  return forms.list[0].general() && found != forms.list.end() ? &*found : nullptr;
}

TEST(RowForms, SoftmaxIsANormalisationOfRows) {
  for (const char* text :
       {"store softmax(acc, over=n) as y : bf16", "store softmax(acc * 0.5 + bias[n], over=n) as y : f16",
        "h = acc + r[m,n]\nstore h : bf16\nstore softmax(h, over=n) * gamma[n] + c[n] as y : bf16",
        "store exp(acc - max(acc, over=n)) / sum(exp(acc - max(acc, over=n)), over=n) as y : bf16"}) {
    const Forms e = analysed(text);
    const Epilogue* const rows = rows_of(e);
    ASSERT_NE(rows, nullptr) << text;
    EXPECT_TRUE(rows->norm()->maximum && rows->norm()->sum) << text;
    EXPECT_TRUE(rows->normalises_rows()) << text;
    EXPECT_FALSE(rows->norm()->variance.has_value()) << text;
  }
}

TEST(RowForms, RmsNormHasAMeanOfSquares) {
  for (const char* text : {"store rms_norm(acc, scale=gamma[n]) as y : bf16",
                           "h = acc + r[m,n]\nstore h : bf16\nstore rms_norm(h) as y : bf16",
                           "store silu(rms_norm(acc + bias[n]) + beta[n]) as y : f16",
                           "store acc * rsqrt(mean(square(acc), over=n) + 1e-5) as y : bf16"}) {
    const Forms e = analysed(text, 768);
    const Epilogue* const rows = rows_of(e);
    ASSERT_NE(rows, nullptr) << text;
    EXPECT_TRUE(rows->norm()->mean_square) << text;
    EXPECT_TRUE(rows->norm()->factor.has_value()) << text;
    EXPECT_FALSE(rows->norm()->shift.has_value()) << text;
  }
}

// Over no more channels than a tile has, it has had this form all along
TEST(RowForms, LayerNormOverMoreChannelsThanATileHas) {
  const Forms wide = analysed("store silu(layer_norm(acc, scale=gamma[n])) as y : bf16");
  ASSERT_NE(rows_of(wide), nullptr);
  EXPECT_TRUE(rows_of(wide)->norm()->mean && rows_of(wide)->norm()->variance);
  const Epilogue narrow = analysed("store silu(layer_norm(acc, scale=gamma[n])) as y : bf16", 256).list[0];
  EXPECT_FALSE(narrow.general());
  EXPECT_TRUE(narrow.normalises_rows());
}

// Stores of f32, more than two, values of rows ahead and behind: results as a second pass has them
TEST(RowForms, ResultsOfAnyKind) {
  for (const char* text : {"store softmax(acc, over=n) as y : f32", "store softmax(acc * w[m], over=n) as y : bf16",
                           "y = rms_norm(acc)\nstore y as y : bf16\nstore y * w[m] as z : f32",
                           "store layer_norm(acc + bias[n]) as y : f32",
                           "h = acc * w[m]\nstore h as h : bf16\nstore softmax(h, over=n) as y : bf16"}) {
    const Forms e = analysed(text);
    const Epilogue* const rows = rows_of(e);
    ASSERT_NE(rows, nullptr) << text;
    EXPECT_TRUE(rows->results == Results::any && rows->normalises_rows()) << text;
    EXPECT_EQ(rows->wide_main(), std::string(text).find("f32") != std::string::npos) << text;
    EXPECT_EQ(rows->reads.rows.size(), std::string(text).find("w[m]") != std::string::npos ? 1U : 0U) << text;
  }
  const Forms images = analysed("store softmax(acc * (w[m] + s[b]), over=n) as y : f32");
  ASSERT_NE(rows_of(images), nullptr);
  EXPECT_TRUE(rows_of(images)->per_image());  // a row's value is computed from its image's
}

TEST(RowForms, WhatReadsMoreStaysGeneral) {
  for (const char* text :
       {"store softmax(acc, over=n, groups=4) as y : bf16",  // groups
        "m = max(acc, over=n)\nstore exp(acc - m) / sum(exp(acc - m), over=n) as y : bf16\nstore m as m : f32",
        "store log(softmax(acc, over=n)) as y : bf16",          // the sum itself is read
        "store rms_norm(acc) + mean(acc, over=n) as y : bf16",  // a second reduction
        "store acc + mean(square(acc), over=n) as y : bf16",    // no product
        "store layer_norm(softmax(acc, over=n)) as y : bf16",   // two in a row
        "store softmax(acc, over=n) as y : i32",                // neither f32 nor 16 bits
        "y = softmax(acc, over=n)\nstore y as y : f32\nstore sum(y, over=m) as total : f32",
        "store acc as a : f32\nstore softmax(acc, over=n) as y : bf16",  // f32 ahead of it
        "store mean(acc, over=n) as y : f32"}) {
    const Forms e = analysed(text);
    EXPECT_TRUE(e.list[0].general()) << text;
    EXPECT_EQ(rows_of(e), nullptr) << text;
  }
}

}  // namespace
}  // namespace unisono::plan
