#pragma once
/// What a training says of its steps: lines of JSON in a file.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace unisono::training {

/// A line. What is not said is absent.
struct LogLine {
  std::int64_t step = 0;
  /// Means over the steps since the line before that were not skipped, or the last one's.
  std::optional<double> loss = {}, learning_rate = {}, gradient_norm = {}, images_per_second = {};
  std::optional<double> validation_loss = {};
  /// The scale of the last step, and how many steps have been skipped so far; with loss scaling.
  std::optional<double> loss_scale = {}, skipped = {};
};

/// A line as it stands in the file: JSON, and the end of the line.
std::string text_of_line(const LogLine& line);

/// The lines of a file up to a step, in order; a last line that was cut short, and what follows the step, are left out.
/// None if there is no file. Throws UserError for a line that is none of ours.
std::vector<LogLine> read_log(const std::filesystem::path& file, std::int64_t last_step);

class Log {
 public:
  /// Goes on behind these lines, which replace what the file holds. Throws UserError if it cannot be written.
  Log(const std::filesystem::path& file, std::vector<LogLine> lines);
  void add(const LogLine& line);
  const std::vector<LogLine>& lines() const { return lines_; }

 private:
  std::filesystem::path path_;
  std::vector<LogLine> lines_;
  std::ofstream file_;
};

}  // namespace unisono::training
