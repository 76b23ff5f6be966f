// Arguments of a launch by slot: what is moved, what is left alone, what is refused; workspaces of the caller.

#include "families/interface/family.hpp"
#include "families/sm90_conv/parameters.hpp"
#include "families/sm90_depthwise/parameters.hpp"
#include "ir/store_forms.hpp"
#include "recorded.hpp"
#include "runtime/cuda/arguments.hpp"

namespace unisono::cuda {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A problem with every argument bound somewhere, of any kind of kernel
struct Kind {
  const char* name;
  Contraction contraction;
  const char* text;
  CompileOptions options = {};
  std::string_view family = "sm90_conv";
  std::function<bool(const families::sm90_conv::ConvConfig&)> is_meant = [](const families::sm90_conv::ConvConfig&) {
    return true;
  };
};

Conv2d image(std::int64_t c, std::int64_t k, std::int64_t window = 3) {
  return {.n = 2,
          .h = 16,
          .w = 16,
          .c = c,
          .k = k,
          .r = window,
          .s = window,
          .pad = {1, 1, 1, 1},
          .dtype_x = DType::bf16,
          .dtype_w = DType::bf16};
}

Conv2d depthwise() {
  Conv2d c = image(64, 64);
  c.groups = 64;
  return c;
}

CompileOptions with(CompileOptions options) { return options; }

std::vector<Kind> kinds() {
  const char* bias = "store relu(acc + bias[n]) as y : bf16\n";
  const ConvTranspose2d transposed{.n = 2,
                                   .h = 8,
                                   .w = 8,
                                   .c = 64,
                                   .k = 64,
                                   .r = 2,
                                   .s = 2,
                                   .stride = {2, 2},
                                   .dtype_x = DType::bf16,
                                   .dtype_w = DType::bf16};
  return {
      {"im2col", image(64, 64), block},
      {"depthwise", depthwise(), bias, {}, "sm90_depthwise"},
      {"few channels",
       image(3, 64, 7),
       bias,
       {},
       "sm90_conv",
       [](const auto& c) { return c.gathered() || c.window(); }},
      {"odd channels", image(20, 36), bias},
      {"phases", transposed, bias, {}, "sm90_conv", [](const auto& c) { return c.by_parity(); }},
      {"pooled", image(64, 64), "y = relu(acc + bias[n])\nstore y : bf16\nstore max_pool_2x2(y) as p : bf16\n"},
      {"upsampled", image(64, 64), "y = relu(acc + bias[n])\nstore y : bf16\nstore upsample_2x2(y) as e : bf16\n"},
      {"only upsampled", image(64, 64), "store upsample_2x2(relu(acc + bias[n])) as e : bf16\n"},
      {"fetched", image(64, 64), "operand r[m,n] : bf16\nstore acc + r as y : bf16\n", with({.plan = "fetch=1"}),
       "sm90_conv", [](const auto& c) { return c.features.fetch == 1; }},
      {"product", Gemm{.m = 256, .n = 128, .k = 64, .dtype_a = DType::bf16, .dtype_b = DType::bf16}, bias},
      {"products",
       Gemm{.batch = 3,
            .m = 256,
            .n = 128,
            .k = 64,
            .transpose_a = true,
            .dtype_a = DType::bf16,
            .dtype_b = DType::bf16},
       bias},
  };
}

class Slots : public CudaLaunch {
 protected:
  TensorView tensor(const std::vector<std::int64_t>& shape, DType type) {
    return {memory(element_count(shape) * static_cast<std::int64_t>(size_of(type))), type, shape, {}};
  }

  // Everything that the kind's kernel reads and writes, in separate memory
  Arguments arguments_for(const Kind& kind, const Graph& graph) {
    Arguments all;
    all.a(kind.contraction) = tensor(shape_a(kind.contraction), DType::bf16);
    all.b(kind.contraction) = tensor(shape_b(kind.contraction), DType::bf16);
    add(all, graph, kind.contraction);
    return all;
  }

