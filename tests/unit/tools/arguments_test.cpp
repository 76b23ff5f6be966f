#include "command/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace unisono::command {
namespace {

using testing::HasSubstr;

std::variant<Arguments, Answer> parse(std::vector<const char*> words) {
  words.insert(words.begin(), "unisono");
  return parse_arguments(static_cast<int>(words.size()), words.data());
}

template <class Options>
Options parsed(const std::vector<const char*>& words) {
  const auto result = parse(words);
  if (const auto* answer = std::get_if<Answer>(&result)) throw std::runtime_error(answer->text);
  return std::get<Options>(std::get<Arguments>(result));
}

std::string refusal(const std::vector<const char*>& words) {
  const auto result = parse(words);
  const auto* answer = std::get_if<Answer>(&result);
  return answer != nullptr && answer->wrong ? answer->text : "accepted";
}

TEST(ArgumentsTest, RunTakesImages) {
  const auto run = parsed<RunOptions>(
      {"run", "m.onnx", "--image", "a.png", "b.jpg", "--out", "o", "--threads", "3", "--batch", "--check", "--json"});
  EXPECT_EQ(run.model, "m.onnx");
  EXPECT_THAT(run.images, testing::ElementsAre("a.png", "b.jpg"));
  EXPECT_EQ(run.out, "o");
  EXPECT_EQ(run.threads, 3);
  EXPECT_TRUE(run.batch && run.check && run.json);
  EXPECT_FALSE(run.random || run.profile);
}

TEST(ArgumentsTest, ShapesAreNamedLists) {
  const auto run = parsed<RunOptions>({"run", "--shape", "x=1x3x8", "--shape", "y=4", "m.onnx", "--random"});
  EXPECT_EQ(run.model, "m.onnx");
  EXPECT_EQ(run.shapes, (std::map<std::string, std::vector<std::int64_t>>{{"x", {1, 3, 8}}, {"y", {4}}}));
  EXPECT_EQ(parsed<PackOptions>({"pack", "m.onnx", "--out", "p", "--shape", "x=2"}).shapes.at("x"),
            std::vector<std::int64_t>{2});
  EXPECT_THAT(refusal({"run", "m.onnx", "--random", "--shape", "x=1x"}), HasSubstr("NAME=AxBxC"));
  EXPECT_THAT(refusal({"tune", "m.onnx", "--shape", "x=1x0"}), HasSubstr("NAME=AxBxC"));
  EXPECT_THAT(refusal({"explain", "m.onnx", "--shape", "x=1", "--shape", "x=1"}), HasSubstr("'x' is given twice"));
  EXPECT_THAT(refusal({"run", "m.onnx", "--random", "--dim", "n=1", "--dim", "n=2"}), HasSubstr("as 1 and as 2"));
}

TEST(ArgumentsTest, APrecisionThatIsGivenIsTold) {
  EXPECT_FALSE(parsed<RunOptions>({"run", "m.onnx", "--random"}).precision_given);
  const auto run = parsed<RunOptions>({"run", "m.onnx", "--random", "--precision", "bf16"});
  EXPECT_TRUE(run.precision_given);
  EXPECT_EQ(run.precision, DType::bf16);
}

TEST(ArgumentsTest, AFunctionTakesOneFile) {
  const auto run = parsed<RunOptions>({"run", "--function", "a.cu", "--function", "b.cu", "text", "--random"});
  EXPECT_EQ(run.model, "text");
  EXPECT_THAT(run.functions, testing::ElementsAre("a.cu", "b.cu"));
}

TEST(ArgumentsTest, BenchTakesSuites) {
  const auto bench = parsed<bench::Options>(
      {"bench", "conv.txt", "block.txt", "--json", "out", "--only", "8,64", "--plans", "5", "--no-verify", "--resume"});
  EXPECT_THAT(bench.cases, testing::ElementsAre("conv.txt", "block.txt"));
  EXPECT_EQ(bench.out, "out");
  EXPECT_EQ(bench.only, "8,64");
  EXPECT_EQ(bench.plans, 5);
  EXPECT_TRUE(bench.resume && bench.cudnn && bench.bare);
  EXPECT_FALSE(bench.verify || bench.sweep || bench.precompile);
}

TEST(ArgumentsTest, BenchRefuses) {
  EXPECT_THAT(refusal({"bench"}), HasSubstr("CASES is required"));
  EXPECT_THAT(refusal({"bench", "c.txt", "--plans", "0"}), HasSubstr("--plans"));
  EXPECT_THAT(refusal({"bench", "c.txt", "--resume"}), HasSubstr("--json"));
  EXPECT_THAT(refusal({"bench", "c.txt", "--device", "cpu"}), HasSubstr("--device"));
  EXPECT_THAT(refusal({"bench", "c.txt", "--matmul-tflops", "-1"}), HasSubstr("--matmul-tflops"));
}

TEST(ArgumentsTest, RunTakesArraysAndDims) {
  const auto run = parsed<RunOptions>(
      {"run", "m", "--input", "x=a=b.npy", "--input", "y=c.npy", "--dim", "batch=4", "--dim", "h=32"});
  EXPECT_EQ(run.inputs.at(0), (InputFile{"x", "a=b.npy"}));
  EXPECT_EQ(run.inputs.at(1), (InputFile{"y", "c.npy"}));
  EXPECT_EQ(parsed<RunOptions>({"run", "m", "--input", "all.npz"}).inputs.at(0), (InputFile{"", "all.npz"}));
  EXPECT_EQ(run.dims.at("batch"), 4);
  EXPECT_EQ(run.dims.at("h"), 32);
}

TEST(ArgumentsTest, MeanAndDeviationAreLists) {
  const auto run = parsed<RunOptions>({"run", "m", "--image", "a.png", "--mean", "0.5,0.25,0", "--std", "0.5"});
  EXPECT_THAT(run.mean, testing::ElementsAre(0.5, 0.25, 0));
  EXPECT_THAT(run.deviation, testing::ElementsAre(0.5));
  EXPECT_THAT(refusal({"run", "m", "--image", "a.png", "--std", "0"}), HasSubstr("--std"));
}

TEST(ArgumentsTest, ExactlyOneKindOfInput) {
  EXPECT_NE(refusal({"run", "m"}), "accepted");
  EXPECT_NE(refusal({"run", "m", "--random", "--image", "a.png"}), "accepted");
  EXPECT_EQ(parsed<RunOptions>({"run", "m", "--random", "--seed", "9"}).seed, 9u);
  const auto traced = parsed<RunOptions>({"run", "m", "--random", "--trace", "t.json", "--svg", "t.svg"});
  EXPECT_EQ(traced.trace, "t.json");
  EXPECT_EQ(traced.svg, "t.svg");
}

// Beside random numbers --input gives numbers, and no files
TEST(ArgumentsTest, NumbersBesideRandomInputs) {
  const auto run = parsed<RunOptions>({"run", "text", "--random", "--input", "alpha=-0.5", "--input", "beta=1e3"});
  EXPECT_TRUE(run.random);
  EXPECT_EQ(run.inputs.at(0), (InputFile{"alpha", "-0.5"}));
  EXPECT_THAT(refusal({"run", "text", "--random", "--input", "alpha=a.npy"}), HasSubstr("NAME=NUMBER"));
  EXPECT_THAT(refusal({"run", "text", "--random", "--input", "0.5"}), HasSubstr("NAME=NUMBER"));
  EXPECT_THAT(refusal({"run", "text", "--image", "a.png", "--input", "alpha=1"}), HasSubstr("give one of --image"));
}

TEST(ArgumentsTest, MalformedPairsAreQuoted) {
  for (const char* dim : {"batch", "batch=", "=4", "batch=0", "batch=-1", "batch=4x", "batch=99999999999999999999"}) {
    EXPECT_THAT(refusal({"run", "m", "--random", "--dim", dim}), testing::AllOf(HasSubstr("--dim"), HasSubstr(dim)))
        << dim;
  }
  for (const char* input : {"x=", "=a.npy"}) {
    EXPECT_THAT(refusal({"run", "m", "--input", input}), testing::AllOf(HasSubstr("--input"), HasSubstr(input)))
        << input;
  }
  EXPECT_THAT(refusal({"run", "m", "--input", "x=a", "--input", "x=b"}), HasSubstr("twice"));
}

TEST(ArgumentsTest, RangesAreChecked) {
  EXPECT_NE(refusal({"run", "m", "--random", "--threads", "-1"}), "accepted");
  EXPECT_NE(refusal({"run", "m", "--random", "--repeat", "many"}), "accepted");
  EXPECT_NE(refusal({"demo", "--threads", "5000"}), "accepted");
}

TEST(ArgumentsTest, OtherCommands) {
  const auto explain =
      parsed<ExplainOptions>({"explain", "store acc : f32", "--svg", "a.svg", "--dot", "b.dot", "--json"});
  EXPECT_EQ(explain.subject, "store acc : f32");
  EXPECT_EQ(explain.svg, "a.svg");
  EXPECT_TRUE(explain.json);
  EXPECT_EQ(parsed<ExplainOptions>({"explain", "-"}).subject, "-");
  EXPECT_TRUE(parsed<DoctorOptions>({"doctor", "--json"}).json);
  EXPECT_EQ(parsed<DemoOptions>({"demo", "--out", "there"}).out, "there");
}

TEST(ArgumentsTest, HelpAndVersionAreNoErrors) {
  for (const std::vector<const char*>& words : std::vector<std::vector<const char*>>{
           {"--help"}, {"run", "--help"}, {"explain", "--help"}, {"doctor", "--help"}, {"demo", "--help"}}) {
    const auto result = parse(words);
    ASSERT_TRUE(std::holds_alternative<Answer>(result));
    EXPECT_FALSE(std::get<Answer>(result).wrong);
    EXPECT_THAT(std::get<Answer>(result).text, HasSubstr("Examples:"));
  }
  EXPECT_THAT(std::get<Answer>(parse({"--version"})).text, testing::StartsWith("unisono "));
}

TEST(ArgumentsTest, NothingAndNonsenseAreErrors) {
  EXPECT_NE(refusal({}), "accepted");
  EXPECT_NE(refusal({"dance"}), "accepted");
  EXPECT_NE(refusal({"doctor", "--deep"}), "accepted");
  EXPECT_NE(refusal({"explain"}), "accepted");
}

TEST(ArgumentsTest, CacheHasActions) {
  using Action = CacheOptions::Action;
  EXPECT_EQ(parsed<CacheOptions>({"cache", "list"}).action, Action::list);
  EXPECT_EQ(parsed<CacheOptions>({"cache", "verify", "--json"}).action, Action::verify);
  EXPECT_EQ(parsed<CacheOptions>({"cache", "path", "--folder", "pack"}).folder, "pack");
  EXPECT_TRUE(parsed<CacheOptions>({"cache", "--json", "path"}).json);
  EXPECT_TRUE(parsed<CacheOptions>({"cache", "path", "--json"}).json);
  const auto prune = parsed<CacheOptions>({"cache", "prune", "--older-than", "2d", "--max-size", "3K", "--all"});
  EXPECT_EQ(prune.action, Action::prune);
  EXPECT_EQ(prune.older_than, 2 * 24 * 3600.0);
  EXPECT_EQ(prune.max_bytes, 3072u);
  EXPECT_TRUE(prune.all);
  EXPECT_NE(refusal({"cache"}), "accepted");
  EXPECT_NE(refusal({"cache", "list", "--all"}), "accepted");
  EXPECT_THAT(refusal({"cache", "prune", "--max-size", "much"}), HasSubstr("'much'"));
  EXPECT_THAT(refusal({"cache", "prune", "--older-than", "soon"}), HasSubstr("'soon'"));
}

}  // namespace
}  // namespace unisono::command
