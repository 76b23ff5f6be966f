// A video decoder, chunk by chunk: the first frame of the latents by one network, each frame after it by another, whose
// causal convolutions read what they kept of earlier frames. The caches are tensors of the caller's, in two sets that
// take turns. The files are those of unisono.pytorch.video_decoder(vae).export(…). usage: decode_video FOLDER FRAMES
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unisono/unisono.hpp>

#include "random_tensor.hpp"

namespace {

using Shapes = std::map<std::string, std::vector<std::int64_t>>;
using Caches = std::map<std::string, example::Tensor>;  // by the names of the inputs, "cache_0", …

/// One of the two networks, with the shapes of its inputs and outputs.
struct Chunk {
  unisono::Network model;
  unisono::NetworkExecutable network;
  Shapes inputs, outputs;

  explicit Chunk(const std::string& path) : model(unisono::load_onnx(path)), network(unisono::compile(model)) {
    for (const unisono::TensorId id : model.inputs)
      for (const unisono::Dim& dim : model[id].shape) inputs[model[id].name].push_back(dim.value());
    outputs = network.output_shapes(inputs);
  }

  /// z: the latents of the chunk; caches: none for the first chunk. Writes the caches for the next one.
  example::Tensor run(const example::Tensor& z, const Caches& caches, Caches& made) const {
    example::Tensor sample(outputs.at("sample"));
    std::map<std::string, unisono::ConstTensorView> in{{"z", z.view()}};
    std::map<std::string, unisono::TensorView> out{{"sample", sample.view()}};
    for (const auto& [name, cache] : caches) in[name] = cache.view();
    for (const auto& [name, shape] : outputs) {
      if (name == "sample") continue;
      const std::string cache = name.substr(4);  // "new_cache_0" is "cache_0" of the next chunk
      out[name] = made.try_emplace(cache, shape).first->second.view();
    }
    network.run(in, out);
    return sample;
  }
};

/// The frames of all chunks.
std::vector<float> decode(const Chunk& first, const Chunk& following, const std::vector<example::Tensor>& latents) {
  Caches caches, made;
  std::vector<float> frames;
  for (std::size_t i = 0; i < latents.size(); ++i) {
    const example::Tensor sample = i == 0 ? first.run(latents[i], {}, made) : following.run(latents[i], caches, made);
    frames.insert(frames.end(), sample.values.begin(), sample.values.end());
    std::swap(caches, made);
  }
  return frames;
}

int run(const std::string& folder, int count) {
  const Chunk first(folder + "/first.onnx"), following(folder + "/following.onnx");
  std::vector<example::Tensor> latents;
  for (int i = 0; i < count; ++i) latents.push_back(example::normal(first.inputs.at("z"), static_cast<unsigned>(i)));
  const std::vector<float> video = decode(first, following, latents);
  std::printf("%d frames of latents: %zu values in %zu caches between chunks\n", count, video.size(),
              first.outputs.size() - 1);

  // Frames do not depend on later ones, and do on earlier ones
  latents.pop_back();
  const std::vector<float> before = decode(first, following, latents);
  bool right = std::equal(before.begin(), before.end(), video.begin());
  latents.erase(latents.begin());
  const std::vector<float> without = decode(first, following, latents);
  right = right && !std::equal(without.rbegin(), without.rend(), before.rbegin());
  for (const float v : video) right = right && std::isfinite(v);
  return right ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc == 3 ? std::atoi(argv[2]) : 0;
  if (count < 4) {
    std::fprintf(stderr, "usage: decode_video FOLDER FRAMES, 4 or more\n");
    return 2;
  }
  try {
    return run(argv[1], count);
  } catch (const unisono::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
