#include "explain.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "families/override.hpp"
#include "families/registry.hpp"
#include "lower/lower.hpp"
#include "runtime/common/names.hpp"
#include "runtime/cuda/backend.hpp"
#include "unisono/error.hpp"

namespace unisono::cuda {

namespace {

std::string first_sentence(std::string_view text) { return std::string(text.substr(0, text.find_first_of(":;\n"))); }

plan::Device planned_for(const CompileOptions& options, std::string& note) {
  try {
    return open_device(options.device_index);
  } catch (const DeviceError& error) {
    note = first_sentence(error.what());
  } catch (const Unsupported& error) {
    note = first_sentence(error.what());
  }
  return {};
}

std::vector<std::string> tensors_of(const Contraction& contraction) {
  std::vector<std::string> names = has_left_and_right(contraction) ? std::vector<std::string>{"left", "right"}
                                                                   : std::vector<std::string>{"image", "filter"};
  if (product_count(contraction) == 2) names.emplace_back("right1");
  names.emplace_back("output");
  return names;
}

}  // namespace

Explanation explain(const Contraction& contraction, const Graph& graph, const CompileOptions& options,
                    const std::optional<plan::Device>& wanted) {
  extents(contraction);
  verify(graph);
  runtime::check_storage(options, runtime::operand_names(graph));
  Explanation e;
  e.contraction = to_string(contraction);
  const plan::Device device = wanted ? *wanted : planned_for(options, e.device_note);
  if (wanted) e.device_note = "planned for it by name";
  e.device = device.name, e.planned_for = device;
  const lower::Lowered k = lower::lower(contraction, graph, options, device).value();
  e.plan = families::describe(k.plan());
  e.origin = tuning::to_string(k.chosen);
  e.predicted_us = k.plan().predicted_us;
  e.workspace_bytes = k.plan().workspace_bytes;
  e.takes_slices = k.plan().pitched_image;
  e.tensors = tensors_of(contraction);
  e.fields = k.kernel.fields;
  e.source = k.kernel.source;
  e.plan_override = families::override_of(k.plan());
  e.reasons = families::explain({k.problem.task, k.problem.forms, device},
                                families::fixed_by(options.plan, options.plan_override), 5, k.chosen.plan);
  return e;
}

std::string title(const codegen::Field& f) {
  std::string name = fmt::format("{}{} : {}", f.name, to_string(f.axes), to_string(f.dtype));
  switch (f.kind) {
    case codegen::Field::Kind::operand_pointer: return "operand " + name;
    case codegen::Field::Kind::operand_value: return "operand " + name + ", by value";
    case codegen::Field::Kind::store_pointer: return "store " + name;
    case codegen::Field::Kind::extent: return fmt::format("extent {}", "mnbhw"[static_cast<int>(f.coordinate)]);
    case codegen::Field::Kind::pitch: return fmt::format("pitch of {}", f.name);
    case codegen::Field::Kind::operand_step:
      return fmt::format("step {} of {}", "mnbhw"[static_cast<int>(f.coordinate)], f.name);
    case codegen::Field::Kind::store_step:
      return fmt::format("step {} of store {}", "mnbhw"[static_cast<int>(f.coordinate)], f.name);
    case codegen::Field::Kind::operand_vectors: return fmt::format("vectors of {}", f.name);
    case codegen::Field::Kind::pointer: return fmt::format("captured {}", f.name);
  }
  return name;
}

std::string to_text(const Explanation& e) {
  std::vector<std::string> arguments;
  for (const codegen::Field& f : e.fields) arguments.push_back(title(f));
  return to_text(e, arguments);
}

std::string to_text(const Explanation& e, const std::vector<std::string>& arguments) {
  std::string text = fmt::format("{}\n", e.contraction);
  text +=
      fmt::format("for {}{}\n", e.device,
                  e.device_note.empty() ? "" : fmt::format(", which this machine does not have ({})", e.device_note));
  text += fmt::format("plan chosen by: {}\n", e.origin);
  if (e.plan_override.any()) text += fmt::format("fixed by: --plan '{}'\n", to_string(e.plan_override));
  text += e.reasons;
  if (!text.ends_with('\n')) text += '\n';
  std::vector<std::string> all = e.tensors;
  all.insert(all.end(), arguments.begin(), arguments.end());
  return text + fmt::format("a launch hands over: {}\n", fmt::join(all, ", "));
}

}  // namespace unisono::cuda
