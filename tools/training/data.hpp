#pragma once
/// Examples in .npz files, and their order.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "media/npz.hpp"
#include "training/config.hpp"

namespace unisono::training {

/// Examples of all shards, in memory in the types in which they lie there.
class Examples {
 public:
  /// `shapes` and `types`: of the trainer's inputs, with the batch as the first extent. Throws UserError, which names
  /// shard and array, for one that is missing or has another shape, and for arrays of different lengths.
  Examples(const std::vector<std::filesystem::path>& shards, const std::map<std::string, DataArray>& inputs,
           const std::map<std::string, std::vector<std::int64_t>>& shapes, const std::map<std::string, DType>& types);

  std::int64_t count() const { return count_; }
  /// Copies these examples into batches: by input, as many elements as its shape says.
  void gather(const std::vector<std::int64_t>& which, std::map<std::string, std::vector<std::byte>>& batch) const;

 private:
  struct Column {
    std::string input;
    DType type;  ///< the input's
    double scale;
    std::int64_t elements;            ///< in an example
    std::vector<media::Array> parts;  ///< a shard each
  };
  void add_shard(const std::filesystem::path& shard, const std::map<std::string, DataArray>& inputs,
                 const std::map<std::string, std::vector<std::int64_t>>& shapes);

  std::vector<Column> columns_;
  std::vector<std::int64_t> first_{0};  ///< example of each shard, and of the end
  std::int64_t count_ = 0;
};

/// The order of the examples of an epoch, from 0 on: a permutation that seed and epoch decide.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::int64_t epoch);

}  // namespace unisono::training
