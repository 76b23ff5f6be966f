#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.hpp"
#include "support/says.hpp"
#include "unisono/error.hpp"

namespace unisono::codegen {
namespace {

template <class Error>
std::string message(std::string_view text, const Options& options = {}) {
  try {
    kernel_of(text, options);
  } catch (const Error& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("of another class: ") + e.what();
  }
  return "(no error)";
}

std::string refusal(std::string_view text, const Options& options) {
  const auto refused = refuse_operands(epilogue_of(text), options);
  return refused ? refused->text() : "(no refusal)";
}

TEST(Refusal, AFunctionWithoutCudaText) {
  EXPECT_THAT(
      message<UserError>("store host_only(acc) as y : bf16"),
      Says("function host_only … no cuda_source: expected … __device__ float host_only(…); give it, … CPU device"));
}

TEST(Refusal, TensorsOfOtherDtypes) {
  Options options;
  options.storage = {{"r", DType::f64}};
  EXPECT_THAT(refusal("store acc + r[m,n] as y : bf16", options),
              Says("'r[m,n]' is not … GPU kernel: operands [m,n] are bf16, f16, f32, i32 or bool … not f64. It runs … "
                   "CPU device"));
}

TEST(Refusal, ColumnsOfF64) {
  Options options;
  options.storage = {{"bias", DType::f64}};
  EXPECT_THAT(refusal("store acc + bias[n] as y : bf16", options),
              Says("'bias[n]' is not … GPU kernel: its storage is f64. … CPU device"));
}

// What is passed by value has no memory of that type
TEST(Refusal, ScalarsOfF64) {
  Options options;
  options.storage = {{"factor", DType::f64}};
  EXPECT_EQ(refusal("store acc * factor[] as y : bf16", options), "(no refusal)");
  options.scalar_pointers = {"factor"};
  EXPECT_THAT(refusal("store acc * factor[] as y : bf16", options),
              Says("'factor[]' is not … GPU kernel: its storage is f64. … CPU device"));
}

// Whoever generates has asked first
TEST(Refusal, OperandsThatNobodyHasJudged) {
  Options options;
  options.storage = {{"bias", DType::f64}};
  EXPECT_THROW(kernel_of("store acc + bias[n] as y : bf16", options), InternalError);
}

// What only a planner could get wrong
TEST(Refusal, AConfigurationThatDoesNotFit) {
  const plan::Epilogue plain = epilogue_of("store acc as y : bf16"),
                       norm = epilogue_of("store group_norm(acc, groups=4) as y : bf16"),
                       raw = epilogue_of("store acc + group_norm(acc, groups=4) as y : bf16");
  EXPECT_THROW(generate(plain, config_of(norm)), InternalError);
  EXPECT_THROW(generate(norm, config_of(plain)), InternalError);
  families::sm90_conv::ConvConfig config = config_of(norm);
  config.statistics = families::sm90_conv::StreamedStatistics{.unit = config.unit()};
  EXPECT_NO_THROW(generate(norm, config));
  EXPECT_THROW(generate(raw, config), InternalError);
  config.statistics = families::sm90_conv::StreamedStatistics{.unit = 3};
  EXPECT_THROW(generate(norm, config), InternalError);
  config = {};
  config.element = DType::f32;
  EXPECT_THROW(generate(plain, config), InternalError);
}

}  // namespace
}  // namespace unisono::codegen