  void expect_rebound_as_bound(const Kind& kind) {
    CompileOptions o = kind.options;
    o.device = Device::cuda;
    const Graph graph = parse(kind.text);
    const lower::Lowered k = lower::lower(kind.contraction, graph, o, open_device(0)).value();
    const auto* conv = dynamic_cast<const families::sm90_conv::ConvPlan*>(&k.plan());
    EXPECT_EQ(k.plan().family->name(), kind.family) << kind.name;
    EXPECT_TRUE(conv == nullptr || kind.is_meant(conv->config)) << kind.name << ": " << families::describe(k.plan());
    state.parameter_bytes =
        conv == nullptr ? families::sm90_depthwise::parameter_bytes(k.kernel.fields.size()).value()
                        : parameter_bytes(k.kernel.fields.size(), families::sm90_conv::maps_between(conv->config));
    const Executable made(build(k, {.cubin = {}, .resources = {.registers = 168}, .key = kind.name, .entry = {}}));
    const Arguments from = arguments_for(kind, graph);
    Arguments to = arguments_for(kind, graph);
    const std::size_t bytes = made.workspace_bytes();
    const WorkspaceMemory room{.memory = bytes == 0 ? nullptr : memory(static_cast<std::int64_t>(bytes)),
                               .bytes = bytes};
    Launch moved = made.bind(from, room);
    const bool product = std::holds_alternative<Gemm>(kind.contraction);
    moved.rebind(moved.slot(product ? "left" : "image"), to.a(kind.contraction).data);
    moved.rebind(moved.slot(product ? "right" : "filter"), to.b(kind.contraction).data);
    for (const auto& [name, t] : to.operands) moved.rebind(moved.slot("operand " + name), t.data);
    for (const auto& [name, t] : to.outputs) moved.rebind(moved.slot(name), t.data);
    if (graph.nodes.size() > 0 && std::string(kind.text).find("gain") != std::string::npos)
      moved.rebind(moved.slot("gain"), 0.75), to.scalars["gain"] = 0.75;
    state.launches.clear();
    moved.enqueue(nullptr);
    made.bind(to, room).enqueue(nullptr);
    made.bind(from, room).enqueue(nullptr);
    ASSERT_EQ(state.launches.size(), 3u);
    EXPECT_EQ(state.launches[0].parameters == state.launches[1].parameters, true) << kind.name;
    EXPECT_EQ(state.launches[0].parameters == state.launches[2].parameters, false) << kind.name;
  }

