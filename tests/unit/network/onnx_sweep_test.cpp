/// Every operator that the importer takes, with inputs of every rank and extent, with inputs left out, and with
/// attributes and constants at the ends of their types: refused by one of the two errors that callers are told of, or
/// imported, planned and run.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "fuzz/execute.hpp"
#include "network/onnx/importer.hpp"
#include "onnx_sample.hpp"
#include "support/sources.hpp"

namespace unisono {
namespace {

namespace table = network::onnx_import;
using test::highest;
using test::i64;
using test::lowest;
using test::plain;
using test::Sample;
using test::symbol;
using test::wide;

// What is swept over, and what came of it
class Sweep {
 public:
  // One sample in `step` is tried. A prime number meets each part of every family in turn.
  explicit Sweep(int step) : step_(step) {}

  void attempt(const Sample& s) {
    if (++count_ % step_ != 0) return;
    attempt(s.bytes(), s.op);
  }
  void attempt(const std::string& bytes, const std::string& what) {
    try {
      const auto network = fuzz::small_model(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
      ++imported_;
      if (network) executed_ += fuzz::execute(*network) ? 1 : 0;
    } catch (const UserError&) {
      ++refused_;
    } catch (const Unsupported&) {
      ++refused_;
    } catch (const std::exception& error) {
      ADD_FAILURE() << what << " threw " << typeid(error).name() << ": " << error.what();
    }
  }

  void ranks(const Sample& base);
  void absences(const Sample& base);
  void attributes(const Sample& base, const table::OperatorSchema& schema);
  void constants(const Sample& base);
  void extents(const Sample& base);

  int imported() const { return imported_; }
  int executed() const { return executed_; }
  int refused() const { return refused_; }

 private:
  int step_, count_ = 0, imported_ = 0, executed_ = 0, refused_ = 0;
};

void Sweep::ranks(const Sample& base) {
  for (std::size_t i = 0; i < base.inputs.size(); ++i)
    for (std::size_t rank = 0; rank <= 5; ++rank)
      for (const std::int64_t extent : {std::int64_t{2}, std::int64_t{1}, symbol}) {
        Sample s = base;
        if (s.inputs[i].constant && extent == symbol) continue;
        s.inputs[i].shape.assign(rank, extent);
        attempt(s);
      }
}

void Sweep::absences(const Sample& base) {
  for (std::size_t i = 0; i < base.inputs.size(); ++i) {
    Sample s = base;
    s.inputs[i].given = false;
    attempt(s);
    for (std::size_t k = i; k < base.inputs.size(); ++k) s.inputs[k].given = false;
    attempt(s);
    s = base;
    s.outputs = 3;
    attempt(s);
  }
}

void Sweep::attributes(const Sample& base, const table::OperatorSchema& schema) {
  for (const auto& a : schema.attributes) {
    Sample s = base;
    auto& given = s.attribute(a.name);
    given.set_type(a.type);
    for (const std::int64_t v : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{2}, wide, lowest, highest}) {
      if (a.type == 2) given.set_i(v);
      if (a.type == 1)
        given.set_f(v == lowest    ? std::numeric_limits<float>::quiet_NaN()
                    : v == highest ? std::numeric_limits<float>::infinity()
                                   : static_cast<float>(v));
      if (a.type == 7)
        for (int n = 0; n <= 6; ++n) {
          given.clear_ints();
          for (int i = 0; i < n; ++i) given.add_ints(i % 2 == 0 ? v : 1);
          attempt(s);
        }
      if (a.type != 7) attempt(s);
    }
  }
}

void Sweep::constants(const Sample& base) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < base.inputs.size(); ++i) {
    Sample s = base;
    test::Operand& x = s.inputs[i];
    x.constant = !x.constant;
    attempt(s);
    x.constant = true;
    for (const std::int64_t v : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{2}, wide, lowest, highest}) {
      x.number = v;
      x.value = v == lowest    ? -infinity
                : v == highest ? std::numeric_limits<double>::quiet_NaN()
                               : static_cast<double>(v);
      attempt(s);
      for (std::int64_t n = 0; x.type == i64 && n <= 6; ++n) {
        x.shape = {n};
        attempt(s);
      }
    }
  }
}

void Sweep::extents(const Sample& base) {
  for (std::size_t i = 0; i < base.inputs.size(); ++i)
    for (std::size_t axis = 0; axis < base.inputs[i].shape.size(); ++axis)
      for (const std::int64_t extent : {std::int64_t{0}, std::int64_t{1}, std::int64_t{3}, wide, symbol}) {
        if (base.inputs[i].constant && (extent == wide || extent == symbol)) continue;
        Sample s = base;
        s.inputs[i].shape[axis] = extent;
        attempt(s);
      }
}

void sweep_operators(Sweep& sweep, std::int64_t opset) {
  for (const std::string_view op : table::supported_operators()) {
    const table::OperatorSchema* schema = table::find_schema(op, opset);
    if (schema == nullptr) continue;
    SCOPED_TRACE(std::string(op));
    for (std::size_t rank = 0; rank <= 5; ++rank)
      for (const bool integers : {false, true}) {
        const Sample base = plain(*schema, opset, rank, integers);
        sweep.attempt(base);
        sweep.ranks(base);
        if (integers) continue;
        sweep.absences(base);
        sweep.attributes(base, *schema);
        sweep.constants(base);
        sweep.extents(base);
      }
  }
}

TEST(OnnxSweep, EveryOperator) {
  constexpr int one_in = 19;  // all of them, 115,000, take minutes with sanitizers
  Sweep newest(one_in), older(one_in);
  sweep_operators(newest, table::newest_opset());
  sweep_operators(older, 11);
  for (const Sweep* s : {&newest, &older}) {
    EXPECT_GT(s->executed(), 100);
    EXPECT_GT(s->refused(), 100);
  }
}

// Networks of several operators, whose inputs have another shape than their author meant
TEST(OnnxSweep, EveryModelOfTheTests) {
  Sweep sweep(1);
  for (const auto& entry : std::filesystem::directory_iterator(test::source_path("tests/data/onnx"))) {
    if (entry.path().extension() != ".onnx") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    onnx::ModelProto model;
    ASSERT_TRUE(model.ParseFromString(std::string(std::istreambuf_iterator<char>(file), {})));
    for (int i = 0; i < model.graph().input_size(); ++i)
      for (std::size_t rank = 0; rank <= 5; ++rank)
        for (const std::int64_t extent : {std::int64_t{2}, symbol}) {
          onnx::ModelProto changed = model;
          auto* type = changed.mutable_graph()->mutable_input(i)->mutable_type()->mutable_tensor_type();
          type->clear_shape();
          type->mutable_shape();
          for (std::size_t axis = 0; axis < rank; ++axis) {
            if (extent == symbol)
              type->mutable_shape()->add_dim()->set_dim_param("n" + std::to_string(axis % 3));
            else
              type->mutable_shape()->add_dim()->set_dim_value(extent);
          }
          sweep.attempt(changed.SerializeAsString(), entry.path().filename().string());
        }
  }
  EXPECT_GT(sweep.executed(), 100);
}

}  // namespace
}  // namespace unisono
