// Models are read and results written while each allocation of our own and each call for a file fails once in turn: an
// error each time; an earlier result is still there, or the new one is; nothing is left beside it.

#include <fstream>
#include <iterator>

#include "cycle.hpp"
#include "media/file.hpp"
#include "media/npz.hpp"
#include "onnx.pb.h"
#include "support/files.hpp"
#include "unisono/network.hpp"
#include "unisono/onnx.hpp"
#include "unisono/safetensors.hpp"
#include "unit/weights/file_text.hpp"

namespace unisono::faults {
namespace {

namespace fs = std::filesystem;

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void put(const fs::path& path, std::string_view bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

class FilesThatFail : public ::testing::Test {
 protected:
  support::TemporaryFolder folder{fs::temp_directory_path()};
};

void add_node(onnx::GraphProto& graph, const char* op, std::vector<const char*> inputs, const char* output) {
  auto* node = graph.add_node();
  node->set_op_type(op);
  for (const char* i : inputs) node->add_input(i);
  node->add_output(output);
}

onnx::TensorProto& add_constant(onnx::GraphProto& graph, const char* name, std::vector<std::int64_t> shape) {
  auto& t = *graph.add_initializer();
  t.set_name(name);
  t.set_data_type(1);
  for (const auto d : shape) t.add_dims(d);
  return t;
}

// y = relu(x · w + (c + c)): w lies in a file beside the model, c + c is computed while it is read
std::string small_model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(18);
  auto& graph = *model.mutable_graph();
  auto* x = graph.add_input();
  x->set_name("x");
  auto* type = x->mutable_type()->mutable_tensor_type();
  type->set_elem_type(1);
  type->mutable_shape()->add_dim()->set_dim_param("n");
  type->mutable_shape()->add_dim()->set_dim_value(3);
  auto& w = add_constant(graph, "w", {3, 2});
  w.set_data_location(1);
  const std::pair<const char*, const char*> place[] = {
      {"location", "weights/w.bin"}, {"offset", "4"}, {"length", "24"}};
  for (const auto& [key, value] : place) {
    auto* entry = w.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
  auto& c = add_constant(graph, "c", {2});
  for (const float v : {1.0f, 2.0f}) c.add_float_data(v);
  add_node(graph, "MatMul", {"x", "w"}, "xw");
  add_node(graph, "Add", {"c", "c"}, "cc");
  add_node(graph, "Add", {"xw", "cc"}, "sum");
  add_node(graph, "Relu", {"sum"}, "y");
  graph.add_output()->set_name("y");
  return model.SerializeAsString();
}

class Import : public FilesThatFail {
 protected:
  Import() {
    const float values[] = {-1, 1, 2, 3, 4, 5, 6};
    put(folder.path() / "weights" / "w.bin", {reinterpret_cast<const char*>(values), sizeof values});
    put(folder.path() / "m.onnx", small_model());
  }
  bool imported() const {
    const Network n = load_onnx((folder.path() / "m.onnx").string());
    for (const NetworkTensor& t : n.tensors)
      if (t.name == "w") return t.constant && *t.constant == std::vector<float>{1, 2, 3, 4, 5, 6};
    return false;
  }
};

TEST_F(Import, Allocations) {
#ifdef UNISONO_SANITIZED
  GTEST_SKIP() << "without inlining, allocations within std::filesystem are taken for the library's own";
#endif
  each_fails_once(Kind::allocation, [&] { return imported(); });
}
TEST_F(Import, Files) {
  each_fails_once(Kind::file, [&] { return imported(); }, {"*"});  // a limit of memory that cannot be read is none
}

class Weights : public FilesThatFail {
 protected:
  Weights() {
    const auto file = tests::safetensors_file(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8);
    put(path, {reinterpret_cast<const char*>(file.data()), file.size()});
  }
  bool read() const {
    NetworkBuilder net;
    net.use_weights(open_safetensors(path.string()));
    return net.weight("a", {2}).tensor().constant->size() == 2 && net.unused_weights().empty();
  }
  fs::path path = folder.path() / "w.safetensors";
};

TEST_F(Weights, Allocations) {
#ifdef UNISONO_SANITIZED
  GTEST_SKIP() << "without inlining, allocations within std::filesystem are taken for the library's own";
#endif
  each_fails_once(Kind::allocation, [&] { return read(); });
}
TEST_F(Weights, Files) {
  each_fails_once(Kind::file, [&] { return read(); }, {"close"});
}

// A run's outputs as files of a folder and as an archive, each over an earlier one. An owner that cannot be kept is
// none.
class Results : public FilesThatFail {
 protected:
  static constexpr int count = 3;

  // What failures whose files could not be removed either have left; none of them is in the way
  std::ptrdiff_t remove_leftovers() {
    std::ptrdiff_t removed = 0;
    for (const fs::path& path : std::vector<fs::path>(fs::directory_iterator(folder.path()), {}))
      if (path.filename().string().starts_with('.')) removed += fs::remove(path) ? 1 : 0;
    return removed;
  }

  bool write() {
    if (!each_is_whole()) return false;
    text = "result " + std::to_string(++round);
    media::WrittenFiles files;
    for (int i = 0; i < count; ++i) files.write(name(i), bytes(text));
    files.commit();
    const media::Array array{DType::u8, {std::ssize(text)}, {text.begin(), text.end()}};
    media::write_npz(folder.path() / "all.npz", {{"y", array}});
    for (int i = 0; i < count; ++i)
      if (content(name(i)) != text) return false;
    return content(folder.path() / "all.npz").find(text) != std::string::npos;
  }

 private:
  static std::span<const std::uint8_t> bytes(const std::string& text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
  }
  fs::path name(int i) const { return folder.path() / std::to_string(i); }
  // Each file is the last round's or the one's before that, and no other is there
  bool each_is_whole() {
    if (round == 0) return true;
    for (int i = 0; i < count; ++i) {
      const std::string now = content(name(i));
      if (now != text && now != shown[i]) return false;
      shown[i] = now;
    }
    return std::distance(fs::directory_iterator(folder.path()), {}) == count + 1;
  }

  int round = 0;
  std::string text, shown[count];
};

TEST_F(Results, Allocations) {
#ifdef UNISONO_SANITIZED
  GTEST_SKIP() << "without inlining, allocations within std::filesystem are taken for the library's own";
#endif
  each_fails_once(Kind::allocation, [&] { return write(); });
}
TEST_F(Results, Files) {
  each_fails_once(Kind::file, [&] { return write(); }, {"fchown", "fopen", "fread"});
}

TEST_F(Results, FilesThatCannotBeRemovedEither) {
  std::string what;
  ASSERT_EQ(ending_of(
                Kind::file, -1, [&] { return write(); }, what),
            Ending::right)
      << what;
  ASSERT_EQ(ending_of(
                Kind::file, -1, [&] { return write(); }, what),
            Ending::right)
      << what;
  const long calls = seen(Kind::file);
  std::ptrdiff_t left = 0;
  for (long n = 0; n < calls; ++n) {
    {
      const Counting removals(Kind::removal, 0);
      ASSERT_NE(ending_of(
                    Kind::file, n, [&] { return write(); }, what),
                Ending::wrong)
          << "call " << n << ": " << what;
    }
    left += remove_leftovers();
    ASSERT_EQ(ending_of(
                  Kind::file, -1, [&] { return write(); }, what),
              Ending::right)
        << "call " << n << ": " << what;
  }
  EXPECT_GT(left, 3);
}

}  // namespace
}  // namespace unisono::faults
