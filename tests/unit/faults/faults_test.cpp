// Every allocation of our own, every call for a file, of SQLite and of oneDNN fails once in turn: an error each time,
// nothing is lost, and the next time all is well.

#include "faults.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "cycle.hpp"
#include "jit/jit.hpp"
#include "support/fake_compiler.hpp"
#include "support/files.hpp"
#include "tuning/choose.hpp"
#include "tuning/database.hpp"
#include "unisono/network.hpp"
#include "unisono/unisono.hpp"
#include "unit/plan/problems.hpp"

namespace unisono::faults {
namespace {

bool graph_on_the_cpu() {
  const Graph graph = parse("store relu(acc + bias[n]) as y : f32\n");
  const Executable run = compile(Gemm{.m = 8, .n = 8, .k = 8}, graph, {.threads = 1});
  const std::vector<float> a(64, 0.5f), b(64, 2.0f), bias(8, 1.0f);
  std::vector<float> y(64, -1);
  Arguments x;
  x.left = {a.data(), DType::f32, {1, 8, 8}, {}};
  x.right = {b.data(), DType::f32, {1, 8, 8}, {}};
  x.operands["bias"] = {bias.data(), DType::f32, {8}, {}};
  x.outputs["y"] = {y.data(), DType::f32, {1, 8, 8}, {}};
  run.run(x);
  return std::all_of(y.begin(), y.end(), [](float v) { return v == 9.0f; });
}

bool network_on_the_cpu() {
  NetworkBuilder net;
  auto h = conv2d(net.input("x", {"n", 4, 8, 8}), net.constant("w", {4, 4, 1, 1}, std::vector<float>(16, 0.25f)));
  net.output(max_pool(relu(h), {.kernel = 2, .stride = 2}), "y");
  const NetworkExecutable run = compile(net.build(), {.threads = 1});
  const std::vector<float> x(256, 3.0f);
  std::vector<float> y(64, -1);
  run.run({{"x", {x.data(), DType::f32, {1, 4, 8, 8}, {}}}}, {{"y", {y.data(), DType::f32, {1, 4, 4, 4}, {}}}});
  return std::all_of(y.begin(), y.end(), [](float v) { return v == 3.0f; });
}

// Volumes, and a batch of products
bool operators_on_the_cpu() {
  NetworkBuilder net;
  const std::vector<std::int64_t> one(3, 1), none(3, 0);
  const operators::Conv3d conv{.stride = one,
                               .dilation = one,
                               .before = none,
                               .after = none,
                               .output_pad = none,
                               .groups = 1,
                               .transposed = false};
  const auto w = net.constant("w", {2, 2, 1, 1, 1}, std::vector<float>(4, 0.25f));
  const auto h = net.apply(conv, {net.input("x", {1, 2, 2, 4, 4}), w});
  net.output(net.apply(operators::MatMul{}, {h, net.input("b", {4, 4})}), "y");
  const NetworkExecutable run = compile(net.build(), {.threads = 1});
  const std::vector<float> x(64, 3.0f), b(16, 1.0f);
  std::vector<float> y(64, -1);
  run.run({{"x", {x.data(), DType::f32, {1, 2, 2, 4, 4}, {}}}, {"b", {b.data(), DType::f32, {4, 4}, {}}}},
          {{"y", {y.data(), DType::f32, {1, 2, 2, 4, 4}, {}}}});
  return std::all_of(y.begin(), y.end(), [](float v) { return v == 6.0f; });
}

class Faults : public ::testing::Test {
 protected:
  Faults() {
    ::setenv("UNISONO_TUNING", database.c_str(), 1);
    ::setenv("XDG_RUNTIME_DIR", folder.path().c_str(), 1);
    ::setenv("TMPDIR", folder.path().c_str(), 1);
  }
  ~Faults() override {
    for (const char* name : {"UNISONO_TUNING", "XDG_RUNTIME_DIR", "TMPDIR"}) ::unsetenv(name);
  }

  // Compiled and kept, then found
  bool cached_kernel() {
    jit::Settings settings;
    settings.cache = folder.path() / "cache" / std::to_string(round++);
    settings.jobs = 1;
    settings.warn = [](const std::string&) {};
    const jit::Request request{.source = "kernel k", .headers = {}, .entry = "k", .title = "title", .arch = "sm_90a"};
    const auto expected = unisono::testing::FakeCompiler::result(request, "1").cubin;
    for (int i = 0; i < 2; ++i) {
      jit::Jit jit(settings, std::make_shared<unisono::testing::FakeCompiler>());
      if (jit.compile(request).cubin != expected) return false;
      make_old(settings.cache);
    }
    return true;
  }

  // As if nothing had been used for two hours, so that the next use is noted
  static void make_old(const std::filesystem::path& cache) {
    const auto then = std::filesystem::file_time_type::clock::now() - std::chrono::hours(2);
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(cache, ignored))
      if (entry.path().filename() == "entry.json") std::filesystem::last_write_time(entry.path(), then, ignored);
  }

