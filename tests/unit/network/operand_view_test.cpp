/// How operands of every rank lie in memory and are read, element by element against NumPy's rules.

#include "network/operand_view.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "network/dim.hpp"
#include "network/space.hpp"
#include "network/storage.hpp"
#include "support/broadcasts.hpp"

namespace unisono::network {
namespace {

using test::broadcast_position;
using test::for_each_index;
using test::operands_over;
using test::shapes_from;

constexpr Axes every_axes[] = {axes::scalar, axes::n, axes::b, axes::bn, axes::m, axes::mn};

// Where an element stands in the network's own order of memory: rank 4 channels last, all others row-major
std::int64_t own_position(const Sizes& shape, const Sizes& index, std::int64_t pitch) {
  if (shape.size() == 4) return ((index[0] * shape[2] + index[2]) * shape[3] + index[3]) * pitch + index[1];
  std::int64_t row = 0;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) row = row * shape[i] + index[i];
  return row * pitch + (index.empty() ? 0 : index.back());
}

// A tensor whose elements are their places in row-major order; -1 lies between its rows
struct Tensor {
  Sizes shape;
  Memory memory;
  std::vector<float> elements;

  Tensor(Sizes s, std::int64_t pitch, bool planar = false) : shape(std::move(s)) {
    memory.row_stride = pitch;
    memory.planar = planar;
    const std::int64_t count = element_count(shape), columns = column_count(shape);
    elements.assign(static_cast<std::size_t>(planar ? count : count / columns * pitch), -1.0F);
    float next = 0;
    for_each_index(shape, [&](const Sizes& index) {
      const std::int64_t at = planar ? broadcast_position(shape, index) : own_position(shape, index, pitch);
      elements.at(static_cast<std::size_t>(at)) = next++;
    });
  }
  Sizes strides() const { return memory_strides(memory, shape); }
  float at(std::int64_t i) const {
    return i < 0 || i >= static_cast<std::int64_t>(elements.size()) ? -2.0F : elements[static_cast<std::size_t>(i)];
  }
};

// Image, row of the image and column of an element
struct Coordinates {
  std::int64_t image = 0, row = 0, column = 0;

  Coordinates(const Sizes& space, const Sizes& index) {
    if (space.empty()) return;
    const std::size_t columns = space.size() == 4 ? 1 : space.size() - 1;
    column = index[columns];
    if (columns > 0) image = index[0];
    for (std::size_t i = 1; i < space.size(); ++i)
      if (i != columns) row = row * space[i] + index[i];
  }
};

// What stands where it should not, as a message; empty: nothing
class Checker {
 public:
  Checker(const Sizes& operand, const Sizes& space) : operand_(operand), space_(space), e_(extents_of(space)) {}

  // Every form in which a backend reads the tensor with these axes, from this memory
  void check(const Tensor& t, const Axes& axes) {
    const auto view = operand_view({"s", 0, axes}, t.shape, t.strides(), space_);
    const std::string what = to_string(to_shape(operand_)) + " over " + to_string(to_shape(space_)) + " as " +
                             to_string(axes) + " with rows " + std::to_string(t.memory.row_stride) + " apart";
    ASSERT_TRUE(view.has_value()) << what;
    ASSERT_FALSE(view->repeats(axes)) << what;
    compare(what + ": view", t, [&](const Coordinates& c) { return view->at(c.image, c.row, c.column); });
    const bool one_image = !(axes.row == RowAxis::b) && view->is_uniform();
    for (const bool matrix : {false, true}) {
      argument(what, t, *view, axes, e_, matrix);
      const Extents flat{.images = e_.images, .height = e_.rows_per_image(), .width = 1, .cols = e_.cols};
      argument(what + " flat", t, *view, axes, flat, matrix);
      const Extents rows{.images = 1, .height = e_.rows(), .width = 1, .cols = e_.cols};
      if (one_image) argument(what + " as one image", t, *view, axes, rows, matrix);
    }
    if (!t.memory.planar) on_gpu(what, t, *view, axes);
  }

 private:
  template <class Offset>
  void compare(const std::string& what, const Tensor& t, const Offset& place) const {
    int wrong = 0;
    for_each_index(space_, [&](const Sizes& index) {
      const auto expected = static_cast<float>(broadcast_position(operand_, index));
      wrong += t.at(place(Coordinates(space_, index))) == expected ? 0 : 1;
    });
    EXPECT_EQ(wrong, 0) << what;
  }

