#include "bench/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <system_error>

#include "reference/reference.hpp"
#include "support/replace_file.hpp"
#include "unisono/error.hpp"

namespace unisono::bench {

namespace {

using nlohmann::json;

/// Four significant digits more than any clock has.
double rounded(double us) { return std::round(us * 1000) / 1000; }
double share(double x) { return std::round(x * 10000) / 10000; }

json to_json(const Tried& t) {
  json j{{"plan", t.plan}, {"predicted_us", rounded(t.predicted_us)}};
  if (t.error.empty())
    j["us"] = rounded(t.us);
  else
    j["error"] = t.error;
  return j;
}

json to_json(const std::vector<Tried>& tried) {
  json list = json::array();
  for (const Tried& t : tried) list.push_back(to_json(t));
  return list;
}

json to_json(const Conv2d& v) {
  return {{"n", v.n},
          {"h", v.h},
          {"w", v.w},
          {"c", v.c},
          {"k", v.k},
          {"r", v.r},
          {"s", v.s},
          {"stride", json::array({v.stride.h, v.stride.w})},
          {"pad", json::array({v.pad.top, v.pad.left, v.pad.bottom, v.pad.right})},
          {"dilation", json::array({v.dilation.h, v.dilation.w})},
          {"groups", v.groups},
          {"layout", v.layout == Layout::nchw ? "nchw" : "nhwc"}};
}

json to_json(const ConvTranspose2d& t) {
  json j = to_json(Conv2d{.n = t.n,
                          .h = t.h,
                          .w = t.w,
                          .c = t.c,
                          .k = t.k,
                          .r = t.r,
                          .s = t.s,
                          .stride = t.stride,
                          .pad = t.pad,
                          .dilation = t.dilation,
                          .groups = t.groups,
                          .layout = t.layout});
  j["transposed"] = true, j["output_pad"] = json::array({t.output_pad.h, t.output_pad.w});
  return j;
}

json to_json(const Gemm& g) { return {{"m", g.m}, {"n", g.n}, {"k", g.k}, {"products", g.products}}; }

void add(json& j, const Checked& c) {
  j["max_error"] = c.error, j["tolerance"] = c.tolerance;
  j["error_over_tolerance"] = share(c.worst), j["largest_error"] = c.largest_error;
  j["elements"] = c.elements, j["outside"] = c.outside, j["unclaimed"] = c.unclaimed, j["repeats"] = c.repeats;
  j["agrees"] = c.ok();
}

}  // namespace

json to_json(const Case& c) {
  json operands = json::array();
  for (const OperandTensor& x : operand_tensors(c.graph, c.contraction()))
    operands.push_back(
        {{"name", x.name}, {"axes", to_string(x.axes)}, {"dtype", to_string(x.dtype)}, {"shape", x.shape}});
  return {{"name", c.name},
          {"dtype", to_string(c.conv.dtype_x)},
          {c.product ? "product" : "conv", c.product ? to_json(*c.product)
                                           : c.dgrad ? to_json(input_gradient(c.conv))
                                                     : to_json(c.conv)},
          {"epilogue", c.epilogue},
          {"text", c.text},
          {"bare", c.is_bare()},
          {"operands", operands},
          {"sets", rotating_sets(c.bytes())},
          {"flop", c.flop()},
          {"bytes", c.bytes()}};
}

json to_json(const Case& c, const Result& r, bool with_plans) {
  json j = to_json(c);
  if (!c.plan.empty()) j["plan_override"] = c.plan;
  if (!r.error.empty()) {
    j["error"] = r.error;
    return j;
  }
  j["unisono_us"] = rounded(r.unisono.us), j["unisono_again_us"] = rounded(r.again.us),
  j["spread"] = share(r.unisono.spread);
  if (r.unisono.hot > 0) j["unisono_hot_us"] = rounded(r.unisono.hot);
  j["times"] = r.unisono.times, j["plan"] = r.plan, j["predicted_us"] = rounded(r.predicted_us);
  j["registers"] = r.registers, j["spill_bytes"] = r.spill_bytes, j["launches"] = r.launches, j["sets"] = r.sets;
  j["tflops"] = rounded(c.flop() / r.unisono.us * 1e-6), j["floor_us"] = rounded(r.floor_us);
  j["share_of_floor"] = share(r.floor_us / r.unisono.us);
  if (r.bare)
    j["unisono_bare_us"] = rounded(r.bare->us), j["unisono_bare_plan"] = r.bare_plan,
    j["unisono_bare_spread"] = share(r.bare->spread);
  if (r.bare && r.bare->hot > 0) j["unisono_bare_hot_us"] = rounded(r.bare->hot);
  j["peers"] = json::object(), j["peer_spread"] = json::object(), j["peer_errors"] = json::object();
  for (const PeerResult& v : r.peers) {
    if (v.time) j["peers"][v.peer] = rounded(v.time->us), j["peer_spread"][v.peer] = share(v.time->spread);
    if (v.time && !v.engine.empty()) j[v.peer + "_engine"] = v.engine;
    if (v.compile_seconds > 0) j["peer_compile_seconds"][v.peer] = rounded(v.compile_seconds);
    if (v.time && v.time->hot > 0) j["peers_hot"][v.peer] = rounded(v.time->hot);
    if (!v.error.empty()) j["peer_errors"][v.peer] = v.error;
    if (v.checked) add(j["peer_checked"][v.peer], *v.checked);
  }
  if (r.checked) add(j, *r.checked);
  if (with_plans) j["plans"] = to_json(r.tried), j["bare_plans"] = to_json(r.bare_tried);
  return j;
}

bool is_good(const json& result) {
  const json checked = result.value("peer_checked", json::object());
  return !result.contains("error") && result.value("agrees", true) &&
         std::all_of(checked.begin(), checked.end(), [](const json& peer) { return peer.value("agrees", false); });
}

namespace {

std::string cell(const json& c, const char* key, const char* form) {
  return c.contains(key) && c[key].is_number() ? fmt::format(fmt::runtime(form), c[key].get<double>()) : "-";
}

std::string ratio(const json& c, double over, std::vector<double>& all) {
  if (over <= 0) return "-";
  all.push_back(c["unisono_us"].get<double>() / over);
  return fmt::format("{:.3f}", all.back());
}

// cuDNN's bare convolution, or cuBLASLt's product
double vendor_us(const json& c) {
  for (const char* peer : {"cudnn", "cublaslt", "cublaslt_bare"})
    if (c["peers"].contains(peer)) return c["peers"][peer].get<double>();
  return 0;
}

std::string mean_text(const std::vector<double>& all) {
  return all.empty() ? "-" : fmt::format("{:.3f}", geomean(all));
}

}  // namespace

std::string table(const json& suite) {
  constexpr const char* form = "{:40} {:>9} {:>7} {:>8} {:>8} {:>8} {:>7} {:>7} {:>9}\n";
  std::string text = fmt::format(fmt::runtime(form), "suite " + suite.value("suite", ""), "us", "spread", "again",
                                 "/bare", "/vendor", "floor", "kernels", "error/tol");
  std::vector<double> again, bare, vendor;
  for (const json& c : suite["cases"]) {
    const std::string name = c["name"];
    if (c.contains("error")) {
      text += fmt::format("{:40} {}\n", name, c["error"].get<std::string>());
      continue;
    }
    text += fmt::format(fmt::runtime(form), name, cell(c, "unisono_us", "{:.2f}"),
                        fmt::format("{:.1f}%", c["spread"].get<double>() * 100), ratio(c, c["unisono_again_us"], again),
                        ratio(c, c.value("unisono_bare_us", 0.0), bare), ratio(c, vendor_us(c), vendor),
                        cell(c, "share_of_floor", "{:.2f}"), cell(c, "launches", "{:g}"),
                        cell(c, "error_over_tolerance", "{:.2f}") + (is_good(c) ? "" : " WRONG"));
  }
  return text + fmt::format(fmt::runtime(form), "geometric mean", "", "", mean_text(again), mean_text(bare),
                            mean_text(vendor), "", "", "");
}

void write_json(const std::filesystem::path& file, const json& value) {
  std::error_code failed;
  if (file.has_parent_path()) std::filesystem::create_directories(file.parent_path(), failed);
  try {
    support::replace_file(file, value.dump(1) + "\n");
  } catch (const std::system_error& error) {
    throw UserError(
        fmt::format("cannot write {} ({}); give another place by --json", file.string(), error.code().message()));
  }
}

}  // namespace unisono::bench
