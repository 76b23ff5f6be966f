// The table of element types, read through every column that the support layer has.

#include "support/dtypes.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <string_view>

#include "support/float_convert.hpp"
#include "unisono/error.hpp"

namespace unisono::support {
namespace {

TEST(DTypes, RowsAreWhatTheTypesWere) {
  struct Row {
    DType type;
    std::string_view name;
    std::size_t bytes;
    double roundoff;
  };
  constexpr std::array rows{Row{DType::f64, "f64", 8, 0x1p-53},
                            Row{DType::f32, "f32", 4, 0x1p-24},
                            Row{DType::tf32, "tf32", 4, 0x1p-11},
                            Row{DType::f16, "f16", 2, 0x1p-11},
                            Row{DType::bf16, "bf16", 2, 0x1p-8},
                            Row{DType::f8e4m3, "f8e4m3", 1, 0x1p-4},
                            Row{DType::f8e5m2, "f8e5m2", 1, 0x1p-3},
                            Row{DType::i32, "i32", 4, 0},
                            Row{DType::boolean, "bool", 1, 0},
                            Row{DType::i8, "i8", 1, 0},
                            Row{DType::u8, "u8", 1, 0},
                            Row{DType::i16, "i16", 2, 0},
                            Row{DType::u16, "u16", 2, 0},
                            Row{DType::u32, "u32", 4, 0},
                            Row{DType::i64, "i64", 8, 0},
                            Row{DType::u64, "u64", 8, 0}};
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(tensor_dtype_count));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(rows[i].type), i) << "the order is that of stored rows and bindings";
    EXPECT_EQ(to_string(rows[i].type), rows[i].name);
    EXPECT_EQ(size_of(rows[i].type), rows[i].bytes) << rows[i].name;
    EXPECT_EQ(unit_roundoff(rows[i].type), rows[i].roundoff) << rows[i].name;
    EXPECT_EQ(is_float(rows[i].type), i < 7) << rows[i].name;
    EXPECT_EQ(dtype_from_string(rows[i].name).has_value(), i < static_cast<std::size_t>(dtype_count)) << rows[i].name;
  }
}

TEST(DTypes, MatrixInstructionsMultiplyFourOfThem) {
  for (int i = 0; i < tensor_dtype_count; ++i) {
    const auto t = static_cast<DType>(i);
    const bool is_word = t == DType::f32 || t == DType::tf32, is_short = t == DType::bf16 || t == DType::f16;
    EXPECT_EQ(matrix_operand(t).has_value(), is_word || is_short) << to_string(t);
    EXPECT_EQ(is_multiplied_as_tf32(t), is_word) << to_string(t);
    EXPECT_EQ(is_short_float(t), is_short) << to_string(t) << ": an integer of 16 bits is none";
  }
  EXPECT_EQ(matrix_time(DType::f32), 2);
  EXPECT_EQ(matrix_time(DType::bf16), 1);
  EXPECT_THROW(matrix_time(DType::f8e4m3), InternalError) << "as wide as nothing that is multiplied";
  EXPECT_EQ(elements_of_a_vector(DType::f16), 8);
  EXPECT_EQ(elements_of_a_vector(DType::f32), 4);
}

TEST(DTypes, AnElementThatIsStoredIsRead) {
  for (const DType t : {DType::f64, DType::f32, DType::tf32, DType::f16, DType::bf16, DType::i32, DType::boolean}) {
    std::array<double, 2> memory{};
    store(memory.data(), 1, t, 1);
    EXPECT_EQ(load(memory.data(), 1, t), 1) << to_string(t);
    EXPECT_EQ(load(memory.data(), 0, t), 0) << to_string(t) << ": the element before it";
  }
  double memory = 0;
  for (const DType t : {DType::f8e4m3, DType::f8e5m2, DType::i8, DType::u16, DType::i64}) {
    EXPECT_THROW(load(&memory, 0, t), Unsupported) << to_string(t);
    EXPECT_THROW(store(&memory, 0, t, 1), Unsupported) << to_string(t);
    EXPECT_THROW(round_to(1, t), Unsupported) << to_string(t);
  }
}

}  // namespace
}  // namespace unisono::support