  // Written, found, and taken for a plan
  bool measured_plan() {
    const tuning::Row row{
        tuning::platform_of(device), tuning::key_of(conv, epilogue), "tile=128x160 order=pingpong", 12.5, 13,
        "2026-11-21T20:40:12Z"};
    tuning::Database(database, tuning::Database::Access::write).put({&row, 1});
    const auto found = tuning::Database(database, tuning::Database::Access::read).find(row.platform, row.key);
    return found && found->plan == row.plan;
  }

  support::TemporaryFolder folder{std::filesystem::temp_directory_path()};
  std::filesystem::path database = folder.path() / "tuning.db";
  plan::Device device = [] {
    plan::Device d;
    d.name = "a GPU that nothing is shipped for", d.driver = "1";
    return d;
  }();
  Conv2d conv = plan::test::conv_of(8, 64, 64, 320, 320, 3);
  plan::Epilogue epilogue = plan::test::epilogue_of(plan::test::bare, conv);
  int round = 0;
};

TEST_F(Faults, AllocationsOfAGraph) { each_fails_once(Kind::allocation, graph_on_the_cpu); }
TEST_F(Faults, AllocationsOfANetwork) { each_fails_once(Kind::allocation, network_on_the_cpu); }
TEST_F(Faults, AllocationsOfOperators) { each_fails_once(Kind::allocation, operators_on_the_cpu); }

// Memory that oneDNN does not get is no missing kernel
TEST_F(Faults, MemoryOfPrimitives) {
  const auto all = [] { return graph_on_the_cpu() && network_on_the_cpu() && operators_on_the_cpu(); };
  each_fails_once(Kind::primitive, all);
  each_fails_once(Kind::object, all);
}

// oneDNN reads what it had no memory for, so a run must not need any, the first one with several threads included
TEST_F(Faults, ARunMakesNoObjectsOfOneDNN) {
  NetworkBuilder net;
  const auto w = net.constant("w", {16, 16, 3, 3}, std::vector<float>(16 * 16 * 9, 0.25f));
  const auto h = relu(conv2d(net.input("x", {1, 16, 64, 64}), w, {.pad = {1, 1, 1, 1}}));
  net.output(net.apply(operators::MatMul{}, {h, net.input("b", {64, 64})}), "y");
  const NetworkExecutable run = compile(net.build(), {.threads = 4});
  const std::vector<float> x(std::size_t{16} * 64 * 64, 1.0f), b(std::size_t{64} * 64, 1.0f);
  std::vector<float> y(x.size());
  {
    const Counting planning(Kind::object, -1);
    run.memory({{"x", {1, 16, 64, 64}}, {"b", {64, 64}}});
    EXPECT_GE(seen(Kind::object), 4 * 2);  // for each thread
  }
  const Counting running(Kind::object, 0);
  for (int i = 0; i < 3; ++i)
    run.run({{"x", {x.data(), DType::f32, {1, 16, 64, 64}, {}}}, {"b", {b.data(), DType::f32, {64, 64}, {}}}},
            {{"y", {y.data(), DType::f32, {1, 16, 64, 64}, {}}}});
  EXPECT_EQ(seen(Kind::object), 0);
}

TEST_F(Faults, AllocationsOfTheDatabase) {
  each_fails_once(Kind::allocation, [&] { return measured_plan(); });
}
TEST_F(Faults, AllocationsOfTheCache) {
#ifdef UNISONO_SANITIZED
  // Without inlining, libstdc++ allocates by way of this program's weak functions, so that allocations within its
  // directory_iterator, which does not survive a failure, are taken for the library's own
  GTEST_SKIP() << "runs in the optimised build";
#endif
  each_fails_once(Kind::allocation, [&] { return cached_kernel(); }, {"*"});
}

TEST_F(Faults, FilesOfTheCache) {
  each_fails_once(Kind::file, [&] { return cached_kernel(); }, {"*"});
}

// A reader that may not write opens the file once more
TEST_F(Faults, CallsOfTheDatabase) {
  each_fails_once(Kind::database, [&] { return measured_plan(); },
                  {"sqlite3_reset", "sqlite3_close", "sqlite3_open_v2"});
}

// A plan is made in any case: by the cost model, with a warning
TEST_F(Faults, LookupsInTheDatabase) {
  tuning::choose({conv, epilogue, device}).value();  // looks into the library's rows, which are then kept
  measured_plan();
  ::testing::internal::CaptureStderr();
  each_fails_once(Kind::database,
                  [&] {
                    return tuning::choose({conv, epilogue, device}).value().plan->ctas > 0;
                  },
                  {"*"});
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("plans are not used"), std::string::npos);
}

}  // namespace
}  // namespace unisono::faults