 private:
  void add(Arguments& all, const Graph& graph, const Contraction& contraction) {
    for (const Node& x : graph.nodes)
      if (x.op == Op::operand && x.axes != axes::scalar)
        all.operands[x.attr.name] = tensor(shape_of(x.axes, contraction), x.attr.storage.value_or(DType::f32));
    for (const Store& s : graph.stores) {
      const bool whole = s.form == StoreForm::whole;
      all.outputs[s.name] =
          tensor(whole ? shape_of(graph[s.value].axes, contraction) : ir::shape_of(s.form, contraction), s.dtype);
    }
  }
};

TEST_F(Slots, WhatIsReboundIsWhatIsBoundThere) {
  for (const Kind& kind : kinds()) expect_rebound_as_bound(kind);
}

TEST_F(Slots, NothingIsDoneForWhatStays) {
  Launch launch = built().bind(a);
  const std::size_t image = launch.slot("image"), bias = launch.slot("bias"), gain = launch.slot("gain");
  void *const other = memory(conv.n * conv.h * conv.w * conv.c * 2), *const others = memory(64 * 4);
  state.calls.clear();
  launch.rebind(image, other);
  EXPECT_THAT(state.calls, ElementsAre("move a map"));
  state.calls.clear();
  launch.rebind(image, other), launch.rebind(bias, others), launch.rebind(gain, 2);
  EXPECT_THAT(state.calls, IsEmpty()) << "the same address, a pointer, a number";
  launch.enqueue(nullptr);
  EXPECT_EQ(mapped(parameters_of(state.launches.at(0)).conv.activation), other);
}

TEST_F(Slots, NamesThatAreNone) {
  const Launch launch = built().bind(a);
  EXPECT_THAT(
      refusal<UserError>([&] { launch.slot("biass"); }),
      AllOf(HasSubstr("no argument 'biass'; its arguments are image, filter"), HasSubstr("did you mean 'bias'?")));
  EXPECT_THAT(refusal<UserError>([&] { launch.slot("a"); }), HasSubstr("no argument 'a'"));
}

TEST_F(Slots, NamesOfSeveral) {
  const std::vector<Slot> slots{{.name = "filter", .what = "the filter", .kind = Slot::Kind::factor},
                                {.name = "filter", .what = "operand filter[n]", .kind = Slot::Kind::operand},
                                {.name = "x", .what = "operand x[n]", .kind = Slot::Kind::operand},
                                {.name = "x", .what = "output x[m,n]", .kind = Slot::Kind::output}};
  EXPECT_EQ(find_slot(slots, "filter"), 0u);
  EXPECT_EQ(find_slot(slots, "operand filter"), 1u);
  EXPECT_EQ(find_slot(slots, "operand x"), 2u);
  EXPECT_EQ(find_slot(slots, "output x"), 3u);
  EXPECT_THAT(refusal<UserError>([&] { find_slot(slots, "x"); }),
              HasSubstr("'x' is the name of operand x[n] and of output x[m,n]; ask for 'operand x' or 'output x'"));
}

TEST_F(Slots, ArgumentsThatCannotBe) {
  Launch launch = built().bind(a);
  const std::size_t image = launch.slot("image"), gain = launch.slot("gain"), y = launch.slot("y");
  EXPECT_THAT(refusal<UserError>([&] { launch.rebind(image, nullptr); }), HasSubstr("a null pointer"));
  EXPECT_THAT(refusal<UserError>([&] { launch.rebind(image, static_cast<const std::byte*>(a.image.data) + 8); }),
              HasSubstr("expected a multiple of 16 bytes"));
  EXPECT_THAT(refusal<UserError>([&] { launch.rebind(gain, a.image.data); }), HasSubstr("expected a number"));
  EXPECT_THAT(refusal<UserError>([&] { launch.rebind(image, 1.0); }), HasSubstr("expected the address"));
  EXPECT_THAT(refusal<UserError>([&] { launch.rebind(100, a.image.data); }), HasSubstr("slot 100 was given"));
  EXPECT_NO_THROW(launch.enqueue(nullptr)) << "nothing of it was taken";
  // An output where an input lies is an error of the launch, so that two may change places
  void* const elsewhere = memory(conv.n * conv.h * conv.w * conv.c * 2);
  launch.rebind(y, a.image.data);
  EXPECT_THAT(refusal<UserError>([&] { launch.enqueue(nullptr); }), HasSubstr("output y[m,n] shares memory with"));
  EXPECT_THAT(refusal<UserError>([&] { launch.enqueue(nullptr); }), HasSubstr("shares memory")) << "again";
  launch.rebind(image, elsewhere);
  EXPECT_NO_THROW(launch.enqueue(nullptr));
}

TEST_F(Slots, AWorkspaceOfTheCallers) {
  const std::size_t bytes = built().workspace_bytes();
  ASSERT_GT(bytes, 0u);
  EXPECT_EQ(bytes, kernel.plan().workspace_bytes);
  auto* const room = static_cast<std::byte*>(memory(static_cast<std::int64_t>(2 * bytes)));
  std::fill_n(room, 2 * bytes, std::byte{0x5a});
  const std::size_t before = state.memory.size();
  Launch launch = built().bind(a, {.memory = room, .bytes = bytes});
  EXPECT_EQ(state.memory.size(), before) << "nothing is allocated";
  EXPECT_EQ(launch.workspace_bytes(), bytes);
  EXPECT_TRUE(std::all_of(room, room + bytes, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_EQ(room[bytes], std::byte{0x5a});
  const auto exits = [&] {
    return reinterpret_cast<const std::byte*>(parameters_of(state.launches.back()).conv.launch.exits);
  };
  launch.enqueue(nullptr);
  EXPECT_EQ(exits(), room + dynamic_cast<const families::sm90_conv::ConvPlan&>(kernel.plan()).workspace.exits);
  auto* const other = static_cast<std::byte*>(memory(static_cast<std::int64_t>(bytes)));
  std::fill_n(other, bytes, std::byte{1});
  launch.use({.memory = other, .bytes = bytes, .is_clear = true});
  EXPECT_EQ(other[0], std::byte{1}) << "the caller says that it is clear";
  launch.enqueue(nullptr);
  EXPECT_EQ(exits(), other + dynamic_cast<const families::sm90_conv::ConvPlan&>(kernel.plan()).workspace.exits);
  launch.use({});
  EXPECT_EQ(state.memory.size(), before + 2) << "its own, and that of the test";
}

TEST_F(Slots, WorkspacesThatCannotServe) {
  const std::size_t bytes = built().workspace_bytes();
  auto* const room = static_cast<std::byte*>(memory(static_cast<std::int64_t>(bytes) + 256));
  const auto refused = [&](const WorkspaceMemory& w) { return refusal<UserError>([&] { built().bind(a, w); }); };
  EXPECT_THAT(refused({.memory = room, .bytes = bytes - 1}), HasSubstr("as workspace_bytes() says"));
  EXPECT_THAT(refused({.memory = room + 16, .bytes = bytes}), HasSubstr("expected a multiple of 256 bytes"));
  EXPECT_THAT(refused({.memory = nullptr, .bytes = bytes}), HasSubstr("at a null pointer"));
  alignas(256) static std::byte host[256];
  EXPECT_THAT(refused({.memory = host, .bytes = bytes}), HasSubstr("the workspace was given"));
  EXPECT_THAT(refused({.memory = const_cast<void*>(a.image.data), .bytes = bytes}),
              HasSubstr("the image shares memory"));
}

// A captured node keeps the arguments of its moment
TEST_F(Slots, AreCopiedByACapture) {
  const CUstream s = stream();
  Launch launch = built().bind(a);
  const CUgraph graph = captured(s, [&] { launch.enqueue(s); });
  launch.rebind(launch.slot("image"), memory(conv.n * conv.h * conv.w * conv.c * 2));
  EXPECT_EQ(mapped(parameters_of(state.launches.at(0)).conv.activation), a.image.data);
  driver().cuGraphDestroy(graph);
}

}  // namespace
}  // namespace unisono::cuda
