#include "jit/build_id.hpp"

#include <gtest/gtest.h>
#include <link.h>

#include "fixture.hpp"

namespace unisono::jit {
namespace {

/// The path of the C library in this process.
std::string c_library() {
  std::string path;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        if (std::string_view(info->dlpi_name).find("libc.so") != std::string_view::npos) {
          *static_cast<std::string*>(result) = info->dlpi_name;
        }
        return 0;
      },
      &path);
  return path;
}

using BuildIdTest = JitTest;

TEST_F(BuildIdTest, OfALibrary) {
  const std::string path = c_library();
  if (path.empty()) GTEST_SKIP() << "the C library is linked in";
  const std::string id = build_id(path);
  EXPECT_GE(id.size(), 16u);
  EXPECT_EQ(id, build_id(path));
  // without its note a library is told by name, size and time
  fs::copy_file(path, root / "copy.so");
  EXPECT_EQ(build_id(root / "copy.so"), id);
}

TEST_F(BuildIdTest, OtherFilesHaveNone) {
  overwrite(root / "text", "this is no library, whatever its length may be: it must not be read past its end, ever");
  EXPECT_EQ(build_id(root / "text"), "");
  EXPECT_EQ(build_id(root / "absent"), "");
  EXPECT_EQ(build_id(root), "");
  overwrite(root / "empty", "");
  EXPECT_EQ(build_id(root / "empty"), "");
}

TEST_F(BuildIdTest, DamagedLibrariesAreToldApartByTheirFile) {
  const std::string path = c_library();
  if (path.empty()) GTEST_SKIP() << "the C library is linked in";
  overwrite(root / "short.so", contents(path).substr(0, 100));
  EXPECT_TRUE(build_id(root / "short.so").starts_with("short.so 100 "));
}

}  // namespace
}  // namespace unisono::jit
