#pragma once
/// What the user asked for on the command line.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/bench.hpp"
#include "plan/device.hpp"
#include "unisono/dtype.hpp"
#include "unisono/network/executable.hpp"

namespace unisono::command {

/// One --input.
struct InputFile {
  std::string name;            ///< which input; empty if the option has none
  std::filesystem::path path;  ///< with a name it may be a number: see number_of
  bool operator==(const InputFile&) const = default;
};

/// How run prints the steps of a profile.
enum class StepOrder : std::uint8_t {
  order,  ///< as they run
  time,   ///< the longest first
  lost,   ///< on a GPU, by the time above what its peaks need
};

struct RunOptions {
  std::filesystem::path model;  ///< an ONNX file, or a folder with a model.json; or an epilogue, as in ExplainOptions
  std::string conv, gemm;       ///< what an epilogue runs over, see parse_convolution and parse_product
  std::string plan;             ///< for an epilogue with cuda: CompileOptions::plan
  std::vector<std::filesystem::path> functions;  ///< for an epilogue, see read_function
  std::vector<std::filesystem::path> images;
  std::vector<InputFile> inputs;        ///< .npy and .npz files, and numbers
  std::vector<double> mean, deviation;  ///< for images: one, or one a channel
  bool random = false;
  std::uint64_t seed = 0;
  std::map<std::string, std::int64_t> dims;                 ///< extents of symbols such as "batch"
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< shapes of inputs, instead of `dims`
  std::filesystem::path out = "out";
  int threads = 0;
  bool cuda = false;
  DType precision = DType::bf16;  ///< with cuda
  bool precision_given = false;
  bool strict = false;                                       ///< for a model with cuda: NetworkOptions::strict
  AttentionKernels attention = AttentionKernels::automatic;  ///< for a model with cuda: NetworkOptions::attention
  int repeat = 5;
  std::optional<std::uint64_t> memory_limit;  ///< bytes of the model's constants
  bool batch = false;
  bool check = false;
  bool profile = false;
  StepOrder sort = StepOrder::order;
  std::filesystem::path trace, svg, html;  ///< where the profile is written
  std::filesystem::path assembly;          ///< with cuda: the SASS of the kernels is written there
  bool json = false;
};

struct ExplainOptions {
  std::string subject;  ///< an ONNX file, a model's folder, a text file, "-" or the text itself
  std::string region;   ///< region of a model: a number from 1 on, or a name; its epilogue is explained
  std::map<std::string, std::int64_t> dims;
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< shapes of a model's inputs, instead of `dims`
  std::optional<std::uint64_t> memory_limit;                ///< bytes of a model's constants
  std::filesystem::path dot, svg, html;
  std::filesystem::path assembly;        ///< with cuda: the SASS of the kernels is written there
  bool cuda = false;                     ///< show a text's plan and source for a GPU, or a model's kernels
  std::optional<plan::Device> gpu = {};  ///< with cuda: what is planned for; none: the GPU at hand, or an H200
  DType precision = DType::bf16;         ///< for a model with cuda
  bool strict = false;                   ///< for a model with cuda: NetworkOptions::strict
  AttentionKernels attention = AttentionKernels::automatic;  ///< for a model with cuda: NetworkOptions::attention
  std::string conv;                                          ///< with cuda: the convolution, see parse_convolution
  std::string gemm;                                          ///< with cuda: the product, see parse_product
  std::string plan;                                          ///< with cuda: CompileOptions::plan
  bool accurate = false;                                     ///< with cuda: CompileOptions::accurate
  std::string visitor;  ///< for a text: VisitorOptions::name; the header for a kernel of one's own is printed
  std::vector<std::filesystem::path> functions;  ///< for a text, see read_function
  bool json = false;
};

struct DoctorOptions {
  bool json = false;
};

enum class DeviceChoice : std::uint8_t { any, cpu, cuda };

struct DemoOptions {
  std::filesystem::path model = "models/heatmap_unet";
  std::filesystem::path out = "out";
  DeviceChoice device = DeviceChoice::any;  ///< any: a GPU if there is one
  int threads = 0;
  bool json = false;
};

struct CacheOptions {
  enum class Action { list, verify, prune, path } action = Action::list;
  std::filesystem::path folder;      ///< empty: as the environment says
  std::optional<double> older_than;  ///< seconds
  std::optional<std::uint64_t> max_bytes;
  bool all = false;
  bool json = false;
};

struct PackOptions {
  std::vector<std::string> subjects;                        ///< models, files of cases, epilogues
  std::map<std::string, std::int64_t> dims;                 ///< for models
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< shapes of models' inputs, instead of `dims`
  DType precision = DType::bf16;                            ///< for models
  std::string conv, gemm, plan;                             ///< for epilogues, as in ExplainOptions
  std::vector<std::filesystem::path> functions;             ///< for epilogues, as in ExplainOptions
  std::filesystem::path out;
  std::vector<plan::Device> gpus = {};  ///< that it is for; none: an H200
  int jobs = 0;                         ///< compilations at once; 0: one a core
  bool json = false;
};

struct EmitOptions {
  std::string subject;                           ///< an epilogue
  std::string conv, gemm, plan;                  ///< as in ExplainOptions
  std::vector<std::filesystem::path> functions;  ///< as in ExplainOptions
  std::string name;                              ///< ahead of the names of its functions
  std::filesystem::path out;                     ///< NAME.cu and NAME.h go there
  std::optional<plan::Device> gpu = {};          ///< what is planned for; none: an H200, or what the plan says
};

struct TuneOptions {
  std::vector<std::string> subjects;                        ///< as in PackOptions
  std::map<std::string, std::int64_t> dims;                 ///< for models
  std::map<std::string, std::vector<std::int64_t>> shapes;  ///< shapes of models' inputs, instead of `dims`
  DType precision = DType::bf16;                            ///< for models
  std::string conv, gemm;                                   ///< for epilogues, as in ExplainOptions
  std::vector<std::filesystem::path> functions;             ///< for epilogues, as in ExplainOptions
  std::filesystem::path database;                           ///< empty: as the environment says
  std::filesystem::path import_from, export_to;
  int device_index = 0;
  std::size_t candidates = 10;
  double seconds = 0;  ///< 0: no limit
  std::size_t rotate = std::size_t{160} << 20;
  int jobs = 0;  ///< compilations at once; 0: one a core
  bool again = false;
  bool json = false;
};

struct TrainOptions {
  std::filesystem::path config;  ///< a JSON file, see docs/training.md
  bool resume = false;           ///< go on from the folder's checkpoint
  bool json = false;
  std::filesystem::path html;  ///< a page to explore a step and the curves
};

using Arguments = std::variant<RunOptions, ExplainOptions, DoctorOptions, DemoOptions, CacheOptions, PackOptions,
                               EmitOptions, TuneOptions, TrainOptions, bench::Options>;

/// The command line was wrong, or asked for help or the version: `text` says so.
struct Answer {
  std::string text;
  bool wrong = false;
};

/// Parses argv. Prints nothing.
std::variant<Arguments, Answer> parse_arguments(int argc, const char* const* argv);

}  // namespace unisono::command