  // As the CPU's executables bind it: unisono/executable.hpp
  void argument(const std::string& what, const Tensor& t, const OperandView& view, const Axes& axes, const Extents& e,
                bool matrix) const {
    if (matrix && e.width != 1) return;
    const ArgumentView a = argument_view(view, axes, e, matrix);
    Sizes shape;
    if (axes == axes::mn) shape = matrix ? Sizes{e.images, e.height} : Sizes{e.images, e.height, e.width};
    if (axes.row == RowAxis::m && !(axes == axes::mn)) shape = {e.rows()};
    if (axes.row == RowAxis::b) shape = {e.images};
    if (axes.col == ColAxis::n) shape.push_back(e.cols);
    ASSERT_EQ(a.shape, shape) << what;
    ASSERT_EQ(a.strides.size(), shape.size()) << what;
    compare(what + (matrix ? ": matrix" : ": argument"), t, [&](const Coordinates& c) {
      const std::int64_t row = c.image * e_.rows_per_image() + c.row, per_image = e.rows_per_image();
      Sizes index;
      if (axes == axes::mn) {
        index = {row / per_image, row % per_image / e.width};
        if (!matrix) index.push_back(row % e.width);
      } else if (axes.row != RowAxis::none) {
        index = {axes.row == RowAxis::b ? c.image : row};
      }
      if (axes.col == ColAxis::n) index.push_back(c.column);
      return std::inner_product(index.begin(), index.end(), a.strides.begin(), std::int64_t{0});
    });
  }

  // As kernels address it: a number of the row times the pitch, and the column
  void on_gpu(const std::string& what, const Tensor& t, const OperandView& view, const Axes& axes) const {
    const auto place = [&](const Coordinates& c, std::int64_t pitch) {
      const std::int64_t row = axes.row == RowAxis::m   ? c.image * e_.rows_per_image() + c.row
                               : axes.row == RowAxis::b ? c.image
                                                        : 0;
      return row * pitch + (axes.col == ColAxis::n ? c.column : 0);
    };
    const auto rows = pitched_rows(view, axes);
    if (rows)
      compare(what + ": pitched", t, [&](const Coordinates& c) { return place(c, rows->pitch); });
    else
      EXPECT_TRUE(axes.col == ColAxis::n && view.column != 1) << what;
    const std::int64_t padded = (e_.cols + 7) / 8 * 8;
    const PitchedRows form = packed_rows(view, axes, padded);
    Tensor packed = t;
    packed.elements = packed_elements(t.elements.data(), view, axes, padded);
    ASSERT_EQ(static_cast<std::int64_t>(packed.elements.size()), form.rows * form.pitch) << what;
    compare(what + ": packed", packed, [&](const Coordinates& c) { return place(c, form.pitch); });
    for (std::int64_t i = 0; i < form.rows * form.pitch; ++i)
      ASSERT_TRUE(i % form.pitch < form.columns || packed.at(i) == 0) << what << ": behind the last column";
  }

