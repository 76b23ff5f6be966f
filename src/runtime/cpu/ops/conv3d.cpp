#include "runtime/cpu/ops/conv3d.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "runtime/cpu/chains.hpp"
#include "runtime/cpu/ops/conv3d_part.hpp"
#include "runtime/cpu/scratch.hpp"

namespace unisono::cpu {

namespace {

// Output channels of a task: enough for oneDNN to keep its registers full, few enough to share a layer out
constexpr std::int64_t task_channels = 32;

// A volume's depth is cut, too, where its channels alone make fewer tasks than this, or where a task's result exceeds
// `most_bytes`: several summands are added to it, and it is then brought into the order of the tensor
constexpr std::int64_t wanted_tasks = 16, most_bytes = 512 << 10;
// ... but not finer than this: each task reads the whole filter of its channels
constexpr std::int64_t least_bytes = 64 << 10;

// Input channels of a sum's part are a multiple of this
constexpr std::int64_t vector_channels = 16;

// Parts of equal length into which the sum of an output element is divided, by input channels
std::int64_t parts_of_sum(const Volumes& v, const Strided& x, const Strided& w) {
  const std::int64_t channels = x.shape[1], taps = w.shape[2] * w.shape[3] * w.shape[4];
  if (v.groups > 1 || channels % vector_channels != 0) return 1;
  const std::int64_t most = channels / vector_channels;
  std::int64_t n = std::min(most, (channels * taps + longest_chain - 1) / longest_chain);
  while (most % n != 0) ++n;
  return n;
}

// Groups of a part, and the output channels of each: some of the only group's, or whole groups
std::pair<std::int64_t, std::int64_t> part_of(const Volumes& v, std::int64_t channels) {
  if (v.groups == 1) return {1, std::min(channels, task_channels)};
  const std::int64_t each = channels / v.groups;
  std::int64_t groups = std::clamp<std::int64_t>(task_channels / each, 1, v.groups);
  while (v.groups % groups != 0) --groups;
  return {groups, each};
}

// Into how many ranges the depth is cut, where the channels make `parts` tasks an image
std::int64_t wanted_ranges(const Strided& y, std::int64_t channels, std::int64_t parts) {
  const std::int64_t bytes = std::min(channels, y.shape[1]) * y.shape[2] * y.shape[3] * y.shape[4] * 4;
  const auto times = [](std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; };
  const std::int64_t wanted = std::max(times(bytes, most_bytes), times(wanted_tasks, parts * y.shape[0]));
  return std::clamp<std::int64_t>(std::min(wanted, bytes / least_bytes), 1, y.shape[2]);
}

// A slice of an image's depth: from the tensor, and into the order that a part reads
Reordering slice_reordering(const Strided& x, std::int64_t channels) {
  const Extents64 shape{1, channels, 1, x.shape[3], x.shape[4]}, from = strides_of(x);
  return reordering(desc_of(shape, {1, channels == 1 ? 1 : from[1], 1, from[3], from[4]}),
                    desc_of(shape, {1, 1, 1, x.shape[4] * channels, channels}));
}

// The ranges of a volume's depth, and what computes them
struct Depth {
  using Extent = Conv3dPart::Extent;

  // `first`: the channels of all parts but the last one, which has `last`
  Depth(const Volumes& v, const Strided& x, const Strided& w, bool bias, const Strided& y, const Extent& first,
        const Extent& last, std::vector<DepthRange> cut)
      : ranges(std::move(cut)), kernel_of(ranges.size(), 0) {
    std::vector<DepthRange> distinct{ranges[ranges.size() / 2]};  // most are like it: it chooses the filter's format
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      const auto same = [&](const DepthRange& r) { return r.geometry() == ranges[i].geometry(); };
      const auto found = std::find_if(distinct.begin(), distinct.end(), same);
      kernel_of[i] = static_cast<std::size_t>(found - distinct.begin());
      if (found == distinct.end()) distinct.push_back(ranges[i]);
    }
    for (const DepthRange& r : distinct) {
      firsts.emplace_back(v, x, w, bias, y, first, r, firsts.empty() ? nullptr : &firsts.front());
      lasts.emplace_back(v, x, w, bias, y, last, r, lasts.empty() ? nullptr : &lasts.front());
    }
  }

  bool is_slow() const {
    const auto slow = [](const Conv3dPart& p) { return p.is_slow; };
    return std::any_of(firsts.begin(), firsts.end(), slow) || std::any_of(lasts.begin(), lasts.end(), slow);
  }

