#include "tuning/row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <tuple>

#include "families/override.hpp"
#include "unisono/error.hpp"

namespace unisono::tuning {
namespace {

constexpr std::string_view separator = " | ";
constexpr std::size_t field_count = 9;
constexpr std::size_t shown = 200;  // bytes of a line that an error repeats
constexpr const char* form =
    "DEVICE/SMS | DRIVER | KERNELS | PROBLEM | EPILOGUE | PLAN | MEASURED us | PREDICTED us | WHEN";

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> fields;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(separator, begin), line.size());
    fields.emplace_back(line.substr(begin, end - begin));
    begin = end + separator.size();
  }
  return fields;
}

template <class Number>
bool read(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

bool read_us(std::string_view text, double& us) {
  return text.ends_with(" us") && read(text.substr(0, text.size() - 3), us) && std::isfinite(us) && us >= 0;
}

/// False if the fields are not those of a row.
bool read_row(const std::vector<std::string>& fields, Row& row) {
  if (fields.size() != field_count) return false;
  const std::size_t slash = fields[0].rfind('/');
  if (slash == std::string::npos || slash == 0) return false;
  row.platform.device = fields[0].substr(0, slash);
  row.platform.driver = fields[1] == "-" ? "" : fields[1];
  row.platform.kernels = fields[2];
  row.key = {fields[3], fields[4]};
  row.plan = fields[5];
  row.when = fields[8];
  return read(std::string_view(fields[0]).substr(slash + 1), row.platform.sms) && row.platform.sms > 0 &&
         read_us(fields[6], row.measured_us) && read_us(fields[7], row.predicted_us) &&
         std::ranges::none_of(fields, [](const std::string& f) { return f.empty() || f.size() > longest_text; });
}

/// Why a plan's text is none; empty if it is one.
std::string wrong_plan(const Row& row) {
  try {
    if (parse_plan(row.plan).fields.empty()) return "it fixes nothing";
  } catch (const UserError& error) {
    return error.what();
  }
  return {};
}

}  // namespace

std::string to_line(const Row& r) {
  return fmt::format("{}/{} | {} | {} | {} | {} | {} | {:.2f} us | {:.2f} us | {}", r.platform.device, r.platform.sms,
                     r.platform.driver.empty() ? "-" : r.platform.driver, r.platform.kernels, r.key.problem,
                     r.key.epilogue, r.plan, r.measured_us, r.predicted_us, r.when);
}

std::string to_text(std::vector<Row> rows) {
  std::ranges::sort(rows, {}, [](const Row& r) { return std::tie(r.platform, r.key); });
  std::string text = fmt::format("# {}\n", form);
  for (const Row& r : rows) text += to_line(r) + '\n';
  return text;
}

std::vector<Row> parse_rows(std::string_view text, const std::string& where) {
  std::vector<Row> rows;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1, ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    if (!read_row(split(line), rows.emplace_back()))
      throw UserError(fmt::format("{}, line {}: '{}{}' is not a row of measured plans; expected '{}'", where, number,
                                  line.substr(0, shown), line.size() > shown ? " …" : "", form));
    if (const std::string why = wrong_plan(rows.back()); !why.empty())
      throw UserError(fmt::format("{}, line {}: its plan cannot be used: {}", where, number, why));
  }
  return rows;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", t.tm_year + 1900, t.tm_mon + 1, t.tm_mday, t.tm_hour,
                     t.tm_min, t.tm_sec);
}

}  // namespace unisono::tuning