  const Sizes &operand_, &space_;
  Extents e_;
};

std::int64_t padded(std::int64_t columns) { return (columns + 7) / 8 * 8; }

std::vector<Sizes> spaces() {
  std::vector<Sizes> all;
  for (std::size_t rank = 0; rank <= 5; ++rank)
    for (Sizes& s : shapes_from(std::vector<Sizes>(rank, {1, 2, 3}))) all.push_back(std::move(s));
  return all;
}

// Whatever axes fit, by those that the fuser takes and by any other that fit as well: with dense rows (constants and
// arguments of the CPU), with rows of eight columns (a GPU), and as a slice of a wider tensor
TEST(OperandView, EveryBroadcastOverEverySpace) {
  int seen = 0, ambiguous = 0, apart = 0;
  for (const Sizes& space : spaces())
    for (const Sizes& operand : operands_over(space)) {
      const std::int64_t columns = column_count(operand);
      Checker checker(operand, space);
      int fitting = 0;
      for (const Axes& a : every_axes) {
        if (!has_axes(to_shape(operand), to_shape(space), a)) continue;
        ++fitting;
        for (const std::int64_t pitch : {columns, padded(columns), padded(columns) + 8})
          checker.check(Tensor(operand, pitch), a);
        if (operand.size() == 4 && a == axes::mn) checker.check(Tensor(operand, columns, true), a);
        const Sizes strides = logical_strides(operand, padded(columns));
        apart += pitched_rows(*operand_view({"s", 0, a}, operand, strides, space), a) ? 0 : 1;
      }
      seen += fitting > 0 ? 1 : 0, ambiguous += fitting > 1 ? 1 : 0;
      for (const bool images : {false, true}) {
        const auto chosen = axes_of(to_shape(operand), to_shape(space), images);
        EXPECT_TRUE(!chosen || has_axes(to_shape(operand), to_shape(space), *chosen));
        EXPECT_TRUE(!chosen || images || !(chosen->row == RowAxis::b));
        EXPECT_TRUE(!images || chosen.has_value() == (fitting > 0));
        EXPECT_TRUE(element_count(operand) > 1 || operand == space || chosen == axes::scalar);
      }
      if (testing::Test::HasFailure()) return;
    }
  EXPECT_GT(seen, 2000);
  EXPECT_GT(ambiguous, 1000);
  EXPECT_GT(apart, 20) << "columns that are apart";
}

// Also those that no axes describe, where a view is found at all
TEST(OperandView, NeverReadsAnotherElement) {
  int found = 0, refused = 0;
  for (const Sizes& space : spaces())
    for (const Sizes& operand : operands_over(space)) {
      const Tensor t(operand, padded(column_count(operand)));
      const auto view = broadcast_view(operand, t.strides(), space);
      (view ? found : refused) += 1;
      if (!view) continue;
      for_each_index(space, [&](const Sizes& index) {
        const Coordinates c(space, index);
        ASSERT_EQ(t.at(view->at(c.image, c.row, c.column)), static_cast<float>(broadcast_position(operand, index)))
            << to_string(to_shape(operand)) << " over " << to_string(to_shape(space));
      });
      if (testing::Test::HasFailure()) return;
    }
  EXPECT_GT(found, refused);
  EXPECT_GT(refused, 100);
}

// What is read one element a column lies along the columns, whatever the last axis of the values is
// Strides ahead of an extent of 0 are 0: that repeats no element, as there is none
TEST(OperandView, ASpaceWithoutElementsRepeatsNothing) {
  for (const Sizes& shape : {Sizes{2, 0, 4}, Sizes{0, 3, 4}, Sizes{2, 3, 0}, Sizes{2, 3, 0, 5}, Sizes{3, 0}}) {
    const auto view = broadcast_view(shape, logical_strides(shape, column_count(shape)), shape);
    ASSERT_TRUE(view) << to_string(to_shape(shape));
    EXPECT_FALSE(view->repeats(axes::mn)) << to_string(to_shape(shape));
  }
}

TEST(OperandView, BiasScaleAndShift) {
  for (const Sizes& space : spaces()) {
    const std::int64_t columns = column_count(space);
    const auto view = operand_view({"bias", 0, axes::n, true}, {columns}, {1}, space);
    ASSERT_TRUE(view.has_value());
    for_each_index(space, [&](const Sizes& index) {
      const Coordinates c(space, index);
      ASSERT_EQ(view->at(c.image, c.row, c.column), c.column);
    });
    EXPECT_FALSE(operand_view({"bias", 0, axes::n, true}, {columns + 1}, {1}, space).has_value());
    EXPECT_FALSE(operand_view({"bias", 0, axes::n, true}, {1, columns}, {1, 1}, space).has_value());
  }
}

TEST(OperandView, ShapesThatNetworksHave) {
  const auto axes_over = [](const Sizes& operand, const Sizes& space) {
    const auto a = axes_of(to_shape(operand), to_shape(space), true);
    return a ? to_string(*a) : "none";
  };
  const Sizes image{2, 3, 4, 5};
  EXPECT_EQ(axes_over({}, image), to_string(axes::scalar));
  EXPECT_EQ(axes_over({1, 1, 1}, image), to_string(axes::scalar));
  EXPECT_EQ(axes_over({3, 1, 1}, image), to_string(axes::n));
  EXPECT_EQ(axes_over({1, 3, 1, 1}, image), to_string(axes::n));
  EXPECT_EQ(axes_over({2, 1, 1, 1}, image), to_string(axes::b));
  EXPECT_EQ(axes_over({2, 3, 1, 1}, image), to_string(axes::bn));
  EXPECT_EQ(axes_over({2, 1, 4, 5}, image), to_string(axes::m));
  EXPECT_EQ(axes_over(image, image), to_string(axes::mn));
  for (const Sizes& partial : {Sizes{4, 5}, {1, 1, 4, 5}, {5}, {4, 1}, {1, 1, 1, 5}, {3, 4, 5}, {1, 3, 4, 5}})
    EXPECT_EQ(axes_over(partial, image), "none") << to_string(to_shape(partial));
  // the last axis of an image is a row axis, however few pixels and channels there are
  EXPECT_EQ(axes_over({320}, {1, 1, 1, 320}), to_string(axes::m));
  EXPECT_EQ(axes_over({1, 320}, {1, 1, 1, 320}), to_string(axes::m));
  EXPECT_EQ(axes_over({4, 1}, {1, 3, 4, 1}), to_string(axes::m));
  EXPECT_EQ(axes_over({3, 1, 1}, {1, 3, 1, 1}), to_string(axes::n));
  EXPECT_EQ(axes_over({5}, {2, 4, 5}), to_string(axes::n));
  EXPECT_EQ(axes_over({2, 1, 5}, {2, 4, 5}), to_string(axes::bn));
  EXPECT_EQ(axes_over({2, 4, 1}, {2, 4, 5}), to_string(axes::m));
}

}  // namespace
}  // namespace unisono::network