  std::vector<DepthRange> ranges;
  std::vector<std::size_t> kernel_of;  // by range
  std::vector<Conv3dPart> firsts, lasts;
};

// Cut, unless oneDNN has no kernel for a range in the format of the filter that the others read
template <class... Arguments>
Depth cut_depth(std::vector<DepthRange> ranges, const DepthRange& whole, const Arguments&... arguments) {
  if (ranges.size() > 1) {
    try {
      Depth cut(arguments..., std::move(ranges));
      if (!cut.is_slow()) return cut;
    } catch (const dnnl::error& e) {
      if (e.status == dnnl_out_of_memory) throw;
    }
  }
  return Depth(arguments..., {whole});
}

}  // namespace

struct Conv3d::State {
  State(const Volumes& v, const Strided& from, const Strided& filter, bool bias, const Strided& to, bool constant);

  void read_filters(const float* from, std::byte* filters, const Parallel& parallel, ScratchPieces& pieces) const;
  void read_images(const float* from, float* images, const Parallel& parallel, ScratchPieces& pieces) const;
  void multiply(const float* images, const std::byte* filters, const float* bias, float* to, const Parallel& parallel,
                ScratchPieces& pieces) const;
  void run_part(std::int64_t task, const float* images, const std::byte* filters, const float* bias, float* to,
                std::byte* scratch) const;

  std::int64_t ranges() const { return std::ssize(cut.ranges); }
  const Conv3dPart& part(std::int64_t number, std::int64_t range = 0) const {
    return (number == parts - 1 ? cut.lasts : cut.firsts)[cut.kernel_of[static_cast<std::size_t>(range)]];
  }
  // What the filter of one part takes for one summand
  std::size_t filter_bytes() const { return aligned_size(cut.firsts.front().filter.get_size()); }
  std::int64_t source_elements() const { return in_channels * x.shape[2] * x.shape[3] * x.shape[4]; }
  // Scratch: the images, and filters that are not constant, in oneDNN's order | what each thread has
  std::size_t image_bytes() const { return aligned_size(static_cast<std::size_t>(count_of(x.shape)) * sizeof(float)); }
  std::size_t all_filter_bytes() const { return filter_bytes() * static_cast<std::size_t>(parts * summands); }
  std::size_t shared_bytes() const { return image_bytes() + (is_constant ? 0 : all_filter_bytes()); }
  std::size_t thread_bytes() const;
  static std::size_t pad_bytes(const Conv3dPart& p) { return aligned_size(std::max(p.scratchpad, p.write.scratchpad)); }

  Strided x, w, y;
  bool is_constant;
  std::int64_t groups, channels;           // groups and channels in a part; the last one may have fewer channels
  std::int64_t parts;                      // parts of an image
  std::int64_t summands;                   // parts of a sum
  std::int64_t sources;                    // parts of an image that is read: one a summand, or one a part of the result
  std::int64_t in_channels;                // channels of a source
  std::int64_t filter_step, summand_step;  // elements from one's filter to the next one's
  Depth cut;
  Reordering read_slice;
  std::once_flag once;
  AlignedBuffer constant_filters;
};

Conv3d::State::State(const Volumes& v, const Strided& from, const Strided& filter, bool bias, const Strided& to,
                     bool constant)
    : x(from),
      w(filter),
      y(to),
      is_constant(constant),
      groups(part_of(v, to.shape[1]).first),
      channels(part_of(v, to.shape[1]).second * groups),
      parts((to.shape[1] + channels - 1) / channels),
      summands(parts_of_sum(v, from, filter)),
      sources(v.groups == 1 ? summands : parts),
      in_channels(from.shape[1] / sources),
      filter_step(v.groups == 1 ? channels * filter.strides[v.transposed ? 1 : 0]
                                : groups * (filter.shape[0] / v.groups) * filter.strides[0]),
      summand_step(in_channels * filter.strides[v.transposed ? 0 : 1]),
      cut(cut_depth(depth_ranges(v, from, filter, to, wanted_ranges(to, channels, parts)), whole_depth(v, from, to), v,
                    from, filter, bias, to, Conv3dPart::Extent{groups, in_channels / groups, channels / groups},
                    Conv3dPart::Extent{groups, in_channels / groups, (to.shape[1] - (parts - 1) * channels) / groups})),
      read_slice(slice_reordering(from, in_channels)),
      constant_filters(constant ? all_filter_bytes() : 0) {}

