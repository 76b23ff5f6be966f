/// Operands of every shape over spaces of every shape in whole networks: constants, the caller's tensors and computed
/// ones, against plain loops; beside contractions and normalisations against the float64 reference.

#include <gtest/gtest.h>

#include "cases.hpp"
#include "network/regions.hpp"
#include "support/broadcasts.hpp"

namespace unisono {
namespace {

using test::broadcast_position;
using test::Extents64;
using test::for_each_index;
using test::HostTensor;
using test::HostTensors;
using test::operands_over;
using test::Random;
using test::shapes_from;

Shape dims(const Extents64& s) { return Shape(s.begin(), s.end()); }

// Spaces of a rank in which each axis may have one element
std::vector<Extents64> spaces_of_rank(std::size_t rank) {
  constexpr std::array<std::int64_t, 5> extents{2, 3, 4, 5, 3};
  std::vector<Extents64> choices;
  for (std::size_t i = 0; i < rank; ++i) choices.push_back({1, extents[i]});
  return shapes_from(choices);
}

Extents64 joined(const Extents64& x, const Extents64& y) {
  Extents64 s(std::max(x.size(), y.size()), 1);
  for (const Extents64* of : {&x, &y})
    for (std::size_t i = 0; i < of->size(); ++i) {
      std::int64_t& d = s[s.size() - of->size() + i];
      d = std::max(d, (*of)[i]);
    }
  return s;
}

// Differences of pairs, with a function after them, in one network; every element of every one against a loop
class Pairs {
 public:
  NetworkValue input(const Extents64& shape) {
    const std::string name = "x" + std::to_string(inputs_.size());
    inputs_[name] = test::random_tensor(random_, shape);
    const NetworkValue v = net_.input(name, dims(shape));
    data_[v.id()] = inputs_[name];
    return v;
  }
  NetworkValue constant(const Extents64& shape) {
    const HostTensor t = test::random_tensor(random_, shape);
    const NetworkValue v = net_.constant("c", dims(shape), t.data);
    data_[v.id()] = t;
    return v;
  }
  // By a step of its own: nothing joins the transpose, which changes nothing
  NetworkValue computed(const Extents64& shape) {
    const NetworkValue x = input(shape);
    std::vector<int> order(shape.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    const NetworkValue v = shape.empty() ? -x : transpose(-x, order);
    data_[v.id()] = data_[x.id()];
    for (float& e : data_[v.id()].data) e = -e;
    return v;
  }
  void difference(NetworkValue x, NetworkValue y) {
    const std::string name = "y" + std::to_string(expected_.size());
    const HostTensor &a = data_[x.id()], &b = data_[y.id()];
    HostTensor& t = expected_[name];
    t.shape = joined(a.shape, b.shape);
    for_each_index(t.shape, [&](const Extents64& i) {
      const float s = a.data[static_cast<std::size_t>(broadcast_position(a.shape, i))] -
                      b.data[static_cast<std::size_t>(broadcast_position(b.shape, i))];
      t.data.push_back(std::max(s, -1.0F));
    });
    what_[name] = to_string(dims(a.shape)) + " and " + to_string(dims(b.shape));
    net_.output(clamp(x - y, -1, 1e30), name);
  }
  void check(bool fuse = true) {
    const Network n = net_.build();
    const auto results = test::run(compile(n, {.threads = 2, .fuse = fuse}), inputs_);
    ASSERT_EQ(results.size(), expected_.size());
    for (const auto& [name, t] : expected_) {
      const HostTensor& got = results.at(name);
      ASSERT_EQ(got.shape, t.shape) << what_[name];
      for (std::size_t i = 0; i < t.data.size(); ++i)
        ASSERT_NEAR(got.data[i], t.data[i], 1e-5) << what_[name] << ", element " << i << "\n" << to_string(explain(n));
    }
  }
  std::size_t size() const { return expected_.size(); }

 private:
  Random random_{11};
  NetworkBuilder net_;
  HostTensors inputs_, expected_;
  std::map<TensorId, HostTensor> data_;
  std::map<std::string, std::string> what_;
};

// A full tensor and an operand, which is a constant, the caller's or computed
TEST(Operands, OfEveryShapeOverEverySpace) {
  std::size_t tested = 0;
  for (std::size_t rank = 0; rank <= 5; ++rank)
    for (const Extents64& space : spaces_of_rank(rank)) {
      Pairs pairs;
      for (const Extents64& shape : operands_over(space)) {
        const bool swapped = pairs.size() % 2 == 1;
        const auto pair = [&](NetworkValue x, NetworkValue y) {
          swapped ? pairs.difference(y, x) : pairs.difference(x, y);
        };
        pair(pairs.input(space), pairs.constant(shape));
        pair(pairs.computed(space), pairs.input(shape));
        pair(pairs.computed(space), pairs.computed(shape));
      }
      pairs.check(rank % 2 == 0);
      tested += pairs.size();
      if (testing::Test::HasFatalFailure()) return;
    }
  EXPECT_GT(tested, 2500u);
}

// Two operands of which neither need have the shape of the result
TEST(Operands, PairsOfEveryShape) {
  for (const Extents64& space :
       {Extents64{3}, {2, 3}, {2, 3, 4}, {2, 3, 4, 5}, {1, 3, 1, 5}, {1, 1, 4, 5}, {2, 1, 1, 5}, {2, 3, 1, 1}}) {
    const auto shapes = operands_over(space);
    for (const Extents64& first : shapes) {
      Pairs pairs;
      const NetworkValue x = pairs.computed(first);
      for (const Extents64& second : shapes) pairs.difference(x, pairs.constant(second));
      pairs.check();
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// ---- Beside contractions and normalisations

struct Beside : testing::Test {
  Random random{12};

  NetworkValue constant(NetworkBuilder& net, const Extents64& shape, double scale = 1) {
    return net.constant("c", dims(shape), test::random_elements(random, element_count(shape), scale));
  }
  // (value·s + r), with s a constant and r the caller's or computed, for every shape of s and r over the value
  template <class Make>
  void check(const Make& make) {
    NetworkBuilder sample;
    Extents64 space;
    const NetworkValue made = make(sample);
    for (const Dim& d : made.shape()) space.push_back(d.value());
    const auto shapes = operands_over(space);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Extents64 &s = shapes[i], &r = shapes[(i * 7 + 3) % shapes.size()];
      NetworkBuilder net;
      const NetworkValue v = make(net);
      const NetworkValue given = net.input("r", dims(r));
      const NetworkValue moved = i % 2 == 0 || r.empty() ? given : reshape(-given, Extents64(r));
      net.output(relu(v * constant(net, s) + moved), "y");
      const Network n = net.build();
      HostTensors inputs;
      for (const TensorId id : n.inputs) {
        Extents64 shape;
        for (const Dim& d : n[id].shape) shape.push_back(d.value());
        inputs[n[id].name] = test::random_tensor(random, shape);
      }
      const NetworkExecutable run = compile(n, {.threads = 2});
      test::expect_agreement(n, inputs, test::run(run, inputs));
      if (HasFailure()) {
        ADD_FAILURE() << to_string(n) << to_string(run.report());
        return;
      }
    }
  }
};

// Convolutions of single pixels and of windows; few pixels of one image are a matrix product
TEST_F(Beside, Convolutions) {
  for (const Extents64& image :
       {Extents64{2, 3, 4, 5}, {1, 3, 4, 5}, {1, 3, 1, 5}, {2, 3, 1, 1}, {1, 3, 1, 1}, {2, 3, 4, 1}})
    for (const std::int64_t channels : {6, 1})
      for (const std::int64_t size : {1, 3}) {
        check([&](NetworkBuilder& net) {
          const NetworkValue x = net.input("x", dims(image));
          return conv2d(x, constant(net, {channels, 3, size, size}, 0.5), constant(net, {channels}),
                        {.pad = (size - 1) / 2});
        });
        if (HasFailure()) return;
      }
}

TEST_F(Beside, Products) {
  for (const Extents64& left : {Extents64{4, 3}, {1, 3}, {2, 4, 3}, {2, 1, 3}, {1, 4, 3}, {1, 1, 3}})
    for (const std::int64_t columns : {5, 1}) {
      check([&](NetworkBuilder& net) {
        const NetworkValue x = net.input("x", dims(left));
        return gemm(x, constant(net, {3, columns}, 0.5), {.bias = constant(net, {columns})});
      });
      if (HasFailure()) return;
    }
}

TEST_F(Beside, Normalisations) {
  for (const Extents64& image : {Extents64{2, 4, 3, 5}, {1, 4, 1, 5}, {2, 4, 1, 1}, {1, 4, 1, 1}, {1, 4, 3, 1}})
    check([&](NetworkBuilder& net) {
      const NetworkValue x = net.input("x", dims(image));
      const NetworkValue y =
          group_norm(x, {.groups = 2, .scale = constant(net, {4}), .shift = constant(net, {4}), .eps = 0.1});
      return softmax(y * constant(net, {4, 1, 1}));
    });
  for (const Extents64& rows : {Extents64{2, 3, 4}, {1, 1, 4}, {3, 4}, {1, 4}, {2, 1, 3, 2, 4}})
    check([&](NetworkBuilder& net) {
      return layer_norm(net.input("x", dims(rows)),
                        {.scale = constant(net, {4}), .shift = constant(net, {4}), .eps = 0.1});
    });
}

// Values that lack an axis, as it has one element, are normalised along it all the same
TEST_F(Beside, NormalisationsOfVectors) {
  for (const Extents64& shape : {Extents64{4, 1, 1}, {5}, {1, 4, 1, 1}, {4, 1}, {1, 1, 1, 1}, {2, 1, 1, 1}}) {
    NetworkBuilder net;
    const NetworkValue x = net.input("x", dims(shape)), one = net.input("one", {1, 1, 1, 1});
    const std::int64_t channels = (x + one).shape()[1].value();
    net.output(softmax(x + one), "a");
    net.output(layer_norm(x * one, {.eps = 0.1}), "b");
    net.output(group_norm(x - one, {.groups = 1, .scale = constant(net, {channels}), .eps = 0.1}), "c");
    const Network n = net.build();
    const HostTensors inputs{{"x", test::random_tensor(random, shape)},
                             {"one", test::random_tensor(random, {1, 1, 1, 1})}};
    test::expect_agreement(n, inputs, test::run(compile(n), inputs));
    if (HasFailure()) FAIL() << to_string(n);
  }
}

// The same vector is a bias, along the channels, and an operand, along the last axis
TEST_F(Beside, OneVectorInTwoRoles) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {1, 8, 1, 8}), v = net.input("v", {8});
  net.output(relu(conv2d(x, constant(net, {8, 8, 1, 1}), v) + v), "y");
  net.output(relu(v * group_norm(x, {.groups = 2, .scale = v, .shift = v, .eps = 0.1})), "z");
  const Network n = net.build();
  const HostTensors inputs{{"x", test::random_tensor(random, {1, 8, 1, 8})}, {"v", test::random_tensor(random, {8})}};
  const NetworkExecutable run = compile(n);
  test::expect_agreement(n, inputs, test::run(run, inputs));
  EXPECT_EQ(run.report().kernels, 2) << to_string(run.report());
}

// ---- Symbols that turn out to be 1

TEST_F(Beside, SymbolsThatTurnOutToBeOne) {
  NetworkBuilder net;
  const NetworkValue x = net.input("x", {"a", "b", "c", "d"}), y = net.input("y", {"e", "f", "g", "h"});
  net.output(relu(x + y), "sum");
  net.output(max_pool(x, {.kernel = 1, .stride = 1}) * y, "product");
  const Network n = net.build();
  const NetworkExecutable run = compile(n, {.threads = 2});
  int computed = 0, refused = 0;
  for (const Extents64& first : shapes_from({{1, 2}, {1, 3}, {1, 4}, {1, 5}}))
    for (const Extents64& second : shapes_from({{1, 2}, {1, 3}, {1, 4}, {1, 5}})) {
      const HostTensors inputs{{"x", test::random_tensor(random, first)}, {"y", test::random_tensor(random, second)}};
      try {
        test::expect_agreement(n, inputs, test::run(run, inputs));
        ++computed;
      } catch (const UserError& error) {  // rows of an image that are not equally far apart
        EXPECT_NE(std::string(error.what()).find("fixed extents"), std::string::npos);
        EXPECT_NE(first, second) << error.what();
        ++refused;
      }
      if (HasFailure()) FAIL() << to_string(dims(first)) << " and " << to_string(dims(second));
    }
  EXPECT_GT(computed, refused);
}

}  // namespace
}  // namespace unisono
