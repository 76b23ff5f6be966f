/// Models mean the same in a program whose language writes 0,25.

#include <gtest/gtest.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "onnx_model.hpp"
#include "support/files.hpp"

namespace unisono {
namespace {

namespace fs = std::filesystem;
using Model = test::OnnxModel;

constexpr const char* definition = R"(comment_char %
escape_char /
LC_NUMERIC
decimal_point "<U002C>"
thousands_sep "<U002E>"
grouping 3;3
END LC_NUMERIC
)";
constexpr const char* characters = R"(<code_set_name> UTF-8
<comment_char> %
<escape_char> /
<mb_cur_min> 1
<mb_cur_max> 6
CHARMAP
<U0000>..<U007F> /x00 NUL
END CHARMAP
)";

// Numbers are written with commas as long as this lives. The locale is compiled here, as machines need not have any.
class Commas : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "definition") << definition;
    std::ofstream(folder_ / "characters") << characters;
    const std::string command =
        "cd '" + folder_.string() + "' && localedef -c -i definition -f ./characters ./commas >log 2>&1";
    [[maybe_unused]] const int status = std::system(command.c_str());  // it tells of warnings
    ::setenv("LOCPATH", folder_.c_str(), 1);
    ASSERT_NE(std::setlocale(LC_NUMERIC, "commas"), nullptr) << "localedef made no locale; see " << folder_ / "log";
    ASSERT_EQ(std::strtod("0,25", nullptr), 0.25);
  }
  void TearDown() override {
    std::setlocale(LC_NUMERIC, "C");
    ::unsetenv("LOCPATH");
  }
  support::TemporaryFolder temporary_{fs::temp_directory_path()};
  fs::path folder_ = temporary_.path();
};

TEST_F(Commas, RealAttributes) {
  const Model m("LeakyRelu");
  m.set("alpha", 0.75f);
  const auto outputs = test::run(compile(test::parse(m.bytes())), {{"x", {{2, 3}, {-4, -2, -1, 2, 4, 6}}}});
  EXPECT_EQ(outputs.at("y").data, (std::vector<float>{-3, -1.5f, -0.75f, 2, 4, 6}));
}

TEST_F(Commas, AnEpsilonIsTheDecimalThatWasMeant) {
  Model m("InstanceNormalization", 21, {"i", "s", "s"});
  m.add_input("i", {1, 2, 3, 3});
  m.add_constant("s", {2}, {1, 1});
  m.set("epsilon", 1e-3f);
  const Network n = test::parse(m.bytes());
  ASSERT_EQ(n.operators.size(), 1u);
  EXPECT_EQ(std::get<operators::Normalisation>(n.operators[0].kind).eps, 1e-3);
}

}  // namespace
}  // namespace unisono
