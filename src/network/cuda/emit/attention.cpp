/// Attention: by cuDNN, or by kernels of Unisono's.

#include <algorithm>

#include "network/cuda/decide/attention_operands.hpp"
#include "network/cuda/emit/emission.hpp"
#include "network/cuda/emit/product_launches.hpp"
#include "products/sm90_attention.hpp"
#include "runtime/cuda/cudnn_attention.hpp"

namespace unisono::network::gpu {

namespace {

// A launch of cuDNN's. What kernels it is, and whether their CTAs wait for one another, cuDNN does not say
class CudnnStep final : public Step {
 public:
  CudnnStep(std::shared_ptr<const cudnn::AttentionPlan> plan, std::vector<PlacedMatrix> placed)
      : plan_(std::move(plan)), placed_(std::move(placed)) {}

  std::optional<jit::Request> request() const override { return std::nullopt; }
  void load(int device_index, jit::Binary) override { device_index_ = device_index; }
  std::size_t workspace_bytes() const override { return plan_->workspace_bytes(); }
  Launch bind(const Bases& bases) const override {
    std::vector<void*> addresses;
    for (const PlacedMatrix& m : placed_) addresses.push_back(first_element(m, bases));
    return cuda::bind_attention(device_index_, plan_, addresses, bases.workspace);
  }

 private:
  std::shared_ptr<const cudnn::AttentionPlan> plan_;
  std::vector<PlacedMatrix> placed_;  // q, k, v, y, masks
  int device_index_ = 0;
};

class AttentionEmission {
 public:
  explicit AttentionEmission(RegionEmission& e)
      : e_(e), operands_(attention_operands(e.in, *e.op)), problem_(operands_.problem) {}

  void run();

 private:
  void add(const ProductWork& work);
  void add_sm90(const products::Sm90AttentionKernel& attention, const ProductWork& work);
  void add_cudnn(const std::shared_ptr<const cudnn::AttentionPlan>& plan, const ProductWork& work);

  RegionEmission& e_;
  AttentionOperands operands_;
  products::AttentionProblem& problem_;
};

void AttentionEmission::run() {
  const AttentionParams& p = problem_.extents;
  const double batch = products::count(p.batches), widths = double{1} * p.width + p.value_width;
  const ProductWork work{2 * batch * p.queries * p.keys * widths, batch * widths * (double{1} * p.queries + p.keys)};
  const std::optional<AttentionPlan>& decided = e_.plan.regions[e_.index].attention;
  if (decided && decided->cudnn) return add_cudnn(decided->cudnn, work);
  if (const auto tiles = products::sm90_attention_tiles(problem_, e_.in.device))
    add_sm90(products::sm90_attention(problem_, *tiles), work);
  else
    add(work);
  if (decided) e_.launches.last().how += ": not by cuDNN: " + decided->not_cudnn->first();
}

void AttentionEmission::add_cudnn(const std::shared_ptr<const cudnn::AttentionPlan>& plan, const ProductWork& work) {
  std::vector<PlacedMatrix> placed = operands_.placed;
  std::rotate(placed.begin() + 3, placed.end() - 1, placed.end());  // the result ahead of the masks
  auto step = std::make_unique<CudnnStep>(plan, placed);
  step->what = describe(e_.net(), *e_.op), step->how = plan->text();
  step->flop = work.flop, step->bytes = work.elements * static_cast<double>(size_of(e_.in.element));
  std::vector<Location> used;
  for (std::size_t i = 0; i < placed.size(); ++i) {
    used.push_back(placed[i].at);
    if (!placed[i].at.constant) (i == 3 ? step->uses.writes : step->uses.reads).push_back(placed[i].memory);
  }
  step->uses.exchanges = step->uses.exclusive = true;
  step->uses.blocks = e_.in.device.sms, step->uses.threads = e_.in.device.threads / 2;
  e_.add(std::move(step), used);
}

void AttentionEmission::add(const ProductWork& work) {
  const products::Kernel kernel = products::attention(problem_, e_.in.device);
  const auto masks = static_cast<std::size_t>(problem_.masks);
  add_launch(e_, kernel, problem_.extents, work, operands_.placed, [masks](AttentionParams& q, const auto& at) {
    q.q.memory = at(0), q.k.memory = at(1), q.v.memory = at(2);
    for (std::size_t i = 0; i < masks; ++i) q.masks[i].values.memory = at(3 + i);
    q.y.memory = at(3 + masks);
  });
}

void AttentionEmission::add_sm90(const products::Sm90AttentionKernel& attention, const ProductWork& work) {
  const auto parameter = [fixed = attention.parameters, maps = attention.maps,
                          element = problem_.element](const auto& at) {
    Sm90AttentionParams p = fixed;
    p.y.memory = at(3);
    PlainParameter made(bytes_of(p));
    constexpr std::array<const char*, 3> what{"the queries", "the keys", "the values"};
    for (std::size_t i = 0; i < 3; ++i) {
      families::MapShape shape{.rank = 4, .swizzle_bytes = 128};
      std::ranges::copy(maps[i].extents, shape.extents.begin());
      std::ranges::copy(maps[i].strides, shape.strides.begin());
      std::ranges::copy(maps[i].box, shape.box.begin());
      const auto offset = reinterpret_cast<const std::byte*>(&p.maps[i]) - reinterpret_cast<const std::byte*>(&p);
      made.maps.push_back({static_cast<std::size_t>(offset), shape, at(i), element, what[i]});
    }
    return made;
  };
  add_launch_of<Sm90AttentionParams>(e_, attention.kernel, work, operands_.placed, parameter);
}

}  // namespace

void emit_attention(RegionEmission& e) { AttentionEmission(e).run(); }

}  // namespace unisono::network::gpu