std::size_t Conv3d::State::thread_bytes() const {
  std::size_t most =
      std::max({read_slice.scratchpad, part(0).read_filter.scratchpad, part(parts - 1).read_filter.scratchpad});
  for (const auto* list : {&cut.firsts, &cut.lasts})
    for (const Conv3dPart& p : *list) most = std::max(most, pad_bytes(p) + p.target.get_size());
  return aligned_size(most);
}

void Conv3d::State::read_filters(const float* from, std::byte* filters, const Parallel& parallel,
                                 ScratchPieces& pieces) const {
  parallel(parts * summands, [&](std::int64_t begin, std::int64_t end) {
    const auto pad = pieces.take();
    for (std::int64_t i = begin; i < end; ++i)
      part(i / summands)
          .read_filter.call({from + i / summands * filter_step + i % summands * summand_step,
                             filters + static_cast<std::size_t>(i) * filter_bytes(), pad.data()});
  });
}

void Conv3d::State::read_images(const float* from, float* images, const Parallel& parallel,
                                ScratchPieces& pieces) const {
  const std::int64_t depth = x.shape[2], slice = in_channels * x.shape[3] * x.shape[4];
  parallel(x.shape[0] * sources * depth, [&](std::int64_t begin, std::int64_t end) {
    const auto pad = pieces.take();
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t source = i / depth % sources, image = i / depth / sources;
      const std::int64_t offset = image * x.strides[0] + source * in_channels * x.strides[1] + i % depth * x.strides[2];
      read_slice.call({from + offset, images + i * slice, pad.data()});
    }
  });
}

// Scratch: oneDNN's | the result, channels innermost
void Conv3d::State::run_part(std::int64_t task, const float* images, const std::byte* filters, const float* bias,
                             float* to, std::byte* scratch) const {
  const std::int64_t number = task % parts, range = task / parts % ranges(), image = task / parts / ranges();
  const Conv3dPart& p = part(number, range);
  const DepthRange& slices = cut.ranges[static_cast<std::size_t>(range)];
  std::byte* const result = scratch + pad_bytes(p);
  for (std::int64_t i = 0; i < summands; ++i) {
    const std::int64_t source = image * sources + (sources == summands ? i : number);
    const float* const from =
        images + source * source_elements() + slices.in_first * in_channels * x.shape[3] * x.shape[4];
    const std::byte* const filter = filters + static_cast<std::size_t>(number * summands + i) * filter_bytes();
    if (i == 0)
      p.begin({from, filter, bias ? bias + number * channels : nullptr, result, scratch});
    else
      p.add({from, filter, nullptr, result, scratch});
  }
  const std::int64_t offset = image * y.strides[0] + number * channels * y.strides[1] + slices.first * y.strides[2];
  p.write.call({result, to + offset, scratch});
}

void Conv3d::State::multiply(const float* images, const std::byte* filters, const float* bias, float* to,
                             const Parallel& parallel, ScratchPieces& pieces) const {
  parallel(y.shape[0] * ranges() * parts, [&](std::int64_t begin, std::int64_t end) {
    const auto own = pieces.take();
    for (std::int64_t i = begin; i < end; ++i) run_part(i, images, filters, bias, to, own.data());
  });
}

Conv3d::Conv3d(const Volumes& v, const Strided& x, const Strided& w, bool has_bias, const Strided& y,
               bool constant_filter) {
  if (count_of(y.shape) == 0) return;
  const SingleThreaded single;
  const Making making;
  state_ = with_own_errors([&] { return std::make_shared<State>(v, x, w, has_bias, y, constant_filter); });
}

std::size_t Conv3d::scratch_bytes(int threads) const {
  if (!state_) return 0;
  return state_->shared_bytes() + static_cast<std::size_t>(threads) * state_->thread_bytes();
}

void Conv3d::run(const void* x, const void* w, const void* bias, void* y, const Parallel& parallel,
                 const OperatorScratch& scratch) const {
  if (!state_) return;  // no element
  State& s = *state_;
  ScratchPieces pieces({scratch.data + s.shared_bytes(), scratch.threads}, s.thread_bytes());
  auto* const source = reinterpret_cast<float*>(scratch.data);
  std::byte* const filters = s.is_constant ? s.constant_filters.data() : scratch.data + s.image_bytes();
  const auto read_filters = [&] { s.read_filters(static_cast<const float*>(w), filters, parallel, pieces); };
  if (s.is_constant)
    std::call_once(s.once, read_filters);
  else
    read_filters();
  s.read_images(static_cast<const float*>(x), source, parallel, pieces);
  s.multiply(source, filters, static_cast<const float*>(bias), static_cast<float*>(y), parallel, pieces);
}

}  // namespace unisono::cpu
