/// Weights in files beside the model.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cases.hpp"
#include "onnx.pb.h"
#include "support/files.hpp"
#include "support/says.hpp"
#include "unisono/onnx.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;
using test::user_error;

// y = x + c, and c (3) lies in the file `location`
class ExternalData : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(root_ / "model" / "weights");
    write(root_ / "model" / "weights" / "c.bin", {7, 1, 2, 3});
    write(root_ / "secret.bin", {7, 1, 2, 3});
  }

  static void write(const fs::path& path, const std::vector<float>& x) {
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(x.data()), std::ssize(x) * 4);
  }
  Network load(const std::string& location, const std::string& offset = "4", const std::string& length = "12") const {
    onnx::ModelProto m;
    m.add_opset_import()->set_version(17);
    auto& graph = *m.mutable_graph();
    auto* input = graph.add_input();
    input->set_name("x");
    input->mutable_type()->mutable_tensor_type()->set_elem_type(1);
    input->mutable_type()->mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(3);
    auto* c = graph.add_initializer();
    c->set_name("c");
    c->set_data_type(1);
    c->add_dims(3);
    c->set_data_location(1);
    for (const auto& [key, value] :
         {std::pair<std::string, std::string>{"location", location}, {"offset", offset}, {"length", length}}) {
      auto* entry = c->add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
    auto* node = graph.add_node();
    node->set_op_type("Add");
    node->add_input("x");
    node->add_input("c");
    node->add_output("y");
    graph.add_output()->set_name("y");
    std::ofstream(written_, std::ios::binary) << m.SerializeAsString();
    return load_onnx(named_.string());
  }
  std::string refusal(const std::string& location, const std::string& offset = "4",
                      const std::string& length = "12") const {
    const std::string text = user_error([&] { (void)load(location, offset, length); });
    const auto begin = text.find("tensor 'c': ");
    return begin == std::string::npos ? text : text.substr(begin + 12);
  }

  support::TemporaryFolder temporary_{fs::temp_directory_path()};
  fs::path root_ = temporary_.path();
  fs::path written_ = root_ / "model" / "m.onnx", named_ = written_;  // the model, and how it is called
};

TEST_F(ExternalData, IsRead) {
  const Network n = load("weights/c.bin");
  const auto outputs = test::run(compile(n), {{"x", {{3}, {10, 20, 30}}}});
  EXPECT_EQ(outputs.at("y").data, (std::vector<float>{11, 22, 33}));
}

TEST_F(ExternalData, StaysBelowTheModelsFolder) {
  const auto outside = Says("external data … below the model's folder");
  for (const std::string path : {"../secret.bin", "weights/../../secret.bin", "", "..\\secret.bin"})
    EXPECT_THAT(refusal(path), outside) << path;
  EXPECT_THAT(refusal((root_ / "secret.bin").string()), outside);
  fs::create_symlink("../../secret.bin", root_ / "model" / "weights" / "link.bin");
  EXPECT_THAT(refusal("weights/link.bin"), outside);
}

// As the cache of Hugging Face lies on disk: a snapshot's files are links into a folder that all snapshots share
TEST_F(ExternalData, LinksOfASnapshot) {
  const fs::path repository = root_ / "models--org--net", snapshot = repository / "snapshots" / "8bc1";
  fs::create_directories(repository / "blobs");
  fs::create_directories(snapshot / "onnx");
  written_ = repository / "blobs" / "0123";
  named_ = snapshot / "onnx" / "model.onnx";
  write(repository / "blobs" / "4567", {7, 1, 2, 3});
  fs::create_symlink("../../../blobs/0123", named_);
  fs::create_symlink("../../../blobs/4567", snapshot / "onnx" / "model.onnx_data");
  const auto outputs = test::run(compile(load("model.onnx_data")), {{"x", {{3}, {10, 20, 30}}}});
  EXPECT_EQ(outputs.at("y").data, (std::vector<float>{11, 22, 33}));
  // a link that leaves both folders
  const auto outside = Says("external data … below the model's folder");
  fs::create_symlink("../../../../secret.bin", snapshot / "onnx" / "secret");
  EXPECT_THAT(refusal("secret"), outside);
  fs::create_symlink("/etc/passwd", snapshot / "onnx" / "passwd");
  EXPECT_THAT(refusal("passwd", "0"), outside);
  fs::create_symlink(repository, snapshot / "onnx" / "all");
  write(repository / "refs", {7, 1, 2, 3});
  EXPECT_THAT(refusal("all/refs"), outside);
  EXPECT_THAT(refusal("../../../blobs/4567"), outside);
}

// A model that is called by a link elsewhere has its data beside it
TEST_F(ExternalData, LinkToAModel) {
  fs::create_directories(root_ / "elsewhere");
  named_ = root_ / "elsewhere" / "link.onnx";
  fs::create_symlink("../model/m.onnx", named_);
  const auto outputs = test::run(compile(load("weights/c.bin")), {{"x", {{3}, {10, 20, 30}}}});
  EXPECT_EQ(outputs.at("y").data, (std::vector<float>{11, 22, 33}));
}

TEST_F(ExternalData, FitsItsShape) {
  EXPECT_THAT(refusal("weights/none.bin"), Says("data is not there"));
  EXPECT_THAT(refusal("weights/c.bin", "8"), Says("end beyond … the file"));
  EXPECT_THAT(refusal("weights/c.bin", "18446744073709551615"), Says("end beyond … the file"));
  EXPECT_THAT(refusal("weights/c.bin", "-4"), Says("the offset … not a number; expected decimal digits"));
  EXPECT_THAT(refusal("weights/c.bin", "4", "16"), Says("another length than the 12 bytes"));
}

TEST_F(ExternalData, IsARegularFile) {
  const fs::path folder = fs::canonical(root_ / "model");
  EXPECT_EQ(refusal("weights"), "its external data: cannot open '" + (folder / "weights").string() +
                                    "': Is a directory; expected a regular file");
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(refusal("pipe"), testing::HasSubstr("its external data: '" + (folder / "pipe").string() + "' is a FIFO"));
  fs::create_symlink("/dev/zero", folder / "device");
  EXPECT_THAT(refusal("device"), Says("external data … below the model's folder"));
}

}  // namespace
}  // namespace unisono
