#include "support/cuda_places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

namespace unisono::support {
namespace {

namespace fs = std::filesystem;

/// A folder that is gone at the end.
class CudaPlaces : public ::testing::Test {
 protected:
  CudaPlaces() {
    std::string name = (fs::temp_directory_path() / "unisono-places-XXXXXX").string();
    root = ::mkdtemp(name.data());
  }
  ~CudaPlaces() override { fs::remove_all(root); }
  void make(const char* folder) const { fs::create_directories(root / folder); }
  fs::path root;
};

TEST_F(CudaPlaces, OfAToolkitAreThoseOfEachTarget) {
  make("targets/sbsa-linux/lib");
  make("targets/x86_64-linux/lib");
  EXPECT_THAT(toolkit_folders(root, "lib"),
              testing::ElementsAre(root / "lib64", root / "lib", root / "targets/sbsa-linux/lib",
                                   root / "targets/x86_64-linux/lib"));
  EXPECT_THAT(toolkit_folders("/nonexistent", "include"), testing::ElementsAre("/nonexistent/include"));
}

TEST_F(CudaPlaces, OfPythonPackagesAreThoseWithLibrariesTheNewestFirst) {
  for (const char* folder : {"nvidia/cuda_nvrtc/lib", "nvidia/cu13/lib", "nvidia/cu13/include", "nvidia/headers"})
    make(folder);
  EXPECT_THAT(nvidia_package_folders(root),
              testing::ElementsAre(root / "nvidia/cu13/lib", root / "nvidia/cuda_nvrtc/lib"));
  EXPECT_TRUE(nvidia_package_folders("/nonexistent").empty());
}

TEST_F(CudaPlaces, OfPythonPackagesThatWereAdded) {
  make("nvidia/cu13/lib");
  add_python_packages(root);
  add_python_packages(root);
  EXPECT_THAT(python_library_folders(), testing::ElementsAre(root / "nvidia/cu13/lib"));
}

TEST(CudaPlacesOfAWheel, AreBesideThePackage) {
  EXPECT_EQ(packages_of("/venv/site-packages/unisono/lib/libunisono.so.0"), "/venv/site-packages");
  EXPECT_EQ(packages_of("/venv/site-packages/unisono/bin/unisono"), "/venv/site-packages");
  EXPECT_EQ(packages_of("/opt/unisono/lib64/libunisono.so.0"), "");
  EXPECT_EQ(packages_of("/usr/lib/libunisono.so.0"), "");
}

}  // namespace
}  // namespace unisono::support
