// Families of random cases: a contraction, an epilogue and a plan that are served, and four sizes of it.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>

#include "families/registry.hpp"
#include "gpu/broad.hpp"
#include "lower/lower.hpp"
#include "passes/passes.hpp"
#include "plan/as_convolution.hpp"
#include "unisono/error.hpp"
#include "unisono/text.hpp"

namespace unisono::gpu {

namespace {

using test::Random;

// Draws are the same on every machine: for an H200, unless a GPU with other families is at hand, or planned for
const plan::Device& drawing_device() {
  static const plan::Device device = planning_device().major == 9 ? plan::Device{} : planning_device();
  return device;
}

// The reason of the first refusal, without numbers and names
std::string reason_of(const std::string& message) {
  std::size_t end = message.find('\n');
  const bool listed = message.find("no kernel serves") < end && end != std::string::npos;  // then the first of the list
  const std::size_t begin = listed ? message.find_first_not_of(" \n", end) : 0;
  if (listed) end = message.find('\n', begin);
  const std::string text = message.substr(begin, end - begin);
  std::string without;
  for (const char c : text)
    if (c < '0' || c > '9') without += c;
  return without.substr(0, 160);
}

// Pixels and rows may lie apart where they go through TMA
void settle_gaps(Random& random, const lower::Lowered& k, Case& c) {
  if (!k.plan().pitched_image) c.gaps.image = 0;
  const bool rows = k.plan().pitched_output && c.conv.k % 8 == 0 && !k.epilogue().outputs.empty() &&
                    k.epilogue().outputs[0].path == plan::Output::StorePath::after;
  c.gaps.output = rows && random.chance(0.1) ? 8 * random.between(1, 4) : 0;
}

bool has_pixels_to_pool(const Case& c) {
  const Extents e = extents(c.contraction());
  return c.resampled.pooled.empty() || (e.height > 1 && e.width > 1);
}

bool is_served_there(Case& c, families::PlanPointer& taken, Random& random, Refusals& refusals) {
  if (!has_pixels_to_pool(c)) return false;
  try {
    const lower::Lowered k = lower::lower(c.contraction(), graph_of(c), c.options, drawing_device()).value();
    taken = k.chosen.plan;
    settle_gaps(random, k, c);
    return true;
  } catch (const Unsupported& error) {
    ++refusals[reason_of(error.what())];
    return false;
  } catch (const Error& error) {
    throw InternalError(fmt::format("{}\n{}", c.describe(), error.what()));
  }
}

std::string override_of(const families::Plan& plan, bool stages) {
  const auto* conv = dynamic_cast<const families::sm90_conv::ConvPlan*>(&plan);
  if (conv == nullptr) return to_string(families::override_of(plan));
  const families::sm90_conv::ConvConfig& c = conv->config;
  std::string text = fmt::format("tile={}x{} depth={} order={} load={} cluster={}x{} split={} swap={} mode={}",
                                 c.tile.m, c.tile.n, c.tile.k, families::sm90::to_string(c.schedule.order),
                                 c.gathered()          ? "gather"
                                 : c.two_dimensional() ? "halo"
                                                       : "runs",
                                 c.schedule.cluster.m, c.schedule.cluster.n, c.schedule.split ? "on" : "off",
                                 c.schedule.swap ? "on" : "off", families::sm90::to_string(c.mode()));
  if (stages && c.two_dimensional()) text += fmt::format(" stages={}+{}", c.schedule.stages, c.activation_stages());
  if (stages && !c.two_dimensional()) text += fmt::format(" stages={}", c.schedule.stages);
  if (stages) text += fmt::format(" buffers={}", c.features.store_buffers);
  if (c.features.fetch) text += fmt::format(" fetch={}", *c.features.fetch);
  return text;
}

// Any legal plan, not the best
std::string draw_plan(const Case& c, Random& random) {
  const lower::Problem problem = lower::analyse(c.contraction(), graph_of(c), c.options).value();
  std::vector<families::PlanPointer> legal;
  for (const families::Candidate& x : families::candidates({problem.task, problem.forms, drawing_device()}).value())
    if (x.is_legal()) legal.push_back(x.plan);
  return legal.empty() ? "" : override_of(*random.one_of(legal), true);
}

struct BroadFamily {
  Case first;
  bool own_plans = false;
};

// Other forms of the store that TMA writes, if a kernel makes them. Draws nothing from the other cases' numbers
void draw_forms(Case& c, families::PlanPointer& plan, Random random, Refusals& refusals) {
  if (!random.chance(0.12) || !c.witnessed.empty() || c.product) return;
  const plan::Epilogue e = lower::analyse(c.contraction(), graph_of(c), c.options).value().epilogue();
  const auto main = plan::main_store(e);
  if (!main) return;
  const auto of_its_value = [&](const Store& s) { return s.value == e.graph.stores[*main].value; };
  if (std::ranges::count_if(e.graph.stores, of_its_value) != 1) return;
  Case formed = c;
  if (random.chance(0.6)) formed.resampled.pooled = "pooled";
  if (formed.resampled.pooled.empty() || random.chance(0.3)) formed.resampled.upsampled = "upsampled";
  families::PlanPointer of_forms;
  if (is_served_there(formed, of_forms, random, refusals)) c = std::move(formed), plan = of_forms;
}

// One that a kernel for depthwise convolutions serves, where there is one; or any
BroadFamily draw_family(Random& random, bool large, bool of_channels, Refusals& refusals) {
  const bool depthwise = of_channels && drawing_device().major == 9;
  for (int tries = 0; tries < 1000; ++tries) {
    BroadFamily f;
    Case& c = f.first;
    depthwise ? draw_depthwise(random, c, large) : draw_contraction(random, c, large);
    c.options.device = Device::cuda;
    const DrawnGraph drawn = draw_graph(random, c.conv.k, c.conv.dtype_x);
    c.text = drawn.text, c.scalars = drawn.scalars, c.options.device_scalars = drawn.device_scalars;
    c.witnessed = drawn.witnessed, c.witness_axes = drawn.witness_axes;
    c.options.accurate = random.chance(0.15);
    families::PlanPointer plan;
    if (!is_served_there(c, plan, random, refusals) || (depthwise && plan->family->name() != "sm90_depthwise"))
      continue;
    if (!depthwise) draw_forms(c, plan, random, refusals);
    const double way = random.uniform(0, 1);
    f.own_plans = way < 0.25;
    if (way < 0.55)
      c.options.plan = override_of(*plan, false);
    else if (!f.own_plans)
      c.options.plan = draw_plan(c, random);
    if (!is_served_there(c, plan, random, refusals)) continue;
    if (f.own_plans) c.options.plan.clear();
    return f;
  }
  const auto most = std::ranges::max_element(refusals, {}, [](const auto& x) { return x.second; });
  throw Unsupported(fmt::format("of a thousand problems drawn none was served{}",
                                most == refusals.end() ? "" : ", most often: " + most->first));
}

}  // namespace

bool is_large(const Case& c) { return c.name.ends_with(", large"); }

std::vector<Case> broad_family(std::uint64_t seed, int family, Refusals& refusals) {
  const bool large = family % 16 == 15;
  Random random(seed * 1'000'003 + static_cast<std::uint64_t>(family));
  const bool depthwise = family % 16 == 3;
  const BroadFamily f = draw_family(random, large, depthwise, refusals);
  std::vector<Case> cases;
  for (int shape = 0; shape < broad_shapes; ++shape) {
    Case c = f.first;
    families::PlanPointer plan;
    Refusals of_shapes;
    for (int tries = 0; shape > 0 && tries < 80; ++tries) {
      redraw_extents(random, c, large);
      if (tries == 40) c.options.plan.clear();  // no other size takes this plan
      if (is_served_there(c, plan, random, of_shapes)) break;
      c = f.first;  // the same size with other numbers, if nothing else is found
    }
    c.seed = random.next();
    c.name = fmt::format("broad case {}{}", family * broad_shapes + shape, large ? ", large" : "");
    cases.push_back(std::move(c));
  }
  return cases;
}

std::vector<Case> broad_cases(std::uint64_t seed, int count, Refusals& refusals) {
  const int families = (count + broad_shapes - 1) / broad_shapes;
  std::vector<std::vector<Case>> drawn(static_cast<std::size_t>(families));
  std::vector<Refusals> refused(drawn.size());
  std::vector<std::future<void>> workers;
  std::atomic<int> next{0};
  for (unsigned i = 0; i < std::max(1u, std::thread::hardware_concurrency()); ++i)
    workers.push_back(std::async(std::launch::async, [&] {
      for (int f = next++; f < families; f = next++) {
        const auto at = static_cast<std::size_t>(f);
        drawn[at] = broad_family(seed, f, refused[at]);
      }
    }));
  for (auto& w : workers) w.get();
  std::vector<Case> cases;
  for (auto& family : drawn) std::move(family.begin(), family.end(), std::back_inserter(cases));
  for (const Refusals& some : refused)
    for (const auto& [reason, times] : some) refusals[reason] += times;
  cases.resize(static_cast<std::size_t>(count));
  return cases;
}

}  // namespace unisono::gpu
